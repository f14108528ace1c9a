"""What may be said: every branch of every sentence, and the whole way from results with known effects."""

import math

import pytest

from geoalign.lab.analysis.comparison.analysis import analyse
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
from geoalign.lab.store.comparison import ComparisonFolder, read_results

NAN = math.nan
PLAN = CompareConfig(arms={})
NO_VERDICT = "no verdict on any curator is possible here"


def difference(low, high, *, p=0.01, pairs=5, left_out=0):
    return PairedDifference(Interval((low + high) / 2, low, high), p, pairs, left_out)


def undefined(estimate=0.1, pairs=2):
    return PairedDifference(Interval(estimate, NAN, NAN), NAN, pairs, 0)


WIN, LOSS, NOTHING = difference(0.02, 0.06), difference(-0.06, -0.02), difference(-0.01, 0.03, p=0.3)


def against(found, *, arm="geoalign", other="grpo", kind="primary", adjusted=NAN):
    return Comparison("flip_10", arm, other, kind, found, adjusted)


# --- headroom ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("found", "verdict", "said"),
    [
        (WIN, "better", "There is room for a curator"),
        (NOTHING, "undecided", f"The interval does not exclude zero: {NO_VERDICT}"),
        (LOSS, "worse", f"did worse than grpo: {NO_VERDICT}"),
        (undefined(), "none", f"2 paired seeds give no interval (at least 3 are needed): {NO_VERDICT}"),
        (undefined(pairs=1), "none", f"One paired seed gives no interval (at least 3 are needed): {NO_VERDICT}"),
        (undefined(NAN, 0), "none", "unknown (no seed has both). No paired seed gives no interval"),
    ],
)  # fmt: skip
def test_headroom(found, verdict, said):
    statement = headroom_statement("flip_10", 0.1, against(found, arm="oracle", kind="headroom"), PLAN)
    assert statement.verdict == verdict
    assert said in statement.text
    assert statement.text.startswith("Headroom, oracle minus grpo: ")
    assert (NO_VERDICT in statement.text) == (verdict != "better")


def test_headroom_without_an_oracle_or_without_corruption():
    missing = headroom_statement("a", 0.1, None, CompareConfig(arms={}, oracle=None))
    assert (missing.verdict, missing.kind) == ("none", "headroom")
    assert "The headroom was not measured" in missing.text
    clean = headroom_statement("a", 0.0, against(WIN, arm="oracle"), PLAN)
    assert clean.verdict == "none"
    assert "No reward is corrupted at this level" in clean.text
    assert NO_VERDICT in clean.text


# --- any curator ------------------------------------------------------------------------------------------------------


def test_a_primary_win_loss_and_nothing():
    won = comparison_statement(against(WIN), decidable=True)
    assert won.verdict == "better"
    assert won.text == (
        "geoalign scored better than grpo: +0.04 (95% interval +0.02 to +0.06, 5 paired seeds), p = 0.01."
    )
    lost = comparison_statement(against(LOSS), decidable=True)
    assert lost.verdict == "worse"
    assert lost.text.startswith("geoalign scored worse than grpo: -0.04 (95% interval -0.06 to -0.02")
    nothing = comparison_statement(against(NOTHING), decidable=True)
    assert nothing.verdict == "undecided"
    assert nothing.text.startswith("geoalign is not distinguishable from grpo: +0.01")


@pytest.mark.parametrize("found", [WIN, LOSS, NOTHING])
def test_without_headroom_there_is_no_verdict_in_either_direction(found):
    statement = comparison_statement(against(found), decidable=False)
    assert statement.verdict == "none"
    assert "better" not in statement.text
    assert "worse" not in statement.text
    assert "without headroom no verdict" in statement.text
    # The numbers are given all the same.
    assert amount(found) in statement.text


def test_exploratory_findings_need_holms_correction():
    won = comparison_statement(against(WIN, arm="par", kind="exploratory", adjusted=0.04), decidable=True)
    assert won.verdict == "better"
    assert won.text.startswith("Exploratory: par scored better than grpo")
    assert "Holm-adjusted p = 0.04" in won.text
    lost = comparison_statement(against(LOSS, arm="par", kind="exploratory", adjusted=0.04), decidable=True)
    assert lost.verdict == "worse"
    for adjusted in (0.05, 0.2, NAN):
        missed = comparison_statement(against(WIN, arm="par", kind="exploratory", adjusted=adjusted), decidable=True)
        assert missed.verdict == "undecided"
        assert "not distinguishable" in missed.text
        assert "The unadjusted interval excludes zero, which among so many comparisons is no finding." in missed.text
    nothing = comparison_statement(against(NOTHING, kind="exploratory", adjusted=0.9), decidable=True)
    assert "unadjusted" not in nothing.text


# --- GeoAlign ---------------------------------------------------------------------------------------------------------


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
    assert said in statement.text
    assert amount(first) in statement.text
    assert amount(second) in statement.text
    assert ("adds something beyond" in statement.text) == (first is WIN and second is WIN)


def test_no_claim_for_geoalign_without_its_difference_to_the_pair_count():
    alone = geoalign_statement(against(WIN), None, "pair_count", decidable=True)
    assert alone.verdict == "none"
    assert alone.text.endswith("No claim for geoalign: its paired difference to pair_count is missing.")
    assert "better" not in alone.text
    few = geoalign_statement(against(WIN), against(undefined(), other="pair_count"), "pair_count", decidable=True)
    assert few.verdict == "none"
    assert "No claim for geoalign: its paired difference to pair_count has no interval (2 paired seeds give" in few.text


# --- bounds and detection ---------------------------------------------------------------------------------------------


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
    statement = detection_statement("a", "geoalign", Detection((), empty, empty, "fewest_pairs", gain))
    assert (statement.verdict, statement.kind) == (verdict, "detection")
    assert said in statement.text
    assert "fewest_pairs" in statement.text


# --- numbers ----------------------------------------------------------------------------------------------------------


# --- from results -----------------------------------------------------------------------------------------------------


def statements_of(folder):
    return analyse(read_results(folder), ComparisonFolder(folder).read_plan()).levels[0].statements


def verdicts(folder):
    return {(item.arm, item.kind): item.verdict for item in statements_of(folder)}


BASE = {"grpo": 0.5, "pair_count": 0.5, "random": 0.5, "oracle": 0.7}


def test_a_clear_win(make_comparison):
    found = verdicts(make_comparison({"x": {**BASE, "geoalign": 0.6}}))
    assert found["oracle", "headroom"] == "better"
    assert found["geoalign", "primary"] == "better"
    assert found["pair_count", "exploratory"] == found["random", "exploratory"] == "undecided"


def test_no_headroom_silences_a_win(make_comparison):
    found = verdicts(make_comparison({"x": {**BASE, "geoalign": 0.6, "oracle": 0.5}}))
    assert found["oracle", "headroom"] == "undecided"
    assert {verdict for (_, kind), verdict in found.items() if kind in ("primary", "exploratory")} == {"none"}
