"""Which arms belong together: by their settings alone."""

from geoalign.lab.analysis.comparison.analysis import analyse
from geoalign.lab.analysis.comparison.groups import ALPHA, DEPTH, comparable, differing, reference, sweep, variants
from geoalign.lab.store.comparison import ComparisonFolder
from geoalign.lab.store.comparison_results import read_results

BASE = {"alpha": 0.05, "strategy": "replace", "aggregation": "sum", "projector": {"layers": 3, "steps": 50}}


def rows_of(make_comparison, **settings):
    """Rows of arms whose curators have the settings given; names say nothing of them."""
    kinds = {name: {"type": "geoalign", **BASE, **value} for name, value in settings.items()}
    folder = make_comparison({"x": dict.fromkeys(["grpo", *settings], 0.5)}, settings=kinds, seeds=(0,))
    plan = ComparisonFolder(folder).read_plan()
    return {row.arm: row for row in analyse(read_results(folder), plan).levels[0].rows}, plan


def test_comparable_settings():
    assert comparable({"a": 1, "b": {"c": None, "d": [1, 2]}}) == {"a": 1, "b.c": None, "b.d": (1, 2)}


def test_differing_settings_in_both_directions():
    assert differing({"a": 1, "b": 2}, {"a": 1, "b": 3}) == {"b": 2}
    assert differing({"a": 1, "new": True}, {"a": 1}) == {"new": True}
    assert differing({"projector": None}, {"projector": {"layers": 3}}) == {"projector": None}
    assert differing(BASE, BASE) == {}


def test_alpha_and_depth_sweeps(make_comparison):
    rows, plan = rows_of(
        make_comparison,
        geoalign={}, one={"alpha": 0.2}, two={"projector": {"layers": 5, "steps": 50}},
        both={"alpha": 0.2, "strategy": "drop"}, three={"projector": {"layers": 2, "steps": 99}},
    )  # fmt: skip
    like = reference(list(rows.values()), plan)
    assert like.arm == "geoalign"
    found = sweep(list(rows.values()), ALPHA, like)
    assert (found.values, [row.arm for row in found.rows]) == ((0.05, 0.2), ["geoalign", "one"])
    depth = sweep(list(rows.values()), DEPTH, like)
    # Another number of steps is another experiment.
    assert (depth.values, [row.arm for row in depth.rows]) == ((3, 5), ["geoalign", "two"])
    assert sweep(list(rows.values()), "projector.steps", like) is None


def test_variants_say_what_they_change(make_comparison):
    rows, plan = rows_of(
        make_comparison,
        geoalign={}, same={}, sensitive={"alpha": 0.2}, dropping={"strategy": "drop"}, raw={"projector": None},
        mean_amplify={"aggregation": "mean", "strategy": "amplify"}, gated={"consensus_gate": True},
    )  # fmt: skip
    found = variants(list(rows.values()), reference(list(rows.values()), plan))
    assert {item.row.arm: item.differences for item in found} == {
        "dropping": "strategy = drop",
        "raw": "projector = none",
        "mean_amplify": "strategy = amplify, aggregation = mean",
        "gated": "consensus_gate = true",
    }


def test_without_geoalign_there_is_no_reference(make_comparison):
    folder = make_comparison({"x": {"grpo": 0.5, "random": 0.5}}, seeds=(0,))
    plan = ComparisonFolder(folder).read_plan()
    assert reference(analyse(read_results(folder), plan).levels[0].rows, plan) is None
