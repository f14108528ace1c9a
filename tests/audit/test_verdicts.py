"""What binary rewards say of their verifier: contradictions, and error rates with intervals."""

import numpy as np
import pandas
import pytest
import torch

from geoalign.audit.two_verdicts import are_verdicts, verdict_values
from geoalign.audit.verdicts import MOSTLY_SHARED, VerdictAudit, claimed, judged_rows, verdict_counts
from geoalign.audit.words.verifier import NOT_KNOWN, verifier
from geoalign.intervals import Interval
from geoalign.method.bounds import Bounds
from geoalign.noise.error_rates import ErrorRates, patterns_in, sampling_intervals


def rows_of(*groups):
    """Rollouts of prompts, each a list of (answer, reward); the gold answer of prompt g is "g"."""
    rows = [
        {
            "step": 1, "group": g, "response": f"{answer} {r}", "answer": str(g), "final_answer": answer,
            "exclusive": True, "reward": reward,
        }
        for g, group in enumerate(groups) for r, (answer, reward) in enumerate(group)
    ]  # fmt: skip
    return pandas.DataFrame(rows).astype({"reward": float, "final_answer": object})


def audited(*groups):
    audit = VerdictAudit()
    audit.add(rows_of(*groups))
    return {"verifier": audit.summary()}, audit


def summary_of(found):
    """What a summary has beside it that the words go by."""
    return {
        "curator": {"type": "denoise"}, "hidden": {"from": "none"}, "inputs": [], "appeals": None,
        "labels": {"labelled": 0}, "counts": {"flagged": 1, "scored": 1, "answered": 1}, **found,
    }  # fmt: skip


def eight_answers(generator, share):
    """The right answer "r" with this chance, else one of three wrong ones."""
    return ["r" if generator.random() < share else f"w{generator.integers(3)}" for _ in range(8)]


def judged_at_random(generator, answers, chances):
    """The answers with a verdict each, which accepts an answer with its chance."""
    return [(answer, generator.random() < chances[answer]) for answer in answers]


def simulated(generator, prompts=300, false_positive=0.1, false_negative=0.3):
    """Eight rollouts a prompt; the right answer "r" from half of them on average, else one of three wrong ones."""
    wrong = dict.fromkeys(["w0", "w1", "w2"], false_positive)
    chances = {"r": 1 - false_negative, **wrong}
    groups = []
    for share in generator.uniform(0.1, 0.9, prompts):
        answers = eight_answers(generator, share)
        groups.append(judged_at_random(generator, answers, chances))
    return groups


def test_contradictions_by_hand():
    # Labels 0 and 1 in group 0, 2 in group 1, 3 in group 2. Verdicts of label 0: yes, no; of 1: yes; of 2: no, no and
    # one that does not count; of 3: yes, yes. Two verdicts or more: groups 0, 1, 2; both ways: group 0.
    label = torch.tensor([0, 0, 1, 2, 2, 2, 3, 3])
    group = torch.tensor([0, 0, 0, 1, 1, 1, 2, 2])
    right = torch.tensor([True, False, True, False, False, True, True, True])
    counted = torch.tensor([True] * 5 + [False] + [True] * 2)
    assert verdict_counts(label, group, right, counted) == (3, 1)
    assert verdict_counts(label, group, right, torch.zeros(8, dtype=torch.bool)) == (0, 0)


NAMES = ("false_positive_rate", "false_negative_rate", "informedness")


def realised(groups, name):
    """The rate among these very verdicts; "r" is the right answer."""
    rows = [row for group in groups for row in group]
    if name == "false_negative_rate":
        errors = [not reward for answer, reward in rows if answer == "r"]
    else:
        errors = [reward for answer, reward in rows if answer != "r"]
    return float(np.mean(errors))


def test_the_rates_of_a_verifier_that_errs_on_each_verdict_alone_are_found():
    groups = simulated(np.random.default_rng(0))
    judged = audited(*groups)[0]["verifier"]
    assert judged["doubt"] is None
    for name, width in (("false_positive_rate", 0.1), ("false_negative_rate", 0.25)):
        rate = judged["rates"][name]
        assert rate["by"] == "model"
        assert rate["low"] < realised(groups, name) < rate["high"] < rate["low"] + width
    estimates = [judged["rates"][name]["estimate"] for name in NAMES]
    assert sum(estimates) == pytest.approx(1)


def test_no_interval_contradicts_the_bounds():
    """Whatever the model says: cut to the bounds, or the bounds."""
    bounds = dict.fromkeys(NAMES, Bounds(0.2, 0.6))
    for where, interval, told in (
        ("inside", Interval(0.3, 0.25, 0.4), (0.3, 0.25, 0.4, "model")),
        ("across", Interval(0.15, 0.1, 0.3), (0.2, 0.2, 0.3, "model")),
        ("outside", Interval(0.05, 0.01, 0.1), (0.2, 0.2, 0.6, "bounds")),
    ):
        rate = claimed(bounds, ErrorRates((interval,) * 3))["false_positive_rate"]
        assert (rate["estimate"], rate["low"], rate["high"], rate["by"]) == told, where
    # So wide a guess tells nothing, though it would cut the bounds.
    nothing_proved = dict.fromkeys(NAMES, Bounds(0.0, 1.0))
    wide_guess = ErrorRates((Interval(0.999, 0.046, 1.0),) * 3)
    found = claimed(nothing_proved, wide_guess)["false_positive_rate"]
    assert (found["low"], found["high"], found["by"]) == (0.0, 1.0, "bounds")
    doubted = ErrorRates((Interval(0.3, float("nan"), float("nan")),) * 3, doubt="it is not known")
    assert claimed(bounds, doubted)["false_negative_rate"] == {"estimate": 0.3, "low": 0.2, "high": 0.6, "by": "bounds"}


def test_a_verifier_that_contradicts_nothing_is_bounded_by_its_two_rewarded_answers_alone():
    # On a quarter of the prompts the wrong answer "w" passes as well: 100 of 500 wrong rows.
    fooled = [("r", 1)] * 4 + [("w", 1)] * 4 + [("x", 0)]
    not_fooled = [("r", 1)] * 4 + [("w", 0)] * 4 + [("x", 0)]
    found, _ = audited(*[fooled] * 25, *[not_fooled] * 75)
    judged = found["verifier"]
    rate = judged["rates"]["false_positive_rate"]
    assert rate["by"] == "bounds"
    assert rate["low"] == pytest.approx(100 / 500)
    assert judged["errors_at_least"] == 100
    assert "low" not in judged["model"]["false_positive_rate"]
    told = verifier(summary_of(found)).rates
    assert told[0].value.startswith("20.0% to")
    assert [(rate.value == NOT_KNOWN, rate.by) for rate in told] == [(False, "proved"), (True, "")]


def test_where_every_answer_was_given_once_no_rate_is_known():
    once = audited(*[[("r", 1), ("w", 0)]] * 5)[0]
    assert verifier(summary_of(once)).rates == ()
    assert once["verifier"]["rates"]["false_positive_rate"]["low"] == 0


def refusing(generator, prompts=150):
    """A thresholded score: three in ten prompts are refused as a whole, on the others few verdicts are wrong."""
    groups = []
    for strict in generator.random(prompts) < 0.3:
        answers = eight_answers(generator, share=0.85)
        chances = dict.fromkeys(answers, 0.05)
        if not strict:
            chances["r"] = 0.95
        groups.append(judged_at_random(generator, answers, chances))
    return groups


def repeating(generator, prompts=300):
    """A verifier that errs on 15% of the answers, half of the time alike on all copies of one."""
    groups = []
    for group in simulated(generator, prompts, 0.0, 0.0):
        alike = {answer: generator.random() < 0.15 for answer, _ in group if generator.random() < 0.5}
        judged = [(answer, alike.get(answer, generator.random() < 0.15)) for answer, _ in group]
        groups.append([(answer, (answer == "r") != wrong) for answer, wrong in judged])
    return groups


@pytest.mark.parametrize("erring", [refusing, repeating])
def test_errors_that_repeat_are_within_what_is_claimed(erring):
    for seed in range(3):
        groups = erring(np.random.default_rng(seed))
        rates = audited(*groups)[0]["verifier"]["rates"]
        for name in NAMES[:2]:
            assert rates[name]["low"] <= realised(groups, name) <= rates[name]["high"]


def test_where_several_answers_may_be_right_contradictions_alone_count():
    audit = VerdictAudit(exclusive=False)
    first_prompt = [("a", 1), ("a", 1), ("a", 0), ("b", 1)]
    second_prompt = [("c", 0), ("c", 1)]
    audit.add(rows_of(first_prompt, second_prompt))
    found = {"verifier": audit.summary()}
    assert (found["verifier"]["rates"], found["verifier"]["errors_at_least"]) == (None, 2)
    told = verifier(summary_of(found))
    assert told.rates == ()
    assert told.notes[0].startswith("At least 2 of the 6 rewards")


def test_labels_fix_the_truth():
    # "a" is refused 3 times, "b" rewarded once; a label says that "a" is right.
    frame = rows_of([("a", 0), ("a", 0), ("a", 0), ("b", 1)])
    audit = VerdictAudit()
    audit.add(frame.assign(label=[1.0, np.nan, np.nan, np.nan]))
    rates = audit.summary()["rates"]
    for name in NAMES[:2]:
        rate = rates[name]
        assert (rate["low"], rate["high"], rate["by"]) == (1, 1, "bounds")


def test_groups_drawn_again_move_the_rates_as_far_as_the_intervals_say():
    """Beside a bootstrap over groups; nearly a third of the intervals here is that the fit moves with the groups."""
    groups = simulated(np.random.default_rng(5), 100, 0.3, 0.3)
    draw = np.random.default_rng(0)

    def rates_of(groups):
        frame = rows_of(*groups).assign(label=np.nan, key=range(8 * len(groups)))
        rows, _ = judged_rows(frame, middle=0.5)
        patterns = patterns_in(rows)
        return sampling_intervals(patterns, patterns.units.fit({}, rounds=1000), len(groups))

    estimates = []
    for _ in range(16):
        drawn_again = [groups[g] for g in draw.integers(100, size=100)]
        estimates.append([rate.estimate for rate in rates_of(drawn_again)])
    for rate, spread in zip(rates_of(groups), np.std(estimates, axis=0), strict=True):
        assert (rate.high - rate.low) / 4 == pytest.approx(spread, rel=0.25)


@pytest.mark.parametrize(("groups", "reason"), [
    ([[("a", 0.1), ("b", 0.2), ("c", 0.3)]], "The rewards are scores: they take more than two values."),
    ([[("a", 1), ("a", 1)]], "All rewards are equal."),
    ([[("a", 0), ("b", 0)]], "All rewards are equal."),
    ([[("a", 0.37), ("b", 0.37)]], "All rewards are 0.37, which is no verdict such as 0 or 1."),
    ([[("a", None)]], "No rollout has a reward."),
    ([[(None, 1), (None, 0)]], "No response has a final answer, and none was given twice."),
    ([[("a", 0.37), ("b", 0.62), ("a", 0.37)]],
     "The two rewards, 0.37 and 0.62, are not verdicts such as 0 and 1."),
])  # fmt: skip
def test_what_says_nothing_of_a_verifier(groups, reason):
    found = audited(*groups)[0]
    assert found == {"verifier": {"reason": reason}}
    assert verifier(summary_of(found)).rates == ()


@pytest.mark.parametrize(("values", "refused_and_accepted"), [
    ({1.0}, (0, 1)), ({0.0}, (0, 1)), ({-1.0}, (-1, 1)), ({0.37}, None), ({2.0}, None), ({0.0, 2.0}, (0, 2)),
    ({0.7 + 0.2 + 0.1}, (0, 0.7 + 0.2 + 0.1)),
])  # fmt: skip
def test_which_reward_is_that_of_an_accepted_response(values, refused_and_accepted):
    assert verdict_values(values) == refused_and_accepted


def test_a_verifier_that_accepts_everything_is_proved_to_where_answers_differ():
    # Of the first prompt at most three rows are right, so one is wrong; of the second two of four.
    found, _ = audited([("a", 1)] * 3 + [("b", 1)], [("a", 1)] * 2 + [("b", 1)] * 2)
    judged = found["verifier"]
    assert (judged["errors_at_least"], judged["rewarded"], judged["scored"]) == (3, 8, 8)
    rates = {name: (rate["low"], rate["high"], rate["by"]) for name, rate in judged["rates"].items()}
    assert rates["false_positive_rate"] == (1, 1, "bounds")
    assert rates["false_negative_rate"] == (0, 0, "bounds")
    assert judged["model"]["false_positive_rate"]["estimate"] is None


@pytest.mark.parametrize("values", [
    (0, 1), (-1, 1), (0, 0.9), (0.1, 1), (-0.5, 0.5), (0.1, 1.1), (-1, 0),
    # Each but for rounding: 0 and a number, -x and x, 1 and less.
    (0.1 + 0.2 - 0.3, 0.9), (-0.3, 0.1 + 0.2), (0.25, 0.7 + 0.2 + 0.1),
])  # fmt: skip
def test_two_values_that_verdicts_take(values):
    assert are_verdicts(*values)


@pytest.mark.parametrize("values", [(0.37, 0.62), (-0.31, 0.74), (2.5, 3.25), (0.5, 0.75)])
def test_two_values_by_accident(values):
    assert not are_verdicts(*values)


JUDGED = {
    "scored": 3, "rewarded": 1, "answered": 3,
    "groups_with_repeated_answers": 0, "groups_with_answers_judged_both_ways": 0,
    "groups_with_repeated_responses": 0, "groups_with_responses_judged_both_ways": 0, "answers": "exclusive",
    "errors_at_least": 0, "known_truths": 0, "bounds": {}, "doubt": None, "model": {},
}  # fmt: skip


def told_of(low, high, estimate, by="model"):
    """The value that a reader is told of a rate with these ends; another rate is known beside it."""
    known = {"estimate": 0.3, "low": 0.2, "high": 0.4, "by": "bounds"}
    rate = {"estimate": estimate, "low": low, "high": high, "by": by}
    found = {**JUDGED, "rates": {NAMES[0]: rate, NAMES[1]: known}}
    return verifier(summary_of({"verifier": found})).rates[0].value


@pytest.mark.parametrize(("low", "high", "known"), [(0, 0.76, False), (0, 0.75, True), (0.01, 1, True), (0, 1, False)])
def test_a_range_from_zero_to_above_three_quarters_is_not_known(low, high, known):
    for by in ("model", "bounds"):
        assert (told_of(low, high, 0.1, by) != NOT_KNOWN) == known


@pytest.mark.parametrize(("estimate", "stands"), [(0.3, True), (0.203, False), (0.2031, False), (0.539, False)])
def test_an_estimate_at_an_end_of_its_range_is_left_out(estimate, stands):
    """It was moved there, because what is proved excludes it."""
    assert ("(" in told_of(0.203, 0.539, estimate)) == stands


def test_what_is_proved_is_said_where_no_rate_is_known():
    wide = {"estimate": 0.1, "low": 0, "high": 0.9, "by": "model"}
    found = {**JUDGED, "rates": dict.fromkeys(NAMES[:2], wide), "errors_at_least": 2, "scored": 9}
    told = verifier(summary_of({"verifier": found}))
    assert told.rates == ()
    assert any("2 of the 9" in note for note in told.notes)


def test_two_rewarded_answers_prove_nothing_on_a_prompt_whose_answers_do_not_exclude_each_other():
    """On both prompts "a" and "b" are rewarded, and "c" is judged both ways."""
    frame = rows_of(*[[("a", 1), ("b", 1), ("c", 0), ("c", 1)]] * 2)
    audit = VerdictAudit()
    audit.add(frame.assign(exclusive=frame["group"] == 0))
    found = audit.summary()
    # Of the first prompt at least two rewards are wrong, whichever answer is right; of the second one of "c" alone.
    assert found["errors_at_least"] == 3
    assert found["answers"] == "exclusive"
    # Least if "a" is right to the first prompt, where 2 of 3 other rows are rewarded, and "a" and "b" to the second,
    # where 1 of 2 is. Most if "c" alone is right to the first one: 2 of 2.
    assert found["bounds"]["false_positive_rate"] == {"low": pytest.approx(3 / 5), "high": pytest.approx(1.0)}


def test_the_model_is_not_believed_where_most_answers_may_be_right_beside_others():
    groups = simulated(np.random.default_rng(0))
    frame = rows_of(*groups)
    for least_group, doubted in ((200, True), (100, False)):
        audit = VerdictAudit()
        audit.add(frame.assign(exclusive=frame["group"] >= least_group))
        found = audit.summary()
        assert (found["doubt"] == MOSTLY_SHARED) == doubted


def test_where_no_answers_exclude_each_other_no_rate_is_told():
    audit = VerdictAudit()
    audit.add(rows_of([("a", 1), ("b", 1), ("c", 0)]).assign(exclusive=False))
    found = audit.summary()
    assert (found["answers"], found["bounds"], found["errors_at_least"]) == ("shared", None, 0)


def test_of_a_verifier_that_flips_coins_it_is_said_that_it_may_not_judge():
    generator = np.random.default_rng(0)
    found, _ = audited(*simulated(generator, prompts=100, false_positive=0.5, false_negative=0.5))
    said = verifier(summary_of(found))
    assert any(note.startswith("The verifier may not judge the answers at all") for note in said.notes)
    assert found["verifier"]["model"]["false_negative_rate"]["estimate"] is None
    found, _ = audited(*simulated(generator, prompts=100))
    assert not any(note.startswith("The verifier may not judge") for note in verifier(summary_of(found)).notes)
