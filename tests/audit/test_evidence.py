"""A row is judged by what is known of it: without evidence there is no flag and no rate, but one sentence why."""

import random

from dumps import table, write_lines

from geoalign.audit.words.finding import finding, unread_answers
from geoalign.audit.words.verifier import verifier


def free_texts(prompts=40, size=8):
    """Responses that are all different, without an answer that can be read; easy and hard prompts."""
    draw = random.Random(5)
    rows = []
    for prompt in range(prompts):
        share = draw.choice([0.9, 0.5, 0.2])
        rows += [
            {"prompt": f"Who founded club {prompt}?", "response": f"Founder {draw.random()} did.",
             "reward": float(draw.random() < share)}
            for _ in range(size)
        ]  # fmt: skip
    return rows


def answered(rewards, prompts=40, size=8):
    """Boxed answers with rewards drawn from a list, whatever the answer."""
    draw = random.Random(1)
    return [
        {"prompt": f"Problem {prompt}", "response": f"Try {row}: \\boxed{{{draw.choice('aab')}}}",
         "reward": rewards(draw)}
        for prompt in range(prompts) for row in range(size)
    ]  # fmt: skip


def flags(folder):
    return sum(row["anomalous"] for row in table(folder))


def audited(run, folder, rows):
    summary = run(write_lines(folder / "d.jsonl", rows), curator="denoise", settings=["curator.geometry=none"])
    return summary, flags(folder / "out")


def test_one_answer_among_free_texts_judges_no_row(run, tmp_path):
    rows = free_texts()
    rows[3]["response"] = r"In short \boxed{x^2}."
    summary, flagged = audited(run, tmp_path, rows)
    assert flagged == 0
    rates = summary["verifier"]["rates"]
    assert all((rates[name]["low"], rates[name]["high"]) == (0, 1) for name in list(rates)[:2])
    assert verifier(summary).rates == ()
    assert "1 of 320" in unread_answers(summary)


def test_a_lone_answer_in_every_other_prompt_judges_no_row(run, tmp_path):
    rows = free_texts()
    for at in range(0, len(rows), 16):
        rows[at]["response"] = rf"In short \boxed{{{at}}}."
    _, flagged = audited(run, tmp_path, rows)
    assert flagged == 0


def test_two_values_by_accident_are_no_verdicts(run, tmp_path):
    rows = answered(lambda draw: draw.choice([0.37, 0.62]))
    summary, flagged = audited(run, tmp_path, rows)
    assert flagged == 0
    assert "rates" not in summary["verifier"]
    assert finding(summary).level == "unjudged"
    assert "0.37 and 0.62" in finding(summary).reason


def test_identical_responses_with_two_values_by_accident_contradict_nothing(run, tmp_path):
    draw = random.Random(2)
    rows = [
        {"prompt": f"Problem {p}", "response": f"so {n % 2}", "reward": draw.choice([2.5, 3.25])}
        for p in range(40) for n in range(8)
    ]  # fmt: skip
    assert audited(run, tmp_path, rows)[1] == 0


def test_continuous_rewards_are_no_verdicts(run, tmp_path):
    rows = answered(lambda draw: draw.random())
    summary, flagged = audited(run, tmp_path, rows)
    assert flagged == 0
    assert finding(summary).level == "unjudged"
    assert verifier(summary).rates == ()


def test_verdicts_with_a_bonus_are_judged_as_ever(run, tmp_path):
    rows = answered(lambda draw: float(draw.random() < 0.5))
    summary, flagged = audited(run, tmp_path, rows)
    more = write_lines(tmp_path / "e.jsonl", [{**row, "reward": row["reward"] + 0.1} for row in rows])
    bonus = run(more, curator="denoise", settings=["curator.geometry=none"], output=tmp_path / "bonus")
    assert flags(tmp_path / "bonus") == flagged > 0
    assert bonus["verifier"]["rates"] == summary["verifier"]["rates"]
