"""`geoalign audit --verifiers`: verdicts on all rows, failures, contradictions, bounds, when the model may speak."""

import numpy as np
import pandas
import pytest
from several_verdicts import dump, entry_of

from geoalign import audit
from geoalign.audit.several_verifiers.judged_rows import judged_by_all
from geoalign.audit.several_verifiers.model import why_no_model
from geoalign.audit.several_verifiers.ranking import places_of
from geoalign.audit.several_verifiers.rates import rates_by_checks
from geoalign.audit.several_verifiers.summary import verifier_summary
from geoalign.audit.terminal import show_report
from geoalign.audit.words.several_verifiers import several_verifiers
from geoalign.checks.rates import modified_wilson
from geoalign.console.terminal import Console

FPR, FNR = "false_positive_rate", "false_negative_rate"
# Of each of eight prompts: rows 0 to 3 answer "a", the gold answer, 4 and 5 "b", 6 and 7 "c".
RIGHT = "11110000"
# The file's reward refuses row 3 and accepts row 5.
REWARD = "11100100"


def judged(**columns):
    """A table of eight prompts as `judged_by_all` reads it; each column is a text of 0, 1 and - for each row."""
    rows = [(group, answer) for group in range(8) for answer in "aaaabbcc"]
    frame = pandas.DataFrame(rows, columns=["group", "compared_answer"])
    frame = frame.assign(exclusive=True, key=range(len(rows)), label=np.nan, reward=numbers(REWARD))
    return frame.assign(**{f"verdict.{name}": numbers(text) for name, text in columns.items()})


def numbers(text):
    return [np.nan if mark == "-" else float(mark) for mark in text * (64 // len(text))]


def summary_of(frame, *, exclusive=True, **more):
    return verifier_summary(judged_by_all(frame, exclusive=exclusive), {}, seed=0, **more)


# --- the table --------------------------------------------------------------------------------------------------------


def test_agreement_is_with_the_reward_on_rows_that_both_judged():
    gold = entry_of(summary_of(judged(gold=RIGHT)), "gold")
    assert (gold["accepted"], gold["agrees_with_reward"], gold["judged"]) == (0.5, 0.75, 64)
    half = entry_of(summary_of(judged(half="1111----")), "half")
    assert (half["accepted"], half["agrees_with_reward"], half["judged"]) == (1.0, 0.75, 32)


def test_contradictions_are_counted_in_both_directions_with_rows_of_different_prompts():
    [pair] = summary_of(judged(gold=RIGHT))["pairs"]
    assert (pair["first"], pair["second"], pair["both_judged"]) == ("reward", "gold", 64)
    assert (pair["first_alone_accepts"], pair["second_alone_accepts"]) == (8, 8)
    assert pair["agreement"] == 0.75
    assert pair["first_alone_rows"] == [5, 13, 21, 29, 37]
    assert pair["second_alone_rows"] == [3, 11, 19, 27, 35]


def test_bounds_hold_for_every_truth_by_hand():
    """`b_too` accepts "a" and "b": at most one is right, so at least 2 of the 4 to 6 wrong rows are accepted."""
    summary = summary_of(judged(b_too="11111100"))
    bounds = entry_of(summary, "b_too")["bounds"]["false_positive_rate"]
    # "a" is right: 2 of 4; "c" is right: 6 of 6.
    assert bounds == {"low": 0.5, "high": 1.0}
    assert entry_of(summary_of(judged(b_too="11111100"), exclusive=False), "b_too")["bounds"] is None


def test_prompts_whose_answers_do_not_exclude_each_other_bound_nothing():
    """`b_too` accepts "a" and "b" to each of 8 prompts; on 6 both may be right, and "c", which it refuses, is wrong."""
    frame = judged(b_too="11111100")
    bounds = entry_of(summary_of(frame.assign(exclusive=frame["group"] < 2)), "b_too")["bounds"]["false_positive_rate"]
    # "a" is right to the first two prompts, and both to the others: 2 x 2 of 2 x 4 + 6 x 2 rows.
    assert bounds["low"] == 4 / 20


def test_labels_narrow_the_bounds_of_every_verifier():
    frame = judged(b_too="11111100").assign(label=numbers("1-------"))
    bounds = entry_of(summary_of(frame), "b_too")["bounds"]
    assert bounds == {
        "false_positive_rate": {"low": 0.5, "high": 0.5},
        "false_negative_rate": {"low": 0.0, "high": 0.0},
    }


def test_scores_are_no_verdicts_and_leave_the_others():
    frame = judged(gold=RIGHT).assign(**{"verdict.score": np.arange(64) / 64})
    summary = summary_of(frame)
    assert "64 values" in entry_of(summary, "score")["reason"]
    assert [pair["second"] for pair in summary["pairs"]] == ["gold"]


def test_verdicts_of_a_verifier_that_differ_by_rounding_are_one():
    frame = judged(gold=RIGHT)
    frame.loc[8:15, "verdict.gold"] *= 0.7 + 0.2 + 0.1
    assert summary_of(frame) == summary_of(judged(gold=RIGHT))


def test_rewards_that_are_scores_are_left_out_and_verifiers_compared():
    frame = judged(gold=RIGHT, other=REWARD).assign(reward=np.arange(64) / 64)
    summary = summary_of(frame)
    assert entry_of(summary, "reward")["reason"]
    assert entry_of(summary, "gold")["agrees_with_reward"] is None
    assert [(pair["first"], pair["second"]) for pair in summary["pairs"]] == [("gold", "other")]


# --- the model --------------------------------------------------------------------------------------------------------


def world(seed=0, prompts=60):
    """Five verifiers of which three share a wrong belief; the truth is the column `right`."""
    rng = np.random.default_rng(seed)
    rows = []
    for group in range(prompts):
        # Of eight answers a share is right, "0"; four wrong ones are more or less frequent.
        is_right = rng.random(8) < rng.beta(1.5, 1.5)
        which_wrong = 1 + rng.choice(4, 8, p=rng.dirichlet([0.5] * 4))
        answers = np.where(is_right, 0, which_wrong)
        rows += [(group, str(answer)) for answer in answers]
    frame = pandas.DataFrame(rows, columns=["group", "compared_answer"])
    units = frame.drop_duplicates().copy()
    right = (units["compared_answer"] == "0").to_numpy()
    belief = right ^ (rng.random(len(right)) < np.where(right, 0.15, 0.3))
    for name, judged_by, noise in (
        ("reward", belief, 0.02),
        ("verdict.b", belief, 0.05),
        ("verdict.c", belief, 0.08),
        ("verdict.d", right, 0.05),
        ("verdict.e", right, 0.1),
    ):
        mistaken = rng.random(len(right)) < noise
        units[name] = (judged_by ^ mistaken).astype(float)
    frame = frame.merge(units, on=["group", "compared_answer"], how="left")
    return frame.assign(exclusive=True, key=range(len(frame)), label=np.nan, right=frame["compared_answer"] == "0")


def test_the_model_sees_through_verifiers_that_collude_and_never_leaves_the_bounds():
    summary = summary_of(world(prompts=150))
    assert {summary["ranking"]["places"][0][0], summary["ranking"]["by"]} == {"d", "model"}
    for mode in summary["model"]["modes"]:
        for entry in summary["table"]:
            guess = mode["rates"][entry["name"]]
            for rate, bound in entry["bounds"].items():
                assert bound["low"] <= guess[rate] <= bound["high"]


@pytest.mark.parametrize(("change", "exclusive", "reason"), [
    (lambda frame: frame, False, "Several answers"),
    (lambda frame: frame.drop(columns=["verdict.e", "verdict.d"]), True, "here are 3"),
    (lambda frame: frame.assign(compared_answer=frame["compared_answer"].where(frame.index % 3 == 0)), True, "Only 3"),
    (lambda frame: frame[frame["group"] < 10], True, "here are 10"),
    # A copy of a verifier, and one that accepts everything, are no evidence.
    (lambda frame: frame.assign(**{"verdict.e": frame["verdict.b"], "verdict.d": 1.0}), True, "here are 3"),
])  # fmt: skip
def test_where_the_model_may_not_speak_it_says_why(change, exclusive, reason):
    frame = change(world())
    assert why_no_model(judged_by_all(world(), exclusive=True)) is None
    summary = summary_of(frame, exclusive=exclusive)
    assert reason in summary["model"]["reason"]
    assert summary["ranking"]["by"] is None


# --- checks and ranking -----------------------------------------------------------------------------------------------


def test_checks_rank_verifiers_and_their_intervals_hold_the_truth():
    frame = world(prompts=150)
    drawn = np.random.default_rng(1).choice(len(frame), 200, replace=False)
    checked = frame["right"].iloc[drawn]
    summary = summary_of(frame, right=checked)
    assert summary["ranking"]["by"] == "checks"
    assert summary["ranking"]["places"][0][0] in ("d", "e")
    wrong = ~frame["right"]
    claim = entry_of(summary, "b")["checks"]["false_positive_rate"]
    assert claim["low"] <= frame["verdict.b"][wrong].mean() <= claim["high"]
    assert claim["checked"] == (~checked).sum()


def test_a_verifier_is_checked_only_on_rows_that_it_judged():
    frame = judged(half="1111----")
    checked = pandas.Series({0: True, 7: False, 8: True})
    rates = rates_by_checks(judged_by_all(frame, exclusive=True), checked, seed=0)
    assert rates["half"].false_negative_rate.checked == 2
    assert rates["half"].false_positive_rate.checked == 0
    assert rates["reward"].false_positive_rate.checked == 1


def test_a_verifier_that_judged_drawn_rows_alone_predicts_no_labels():
    frame = world(prompts=150)
    drawn = np.random.default_rng(1).choice(len(frame), 200, replace=False)
    checked = frame["right"].iloc[drawn]
    exact = pandas.Series(float("nan"), index=frame.index)
    exact.iloc[drawn] = checked.astype(float)
    without = rates_by_checks(judged_by_all(frame, exclusive=True), checked, seed=0)
    beside = judged_by_all(frame.assign(**{"verdict.exact": exact}), exclusive=True, drawn=["exact"])
    assert rates_by_checks(beside, checked, seed=0)["b"] == without["b"]


def test_a_checked_rate_lies_inside_what_is_proved_of_its_verifier():
    """`b_too` accepts "a" and "b", so that half of the wrong rows or more are accepted. No check met one of them."""
    right = pandas.Series({6: 0.0, 14: 0.0, 22: 0.0, 0: 1.0})
    entry = entry_of(summary_of(judged(b_too="11111100"), right=right), "b_too")
    assert entry["checks"][FPR]["low"] == 0
    assert entry["checks"][FPR]["high"] == modified_wilson(0, 3)[1] > 0.5
    # The estimate of 0 is moved to the end.
    assert entry["rates"][FPR] == {"estimate": 0.5, "low": 0.5, "high": modified_wilson(0, 3)[1], "by": "checks"}
    # Where several answers may be right nothing is proved, and the checks are not cut.
    shared = entry_of(summary_of(judged(b_too="11111100"), exclusive=False, right=right), "b_too")
    assert shared["rates"][FPR]["low"] == 0


def test_where_every_row_is_known_to_be_right_no_rate_of_accepted_wrong_ones_is_claimed():
    """Half of what tells verifiers apart is not known then, so all share a place. `strict` refuses every other row."""
    frame = judged(strict="10101010", gold="11111111").assign(label=1.0)
    right = pandas.Series(1.0, index=range(0, 64, 3))
    summary = summary_of(frame, right=right)
    assert entry_of(summary, "strict")["rates"][FPR] == {"estimate": None, "low": None, "high": None, "by": "bounds"}
    assert entry_of(summary, "strict")["rates"][FNR]["estimate"] == 0.5
    assert summary["ranking"]["by"] == "checks"
    assert summary["ranking"]["places"] == [["gold", "strict", "reward"]]


def test_what_is_proved_of_drawn_rows_does_not_cut_a_rate_in_the_whole_file():
    frame = judged(b_too="111111--")
    right = pandas.Series({4: 0.0, 12: 0.0, 0: 1.0})
    entry = entry_of(
        verifier_summary(judged_by_all(frame, exclusive=True, drawn=["b_too"]), {}, seed=0, right=right), "b_too"
    )
    # All of the drawn rows are accepted, which proves 100% of them alone.
    assert entry["bounds"][FPR] == {"low": 1.0, "high": 1.0}
    assert (entry["rates"][FPR]["low"], entry["rates"][FPR]["high"]) == modified_wilson(2, 2)


def test_a_drawn_row_without_a_label_counts_both_ways_for_each_verifier():
    """Row 4 has no label: "gold" refuses it, `b_too` accepts it."""
    frame = judged(gold=RIGHT, b_too="11111100")
    right = pandas.Series({6: 0.0, 4: np.nan, 15: 0.0, 0: 1.0})
    rates = rates_by_checks(judged_by_all(frame, exclusive=True), right, seed=0)
    gold = rates["gold"]
    # Judged rightly it is a wrong row more that was refused; judged wrongly a right one that was refused.
    assert gold.false_positive_rate.low == modified_wilson(0, 3)[0]
    assert gold.false_positive_rate.high == modified_wilson(0, 2)[1]
    assert gold.false_negative_rate.high == modified_wilson(1, 2)[1]
    accepts_it = rates["b_too"]
    assert accepts_it.false_positive_rate.high == modified_wilson(1, 3)[1]
    assert (accepts_it.false_positive_rate.checked, accepts_it.false_positive_rate.estimate) == (2, 0)


def test_tied_verifiers_share_the_place_of_the_first_of_them():
    tied = np.array(
        [
            [1, 1, 0, 0],
            [1, 1, 1, 0],
            [0, 1, 1, 1],
            [0, 0, 1, 1],
        ],
        dtype=bool,
    )
    assert places_of(["a", "b", "c", "d"], tied) == [["a", "b"], ["c", "d"]]


# --- what is shown ----------------------------------------------------------------------------------------------------


def test_terminal_page_and_notebook_show_each_verifier_with_its_name_made_harmless(tmp_path, undrawn, capsys):
    def hostile(prompts, completions, **columns):
        return [1.0] * len(prompts)

    name = "<script>alert(1)</script>\u202e"
    report = audit(dump(tmp_path), verifiers={name: hostile, "gold": "math_verify"}, output=tmp_path / "out")
    page = (tmp_path / "out" / "report.html").read_text(encoding="utf-8")
    assert "&lt;script&gt;alert(1)&lt;/script&gt;" in page
    assert "<script>alert(1)" not in page
    assert 'href="#rollout-3"' in page  # gold alone accepts it
    show_report(Console(), report)
    printed = capsys.readouterr().out
    assert "\u202e" not in printed
    assert "gold: 8" in printed
    assert "math" not in repr(report)
    assert "gold accepts 50.0%, agrees with the reward on 75.0%" in repr(report)


def test_verifiers_that_judge_alike_are_compared_once():
    frame = judged(gold=RIGHT, copy=RIGHT)
    words = several_verifiers({"verifiers": summary_of(frame)})
    assert [(pair.first, pair.second) for pair in words.pairs] == [("reward", "gold")]
    assert any("gold and copy judge every row alike" in note for note in words.notes)
