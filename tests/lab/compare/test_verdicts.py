"""What may be said: every branch of every sentence, and the whole way from results with known effects."""

import math

import pytest

from geoalign.lab.compare.analysis import read_table
from geoalign.lab.compare.settings import CompareConfig
from geoalign.lab.compare.statements import (
    amount,
    comparison_statement,
    detection_statement,
    geoalign_statement,
    headroom_statement,
)
from geoalign.lab.compare.table import Comparison
from geoalign.lab.runs.detection import Detection
from geoalign.statistics import Interval, PairedDifference

NAN = math.nan
PLAN = CompareConfig(arms={})


def difference(low, high, *, p=0.01):
    return PairedDifference(Interval((low + high) / 2, low, high), p, 5, 0)


def undefined(estimate=0.1, pairs=2):
    return PairedDifference(Interval(estimate, NAN, NAN), NAN, pairs, 0)


WIN = difference(0.02, 0.06)
LOSS = difference(-0.06, -0.02)
NOTHING = difference(-0.01, 0.03, p=0.3)


def against(found, *, arm="geoalign", other="grpo", kind="primary", adjusted=NAN):
    return Comparison(arm, other, kind, found, adjusted)


@pytest.mark.parametrize(
    ("rate", "found", "verdict"),
    [
        (0.1, WIN, "better"),
        (0.1, NOTHING, "undecided"),
        (0.1, LOSS, "worse"),
        (0.1, undefined(), "none"),
        (0.1, undefined(pairs=1), "none"),
        (0.1, undefined(NAN, 0), "none"),
        # Nothing is wrong, so the oracle has nothing to replace.
        (0.0, WIN, "none"),
        (0.1, None, "none"),
    ],
)
def test_headroom(rate, found, verdict):
    headroom = found and against(found, arm="oracle", kind="headroom")
    statement = headroom_statement(rate, headroom, PLAN)
    assert (statement.verdict, statement.kind) == (verdict, "headroom")
    assert found is None or amount(found) in statement.text
    # Behind a verifier that errs by itself nothing is injected, and the truth as the reward has headroom all the same.
    assert headroom_statement(0.0, against(WIN, arm="clean", kind="headroom"), PLAN).verdict == "better"


@pytest.mark.parametrize(
    ("found", "kind", "adjusted", "verdict", "p"),
    [
        (WIN, "primary", NAN, "better", "p = 0.01"),
        (LOSS, "primary", NAN, "worse", "p = 0.01"),
        (difference(0.02, 0.06, p=0.00001), "primary", NAN, "better", "p < 0.0001"),
        (NOTHING, "primary", NAN, "undecided", "p = 0.3"),
        (WIN, "exploratory", 0.04, "better", "Holm-adjusted p = 0.04"),
        (LOSS, "exploratory", 0.04, "worse", "Holm-adjusted p = 0.04"),
        # Its own interval excludes zero, but not among so many.
        (WIN, "exploratory", 0.05, "undecided", "Holm-adjusted p = 0.05"),
        (WIN, "exploratory", NAN, "undecided", "Holm-adjusted"),
        (NOTHING, "exploratory", 0.9, "undecided", "Holm-adjusted p = 0.9"),
    ],
)
def test_a_curator_against_another(found, kind, adjusted, verdict, p):
    item = against(found, arm="par", kind=kind, adjusted=adjusted)
    statement = comparison_statement(item, decidable=True)
    assert statement.verdict == verdict
    assert amount(found) in statement.text
    assert p in statement.text
    # Without headroom there is no verdict in either direction, but the numbers.
    without = comparison_statement(item, decidable=False)
    assert (without.verdict, "better" in without.text, "worse" in without.text) == ("none", False, False)
    assert amount(found) in without.text


@pytest.mark.parametrize(
    ("first", "second", "verdict"),
    [
        (WIN, WIN, "better"),
        (WIN, NOTHING, "better"),
        (WIN, LOSS, "better"),
        (LOSS, WIN, "worse"),
        (LOSS, NOTHING, "worse"),
        (NOTHING, LOSS, "undecided"),
        (NOTHING, NOTHING, "undecided"),
    ],
)
def test_geoalign_is_never_judged_without_the_pair_count(first, second, verdict):
    control = against(second, other="pair_count")
    statement = geoalign_statement(against(first), control, "pair_count", decidable=True)
    assert statement.verdict == verdict
    assert amount(first) in statement.text
    assert amount(second) in statement.text
    assert ("adds something beyond" in statement.text) == (first is WIN and second is WIN)


@pytest.mark.parametrize("control", [None, against(undefined(), other="pair_count")])
def test_no_claim_for_geoalign_without_its_difference_to_the_pair_count(control):
    found = geoalign_statement(against(WIN), control, "pair_count", decidable=True)
    assert (found.verdict, "better" in found.text) == ("none", False)


@pytest.mark.parametrize(
    ("gain", "verdict"),
    [
        (WIN, "better"),
        (LOSS, "worse"),
        (NOTHING, "undecided"),
        (undefined(), "none"),
    ],
)
def test_detection(gain, verdict):
    empty = Interval(NAN, NAN, NAN)
    statement = detection_statement("geoalign", Detection((), empty, empty, "fewest_pairs", gain))
    assert (statement.verdict, statement.kind) == (verdict, "detection")
    assert amount(gain) in statement.text


@pytest.mark.parametrize(("oracle", "headroom", "geoalign"), [(0.7, "better", "better"), (0.5, "undecided", "none")])
def test_from_results_a_clear_win_which_no_headroom_silences(make_comparison, oracle, headroom, geoalign):
    scores = {"grpo": 0.5, "pair_count": 0.5, "random": 0.5, "oracle": oracle, "geoalign": 0.6}
    folder = make_comparison({"x": scores})
    statements = read_table(folder).levels[0].statements
    found = {(item.arm, item.kind): item.verdict for item in statements}
    assert (found["oracle", "headroom"], found["geoalign", "primary"]) == (headroom, geoalign)
    others = {found["pair_count", "exploratory"], found["random", "exploratory"]}
    assert others == {"undecided" if headroom == "better" else "none"}
