"""Verifiers that do not judge are named by their symptom, and files without a fault are not."""

import math

import numpy as np
import pandas
import pytest
from tests.shared.dumps import write_lines

from geoalign.audit.degenerate.findings import degenerate_findings
from geoalign.audit.degenerate.symptoms import (
    LookedAt,
    WholeFile,
    length_alone,
    one_value,
    tied,
    truncation_alone,
    unscored,
)

PROMPTS, SIZE = 40, 8
GROUP = np.repeat(np.arange(PROMPTS), SIZE)
ROWS = len(GROUP)


def at(reward, **columns):
    """Rollouts of which nothing is known but what is given; without groups those of GROUP."""
    rows = len(reward)
    nothing = np.full(rows, None, dtype=object)
    columns = {
        "group": GROUP[:rows], "answer": nothing, "gives_gold": np.zeros(rows, dtype=bool),
        "lengths": {"characters": np.ones(rows)}, "truncated": nothing,
        "exclusive": np.ones(rows, dtype=bool), **columns,
    }  # fmt: skip
    return LookedAt(reward=reward, **columns)


def part_of(reward, group, is_part):
    """One of two parts of a file."""
    file = WholeFile(reward=reward, group=group, is_part=is_part, parts=2)
    return at(reward[is_part], group=group[is_part], where="`env` a", file=file)


def healthy(seed=0):
    """Right answers are rewarded: of each prompt another share; wrong ones are longer, and half of these cut off."""
    rng = np.random.default_rng(seed)
    right = rng.random(ROWS) < rng.beta(2, 2, PROMPTS)[GROUP]
    answer = np.where(right, "7", rng.integers(10, 14, ROWS).astype(str)).astype(object)
    length = rng.lognormal(np.where(right, 5, 6), 0.5).round()
    return pandas.DataFrame({
        "group": GROUP, "reward": right.astype(float), "compared_answer": answer, "final_answer": answer,
        "gold_answers": [("7",)] * ROWS, "characters": length, "tokens": np.nan,
        "truncated": (~right & (length > 400)).astype(object),
        "exclusive": True, "origin": [{"env": "ab"[group % 2]} for group in GROUP],
    })  # fmt: skip


def kinds(rows):
    return [(finding["kind"], finding["where"]) for finding in degenerate_findings(rows)]


@pytest.mark.parametrize("seed", range(5))
def test_a_file_without_a_fault_is_not_named(seed):
    assert kinds(healthy(seed)) == []


def test_a_verifier_whose_verdicts_flip_is_not_named():
    rows = healthy()
    flipped = np.random.default_rng(1).random(ROWS) < 0.2
    rewarded = rows["reward"].to_numpy() > 0
    assert kinds(rows.assign(reward=(rewarded ^ flipped).astype(float))) == []


def test_one_value_counts_the_responses_that_give_the_gold_answer():
    gives_gold = np.arange(ROWS) < 30
    finding = one_value(at(np.zeros(ROWS), gives_gold=gives_gold))
    parts = {"value": 0.0, "accepts": False, "give_gold": 30, "differing": 0}
    assert (finding.rows, finding.parts) == (320, parts)
    assert one_value(at(np.append(np.zeros(ROWS - 1), 1.0), gives_gold=gives_gold)) is None


def test_one_value_says_what_the_verifier_did_and_on_how_many_prompts_answers_differ():
    """Two answers to each of the first five prompts, one to the others."""
    answer = np.where((GROUP < 5) & (np.arange(ROWS) % 2 == 0), "8", "7").astype(object)
    accepting = one_value(at(np.ones(ROWS), answer=answer)).parts
    assert (accepting["accepts"], accepting["differing"]) == (True, 5)
    assert one_value(at(np.ones(ROWS), answer=answer, exclusive=np.zeros(ROWS, dtype=bool))).parts["differing"] == 0
    assert one_value(at(np.full(ROWS, 0.37), answer=answer)).parts["accepts"] is None
    # In a part of a file of rewards 1 and 2 a reward of 1 refuses.
    reward = np.where(GROUP < 20, 1.0, 2.0)
    assert one_value(part_of(reward, GROUP, GROUP < 20)).parts["accepts"] is False


def test_one_value_of_few_rewards_says_nothing():
    assert one_value(at(np.zeros(19))) is None
    assert one_value(at(np.zeros(20))) is not None


def test_an_environment_of_one_value_is_named():
    rows = healthy()
    odd = rows["group"] % 2 == 1
    found = degenerate_findings(rows.assign(reward=rows["reward"].mask(odd, 0.0)))
    assert [(one["kind"], one["where"], one["rows"]) for one in found] == [("one_value", "`env` b", 160)]


def test_an_environment_of_one_value_is_chance_where_most_prompts_are():
    """36 of 40 prompts are refused as a whole, so that 3 of them are so together in 0.72 of all choices."""
    reward = np.where(GROUP < 36, 0.0, np.arange(ROWS) % 2)
    assert one_value(part_of(reward, GROUP, GROUP < 3)) is None


def test_missing_rewards_are_named_from_a_twentieth_on():
    assert unscored(at(np.where(np.arange(ROWS) < 15, math.nan, 1.0))) is None
    assert unscored(at(np.where(np.arange(ROWS) < 16, math.nan, 1.0))).rows == 16


def test_missing_rewards_of_an_environment_are_named_beside_the_others():
    reward = np.where((GROUP < 10) & (np.arange(ROWS) % 2 == 0), math.nan, 1.0)
    finding = unscored(part_of(reward, GROUP, GROUP < 10))
    assert (finding.rows, finding.parts) == (40, {"of": 80, "elsewhere": 0.0})


def test_missing_rewards_of_one_prompt_are_no_fault_of_its_environment():
    reward = np.append(np.where(GROUP == 0, math.nan, 1.0), [math.nan] * 4)
    group = np.append(GROUP, [1] * 4)
    assert unscored(part_of(reward, group, group < 10)) is None


def test_a_reward_of_the_prompt_is_named():
    answer = np.array([str(row % 3) for row in range(ROWS)], dtype=object)
    reward = (GROUP % 2).astype(float)
    assert tied(at(reward, answer=answer)).parts == {"prompts": PROMPTS, "at_most_one_right": True}
    reward[0] = 1.0
    assert tied(at(reward, answer=answer)) is None


def small(reward_of_answer):
    """Twenty prompts, each with two different answers that were given once; the rewards are [20, 2]."""
    group = np.repeat(np.arange(20), 2)
    answer = np.array([str(row) for row in range(40)], dtype=object)
    return at(reward_of_answer.ravel().astype(float), group=group, answer=answer)


@pytest.mark.parametrize(("accepted", "is_named"), [(1, False), (2, False), (3, True)])
def test_prompts_that_are_tied_by_chance_are_not_named(accepted, is_named):
    """One of the two answers tells the other. The 20 others have C(20, k) orders: 20, 190 and 1,140; the level is one
    of a thousand."""
    reward = np.repeat((np.arange(20) < accepted)[:, None], 2, axis=1)
    assert (tied(small(reward)) is not None) is is_named


def test_a_verifier_that_judges_each_answer_is_not_named_in_small_files():
    """It takes one of twenty wrong answers for right. In 7 of the 1,000 files no reward differs within a prompt, and
    some prompts are accepted."""
    rng = np.random.default_rng(0)
    rewards = rng.random((1000, 20, 2)) < 0.05
    look_tied = [reward for reward in rewards if (reward[:, 0] == reward[:, 1]).all() and reward.any()]
    assert len(look_tied) == 7
    assert [tied(small(reward)) for reward in look_tied] == [None] * 7


def test_a_reward_of_the_prompt_is_named_in_small_files():
    rng = np.random.default_rng(0)
    for prompts in rng.random((100, 20)) < 0.5:
        assert tied(small(np.repeat(prompts[:, None], 2, axis=1))) is not None


def test_without_one_right_answer_a_policy_that_solves_a_prompt_always_or_never_is_not_excluded():
    reward = (GROUP % 2).astype(float)
    answer = np.array([str(row % 3) for row in range(ROWS)], dtype=object)
    by_length = at(reward, lengths={"characters": np.arange(ROWS, dtype=float)})
    for looked_at in (by_length, at(reward, answer=answer, exclusive=np.zeros(ROWS, dtype=bool))):
        assert tied(looked_at).parts["at_most_one_right"] is False
    # One of the 20 others in pairs of responses is accepted.
    group = np.repeat(np.arange(20), 2)
    one_accepted = at((group == 0).astype(float), group=group, lengths={"characters": np.arange(40, dtype=float)})
    assert tied(one_accepted) is None


def test_prompts_whose_responses_agree_are_tied_without_a_fault():
    answer = np.array([str(group) for group in GROUP], dtype=object)
    reward = (GROUP % 2).astype(float)
    part = at(reward, answer=answer, lengths={"characters": np.arange(ROWS)})
    assert tied(part) is None


def test_a_threshold_on_the_length_is_named():
    length = np.random.default_rng(0).permutation(ROWS).astype(float)
    finding = length_alone(at((length <= 99).astype(float), lengths={"characters": length}))
    assert finding.parts == {"unit": "characters", "at_most": 99.0, "short_accepted": True, "exceptions": 0}


def test_one_exception_in_a_hundred_is_allowed():
    length = np.random.default_rng(0).permutation(ROWS).astype(float)
    reward = (length <= 99).astype(float)
    for exceptions, is_named in ((3, True), (4, False)):
        judged = reward.copy()
        judged[np.isin(length, np.arange(exceptions) + 200)] = 1.0
        assert (length_alone(at(judged, lengths={"characters": length})) is not None) is is_named


def test_lengths_that_go_with_the_prompt_prove_nothing():
    """All short prompts are accepted: within a prompt no reward differs, so that no order is rarer than another."""
    assert length_alone(at((GROUP < 20).astype(float), lengths={"characters": GROUP.astype(float)})) is None


def test_a_rule_that_few_orders_contradict_is_chance():
    """Of 3 prompts with one accepted of 8, 512 orders of the verdicts; 1/512 is above the level."""
    group = np.repeat(np.arange(3), 8)
    length = np.arange(24) % 8.0
    assert length_alone(at((length == 0).astype(float), group=group, lengths={"characters": length})) is None


def test_truncation_alone_is_named():
    cut = np.arange(ROWS) % 4 == 0
    finding = truncation_alone(at((~cut).astype(float), truncated=cut.astype(object)))
    assert finding.parts == {"truncated": 80, "truncated_refused": True, "exceptions": 0}


def test_answers_that_explain_the_verdicts_excuse_the_verifier():
    """A policy that is right unless it is cut off: the only answer that is accepted is the same everywhere."""
    cut = np.arange(ROWS) % 4 == 0
    answer = np.where(cut, None, "7").astype(object)
    excused = at((~cut).astype(float), truncated=cut.astype(object), answer=answer)
    assert truncation_alone(excused) is None
    answer[1] = "8"
    assert truncation_alone(excused) is not None


def test_a_symptom_of_a_part_is_found_in_it_alone():
    rows = healthy()
    odd = rows["group"] % 2 == 1
    short = (rows["characters"] <= 150).astype(float)
    assert kinds(rows.assign(reward=rows["reward"].mask(odd, short))) == [("length", "`env` b")]


def test_an_audit_lists_the_symptoms(run, tmp_path):
    rows = [
        {"prompt": f"question {group}", "response": f"way {row} \\boxed{{7}}", "reward": 0.0, "gold": "7", "env": "a"}
        for group in range(5) for row in range(4)
    ]  # fmt: skip
    (found,) = run(write_lines(tmp_path / "rows.jsonl", rows), curator="denoise")["degenerate"]
    assert (found["kind"], found["where"], found["parts"]["give_gold"]) == ("one_value", "", 20)
