"""What binary rewards say of their verifier: contradictions, error rates with intervals, answers that are refused."""

import numpy as np
import pandas
import pytest
import torch

from geoalign.curators.denoise.rows import joined
from geoalign.curators.error_rates import error_rates
from geoalign.lab.analysis.audited import refused_line, verifier_lines
from geoalign.lab.audit.verdicts import VerdictAudit, agreed_answers, verdict_counts


def rows_of(*groups):
    """Rollouts of prompts, each a list of (answer, reward); the gold answer of prompt g is "g"."""
    rows = [
        {"step": 1, "group": g, "response": f"{answer} {r}", "answer": str(g), "final_answer": answer, "reward": reward}
        for g, group in enumerate(groups) for r, (answer, reward) in enumerate(group)
    ]  # fmt: skip
    return pandas.DataFrame(rows).astype({"reward": float, "final_answer": object})


def audited(*groups, redact=False):
    audit = VerdictAudit()
    audit.add(rows_of(*groups))
    return audit.summary(redact=redact), audit


def simulated(generator, prompts=300, false_positive=0.1, false_negative=0.3):
    """Eight rollouts a prompt; the right answer "r" from half of them on average, else one of three wrong ones."""
    groups = []
    for share in generator.uniform(0.1, 0.9, prompts):
        answers = ["r" if generator.random() < share else f"w{generator.integers(3)}" for _ in range(8)]
        chance = [1 - false_negative if answer == "r" else false_positive for answer in answers]
        groups.append([(answer, generator.random() < p) for answer, p in zip(answers, chance, strict=True)])
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


def test_the_rates_of_a_simulated_verifier_are_found():
    found, _ = audited(*simulated(np.random.default_rng(0)))
    rates = found["verifier"]["rates"]
    for name, true in (("false_positive_rate", 0.1), ("false_negative_rate", 0.3), ("informedness", 0.6)):
        assert rates[name]["low"] < true < rates[name]["high"]
        assert rates[name]["high"] - rates[name]["low"] < 0.2
    estimates = [rates[name]["estimate"] for name in ("false_positive_rate", "false_negative_rate", "informedness")]
    assert sum(estimates) == pytest.approx(1)
    few = audited(*simulated(np.random.default_rng(0), 8, 0.02, 0.02))[0]["verifier"]["rates"]["informedness"]
    assert 0 < few["low"] < few["high"] == 1


def test_a_verifier_that_contradicts_nothing_has_no_errors_to_show():
    # One answer of each prompt is always rewarded, the other always refused; the prior's own rates are 20%.
    found, _ = audited(*[[("r", 1)] * 4 + [("w", 0)] * 4 + [("x", 0)]] * 100)
    rates = found["verifier"]["rates"]
    # 400 verdicts on each: 3 / 400 by the rule of three. The answers given once say nothing.
    for name in ("false_positive_rate", "false_negative_rate"):
        assert (rates[name]["estimate"], rates[name]["low"]) == (0, 0)
        assert rates[name]["high"] == pytest.approx(3 / 400, rel=0.01)
    told = verifier_lines(found)[0]
    once = audited(*[[("r", 1), ("w", 0)]] * 5)[0]  # rates from 0 to 1
    assert verifier_lines(once) == ["The verifier's errors cannot be told. Too few verdicts."]
    for words in ("at most 0.7% on wrong answers and 0.7% on right ones", "cannot be seen", "second verifier"):
        assert words in told


def test_groups_drawn_again_move_the_rates_as_far_as_the_intervals_say():
    """Beside a bootstrap over groups; nearly a third of the intervals here is that the fit moves with the groups."""
    groups, draw = simulated(np.random.default_rng(5), 100, 0.3, 0.3), np.random.default_rng(0)

    def rates_of(groups):
        return error_rates(joined(audited(*groups)[1]._batches, 1.0))

    drawn = [[one.estimate for one in rates_of([groups[g] for g in draw.integers(100, size=100)])] for _ in range(16)]
    for one, spread in zip(rates_of(groups), np.std(drawn, axis=0), strict=True):
        assert (one.high - one.low) / 4 == pytest.approx(spread, rel=0.25)


def test_agreed_answers_by_hand():
    # "a" from 3 of 4 with a reward, best 0, the others' best 1. Two of four are too few; so are 3 of 7.
    groups = [
        [("a", 0), ("a", 0), ("b", 1), ("a", 0), ("a", None)],
        [("a", 0), ("a", 0), ("b", 0), ("c", 0)],
        [("a", 0), ("a", 0), ("a", 0), ("b", 0), ("c", 0), (None, 0), (None, 0)],
    ]
    frame = rows_of(*groups).assign(step=4)
    (found,) = agreed_answers(frame.set_axis(range(10, 26))).to_dict("records")
    expected = {"step": 4, "group": 0, "index": 10, "answer": "a", "gold": "0", "count": 3, "share": 0.75}
    assert found == {**expected, "best": 0, "others_best": 1}


def test_prompts_whose_agreed_answer_is_always_refused():
    groups = [
        [("a", 0)] * 3 + [("b", 1)],  # 75%, another answer was rewarded
        [("a", 1)] + [("a", 0)] * 3,  # was rewarded once
        [("c", 0)] * 4,
    ]
    found, _ = audited(*groups)
    prompts = found["prompts"]
    assert prompts["refused"] == 2
    listed = [(one["group"], one["answer"], one["gold"], one["count"], one["share"]) for one in prompts["listed"]]
    assert listed == [(2, "c", "2", 4, 1.0), (0, "a", "0", 3, 0.75)]
    assert [one["other_rewarded"] for one in prompts["listed"]] == [False, True]
    hidden = audited(*groups, redact=True)[0]["prompts"]["listed"]
    assert [(one["answer"], one["gold"]) for one in hidden] == [(None, None)] * 2


@pytest.mark.parametrize(("groups", "reason"), [
    ([[("a", 0.1), ("b", 0.2), ("c", 0.3)]], "Rewards are not binary."),
    ([[("a", 1), ("b", 1)]], "All rewards are equal."),
    ([[("a", None)]], "No rollout has a reward."),
    ([[(None, 1), (None, 0)]], "No rollout has an answer, and no response to a prompt was given twice."),
])  # fmt: skip
def test_what_says_nothing_of_a_verifier(groups, reason):
    assert audited(*groups)[0] == {"verifier": {"reason": reason}}
    assert verifier_lines(audited(*groups)[0]) == [f"The verifier's errors cannot be told. {reason}"]
    assert refused_line(audited(*groups)[0]) == ""


def test_a_rate_of_nearly_nothing_is_bounded_as_if_no_error_was_seen():
    for seed in range(12):
        rates = audited(*simulated(np.random.default_rng(seed), 16, 0.03, 0.2))[0]["verifier"]["rates"]
        assert rates["false_positive_rate"]["high"] > 0.03
