"""What may be said: every branch of every sentence, and the whole way from results with known effects."""

import math

import pytest

from geoalign.lab.analysis.comparison.analysis import read_table
from geoalign.lab.analysis.comparison.table import Comparison
from geoalign.lab.analysis.comparison.verdicts import (
    amount,
    comparison_statement,
    detection_statement,
    geoalign_statement,
    headroom_statement,
)
from geoalign.lab.analysis.detection import Detection
from geoalign.lab.analysis.statistics import Interval, PairedDifference
from geoalign.lab.config.compare import CompareConfig

NAN = math.nan
PLAN = CompareConfig(arms={})
NO_VERDICT = "no verdict on any curator is possible here"


def difference(low, high, *, p=0.01):
    return PairedDifference(Interval((low + high) / 2, low, high), p, 5, 0)


def undefined(estimate=0.1, pairs=2):
    return PairedDifference(Interval(estimate, NAN, NAN), NAN, pairs, 0)


WIN, LOSS, NOTHING = difference(0.02, 0.06), difference(-0.06, -0.02), difference(-0.01, 0.03, p=0.3)


def against(found, *, arm="geoalign", other="grpo", kind="primary", adjusted=NAN):
    return Comparison(arm, other, kind, found, adjusted)


@pytest.mark.parametrize(
    ("rate", "found", "verdict", "said"),
    [
        (0.1, WIN, "better", "There is room for a curator"),
        (0.1, NOTHING, "undecided", f"The interval does not exclude zero: {NO_VERDICT}"),
        (0.1, LOSS, "worse", f"did worse than grpo: {NO_VERDICT}"),
        (0.1, undefined(), "none", f"2 paired seeds give no interval (at least 3 are needed): {NO_VERDICT}"),
        (0.1, undefined(pairs=1), "none", f"One paired seed gives no interval (at least 3 are needed): {NO_VERDICT}"),
        (0.1, undefined(NAN, 0), "none", "unknown (no seed has both). No paired seed gives no interval"),
        (0.0, WIN, "none", f"No reward is corrupted at this level, so the oracle has nothing to replace: {NO_VERDICT}"),
        (0.1, None, "none", f"The headroom was not measured (no oracle, or no grpo, at this level): {NO_VERDICT}"),
    ],
)  # fmt: skip
def test_headroom(rate, found, verdict, said):
    headroom = found and against(found, arm="oracle", kind="headroom")
    statement = headroom_statement(rate, headroom, PLAN)
    assert (statement.verdict, statement.kind) == (verdict, "headroom")
    assert said in statement.text
    assert (NO_VERDICT in statement.text) == (verdict != "better")
    # Behind a verifier that errs by itself nothing is injected, and the truth as the reward has headroom all the same.
    assert headroom_statement(0.0, against(WIN, arm="clean", kind="headroom"), PLAN).verdict == "better"


@pytest.mark.parametrize(
    ("found", "kind", "adjusted", "verdict", "said"),
    [
        (WIN, "primary", NAN, "better",
         "par scored better than grpo: +0.04 (95% interval +0.02 to +0.06, 5 paired seeds), p = 0.01."),
        (LOSS, "primary", NAN, "worse", "par scored worse than grpo: -0.04 (95% interval -0.06 to -0.02"),
        (NOTHING, "primary", NAN, "undecided", "par is not distinguishable from grpo: +0.01"),
        (WIN, "exploratory", 0.04, "better", "Exploratory: par scored better than grpo"),
        (WIN, "exploratory", 0.04, "better", "Holm-adjusted p = 0.04"),
        (LOSS, "exploratory", 0.04, "worse", "worse"),
        (WIN, "exploratory", 0.05, "undecided", "The unadjusted interval excludes zero, which among so many"),
        (WIN, "exploratory", NAN, "undecided", "not distinguishable"),
        (NOTHING, "exploratory", 0.9, "undecided", "Holm-adjusted p = 0.9."),
    ],
)  # fmt: skip
def test_a_curator_against_another(found, kind, adjusted, verdict, said):
    item = against(found, arm="par", kind=kind, adjusted=adjusted)
    statement = comparison_statement(item, decidable=True)
    assert statement.verdict == verdict
    assert said in statement.text
    # Without headroom there is no verdict in either direction, but the numbers.
    without = comparison_statement(item, decidable=False)
    assert (without.verdict, "better" in without.text, "worse" in without.text) == ("none", False, False)
    assert f"{amount(found)}; without headroom no verdict" in without.text


@pytest.mark.parametrize(
    ("first", "second", "verdict", "said"),
    [
        (WIN, WIN, "better", "The geometry adds something beyond the number of pairs."),
        (WIN, NOTHING, "better", "the number of pairs alone (pair_count) may explain the gain"),
        (WIN, LOSS, "better", "the number of pairs alone (pair_count) does better still: here the geometry takes away"),
        (LOSS, WIN, "worse", "geoalign scored better than pair_count"),
        (LOSS, NOTHING, "worse", "geoalign is not distinguishable from pair_count"),
        (NOTHING, LOSS, "undecided", "geoalign scored worse than pair_count"),
        (NOTHING, NOTHING, "undecided", "geoalign is not distinguishable from pair_count"),
    ],
)
def test_geoalign_is_never_judged_without_the_pair_count(first, second, verdict, said):
    control = against(second, other="pair_count")
    statement = geoalign_statement(against(first), control, "pair_count", decidable=True)
    assert statement.verdict == verdict
    assert all(words in statement.text for words in (said, amount(first), amount(second)))
    assert ("adds something beyond" in statement.text) == (first is WIN and second is WIN)


@pytest.mark.parametrize(
    ("control", "why"),
    [(None, "is missing."), (against(undefined(), other="pair_count"), "has no interval (2 paired seeds give")],
)
def test_no_claim_for_geoalign_without_its_difference_to_the_pair_count(control, why):
    found = geoalign_statement(against(WIN), control, "pair_count", decidable=True)
    assert (found.verdict, "better" in found.text) == ("none", False)
    assert f"No claim for geoalign: its paired difference to pair_count {why}" in found.text


@pytest.mark.parametrize(
    ("gain", "verdict", "said"),
    [
        (WIN, "better", "better than the number of pairs alone"),
        (LOSS, "worse", "worse than the number of pairs alone"),
        (NOTHING, "undecided", "cannot be told apart"),
        (undefined(), "none", "2 paired seeds give no interval"),
    ],
)
def test_detection(gain, verdict, said):
    empty = Interval(NAN, NAN, NAN)
    statement = detection_statement("geoalign", Detection((), empty, empty, "fewest_pairs", gain))
    assert (statement.verdict, statement.kind) == (verdict, "detection")
    assert said in statement.text
    assert "fewest_pairs" in statement.text


@pytest.mark.parametrize(("oracle", "headroom", "geoalign"), [(0.7, "better", "better"), (0.5, "undecided", "none")])
def test_from_results_a_clear_win_which_no_headroom_silences(make_comparison, oracle, headroom, geoalign):
    scores = {"grpo": 0.5, "pair_count": 0.5, "random": 0.5, "oracle": oracle, "geoalign": 0.6}
    folder = make_comparison({"x": scores})
    statements = read_table(folder).levels[0].statements
    found = {(item.arm, item.kind): item.verdict for item in statements}
    assert (found["oracle", "headroom"], found["geoalign", "primary"]) == (headroom, geoalign)
    others = {found["pair_count", "exploratory"], found["random", "exploratory"]}
    assert others == {"undecided" if headroom == "better" else "none"}
