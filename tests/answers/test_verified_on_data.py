import json
import re

import pytest

from geoalign.lab.data.benchmarks import BENCHMARKS
from geoalign.lab.data.problems import load_problems

pytest.importorskip("math_verify")

FILES = {
    "aime24": ["aime24/test.jsonl"],
    "aime25": ["aime25/test2025-I.jsonl", "aime25/test2025-II.jsonl"],
    "amc23": ["amc23/test.jsonl"],
    "math500": ["math500/test.jsonl"],
    "minerva": ["minerva_math/test.jsonl"],
    "olympiadbench": ["olympiadbench/test.jsonl"],
}

# Graded as equal within a tolerance that stands beside the pair; a problem brings none, so that here they are wrong.
WITHIN_A_TOLERANCE = {
    ("\\cos ^{10}(\\frac{\\pi}{10})", "0.6054"),
    ("7 \\times 10^{35}", "7.1 \\cdot 10^{35}"),
    ("7 \\times 10^{35}, 0.002", "0.001, 7.1 \\cdot 10^{35}"),
    ("0.003, 5.233", "0.002, 5.234"),
}

# math-verify reads no index such as \odot.
NOT_READ = "R_{\\odot}^{2}"


@pytest.fixture
def golds(shared_data):
    found = {}
    for name, paths in FILES.items():
        rows, _ = load_problems([str(shared_data / path) for path in paths], benchmark=BENCHMARKS[name])
        problems = [row.problem for row in rows]
        found[name] = [problem.answer for problem in problems]
    return found


def spellings(gold):
    """A gold answer as a response may write it: with and without dollar signs, full stop, sizes of brackets, spaces."""
    yield gold
    yield f" {gold}. "
    if "\\$" not in gold:
        yield f"${gold.replace('$', '')}$"
        yield gold.replace("$", "")
    yield gold.replace("\\frac", "\\dfrac")
    yield gold.replace("\\left", "").replace("\\right", "")
    yield re.sub(r"\\text\s*\{", r"\\mathrm{", gold)
    if re.fullmatch(r"-?[0-9]+(\.0)?", gold):
        number = int(float(gold))
        yield from (f"{number:,}", f"{number}.0", f"{number:05d}", f"\\frac{{{2 * number}}}{{2}}", f"x={number}")


def rewritten(gold):
    """The same answer, written so that it takes work to see it: the half of its double; a list in wider spacing."""
    gold = gold.replace("\\$", "")
    bare = gold.strip("$")
    if re.search(r"[=,$]|\\text|\\mbox|\\begin|\\cup|\\circ|%|[<>]|\\ge|\\le|\\pm|_", bare):
        return re.sub(r"([+=,])", r" \1 ", gold.replace("$", "").replace("\\frac", "\\dfrac"))
    return f"\\frac{{2 \\cdot ({bare})}}{{2}}"


def wrong(gold):
    """Another answer of the same form: its last number is one larger; without a number, twice the answer."""
    numbers = list(re.finditer(r"[0-9]+", gold))
    if not numbers:
        return f"2 {gold}"
    last = numbers[-1]
    return f"{gold[: last.start()]}{int(last[0]) + 1}{gold[last.end() :]}"


def test_every_gold_answer_is_right_however_it_is_boxed(golds, reward):
    whole = [gold for answers in golds.values() for gold in answers]
    assert len(whole) == 1547
    pairs = [(gold, gold) for gold in whole] + [(gold, way) for gold in whole[::20] for way in spellings(gold)]
    rewards = reward.score([f"Hence \\boxed{{{way}}}." for _, way in pairs], [gold for gold, _ in pairs])
    assert [pair for pair, found in zip(pairs, rewards, strict=True) if found != 1.0] == []


def test_another_number_in_it_is_wrong(golds, reward):
    answers = [gold for name in ("aime24", "aime25", "amc23") for gold in golds[name]]
    assert len(answers) > 90
    assert set(reward.score([f"\\boxed{{{wrong(gold)}}}" for gold in answers], answers)) == {0.0}


@pytest.mark.slow
def test_the_graded_pairs(shared_data, reward):
    examples = json.loads((shared_data / "olympiadbench" / "scoring_examples.json").read_text())
    pairs = [
        (example["GT"], answer["answer"], answer["equal"])
        for example in examples
        for answer in example["Ans"]
        # Powers of powers are in the tests of time limits.
        if "10^{10^{10" not in example["GT"]
    ]
    assert (len(examples), len(pairs)) == (24, 35)
    boxed = [answer if "\\boxed" in answer else f"\\boxed{{{answer}}}" for _, answer, _ in pairs]
    found = reward.score(boxed, [gold for gold, _, _ in pairs])
    others = {(gold, answer) for (gold, answer, equal), one in zip(pairs, found, strict=True) if bool(one) != equal}
    assert {pair for pair in others if NOT_READ not in pair[0]} == WITHIN_A_TOLERANCE


def test_real_rollouts_and_the_one_label_that_is_wrong(shared_data, reward):
    lines = (shared_data / "rollouts_qwen_rm_maj" / "math_cot_100.jsonl").read_text().splitlines()
    rows = [
        (problem["idx"], problem["gt"], response, label)
        for problem in map(json.loads, lines)
        for response, label in zip(problem["code"], problem["score"], strict=True)
    ]
    found = reward.score([response for _, _, response, _ in rows], [gold for _, gold, _, _ in rows])
    assert len(rows) == 800
    others = [(idx, gold, one) for (idx, gold, _, label), one in zip(rows, found, strict=True) if bool(one) != label]
    # The last of its eight responses answers 10000; its label says wrong.
    assert others == [(72, "10{,}000", 1.0)] or others == [("72", "10{,}000", 1.0)]


def test_gold_answers_are_right_where_it_takes_work_to_see_it(golds, reward):
    answers = [gold for name in ("math500", "olympiadbench") for gold in golds[name]][::30]
    rewards = reward.score([f"\\boxed{{{rewritten(gold)}}}" for gold in answers], answers)
    wrongly = {gold for gold, found in zip(answers, rewards, strict=True) if found != 1.0}
    # math-verify reads m as metres, which it drops at the end of an answer only.
    assert wrongly <= {"$6m$"}
