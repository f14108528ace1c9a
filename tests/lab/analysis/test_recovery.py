"""What wrong rewards cost and what was recovered, on comparisons made by hand."""

from dataclasses import replace
from types import SimpleNamespace

import pytest

from geoalign.lab.analysis.comparison.verdicts import recovery
from geoalign.lab.analysis.statistics import seed_interval
from geoalign.lab.config.compare import CompareConfig, PrimaryComparison

PLAN = CompareConfig(
    arms={**{name: {} for name in ("grpo", "ours", "theirs", "oracle")}, "clean": {"reward": {"flip": 0.0}}},
    primary=[PrimaryComparison(arm="ours", against="grpo")],
)
SCORES = {"grpo": [0.4], "theirs": [0.38], "ours": [0.5], "oracle": [0.58], "clean": [0.6]}


def level(scores=SCORES, rate=0.4, plan=PLAN):
    def row(arm, values):
        by_seed = dict(enumerate(values))
        score = SimpleNamespace(values=by_seed, interval=seed_interval(values) if values else None)
        curator = plan.arms.get(arm, {}).get("curator", {}).get("type", "grpo")
        return SimpleNamespace(arm=arm, role=plan.role(arm), curator=curator, seeds=tuple(by_seed), score=score)

    rows = tuple(row(arm, values) for arm, values in scores.items())
    by_arm = {item.arm: item for item in rows}
    return SimpleNamespace(rows=rows, rate=rate, corruption={}, row=by_arm.get)


def test_shares_are_of_the_loss():
    found = recovery(level(), PLAN)
    # The loss is 0.6 - 0.4; ours wins back 0.1 of 0.2, theirs -0.02, the oracle 0.18.
    assert found.cost.interval.estimate == pytest.approx(0.2)
    shares = {arm.row.arm: arm.share.estimate for arm in found.arms}
    assert shares == pytest.approx({"oracle": 0.9, "ours": 0.5, "theirs": -0.1})
    assert list(shares) == ["oracle", "ours", "theirs"]


def test_the_headline_names_the_primary_arm_first_and_the_oracle_last():
    assert recovery(level(), PLAN).headline == (
        "40% of the rewards were wrong: grpo ends at 0.4 instead of 0.6. Recovered of that loss: ours 50%; theirs "
        "-10%; oracle, which knows the wrong ones, 90%."
    )
    many = {**SCORES, **{f"other_{at}": [0.45] for at in range(4)}}
    words = recovery(level(many), PLAN).headline
    assert words.endswith("Recovered of that loss: ours 50%; oracle, which knows the wrong ones, 90%.")


def test_one_seed_is_called_an_example():
    assert "One seed shows what happens, and proves nothing" in recovery(level(), PLAN).footnote
    three = {"grpo": [0.4, 0.4, 0.4], "ours": [0.44, 0.5, 0.52], "clean": [0.58, 0.6, 0.62]}
    found = recovery(level(three), PLAN)
    assert "over 3 paired seeds" in found.footnote
    # (0.04 + 0.1 + 0.12) / (0.18 + 0.2 + 0.22) = 0.26 / 0.6, with an interval.
    assert "ours 43% (" in found.headline


def test_without_a_loss_nothing_is_recovered():
    words = recovery(level({**SCORES, "clean": [0.4]}), PLAN).headline
    assert words.endswith("That is no loss, so there was nothing to recover.")
    unsure = {"grpo": [0.4, 0.6, 0.4], "ours": [0.5, 0.5, 0.5], "clean": [0.6, 0.5, 0.5]}
    assert recovery(level(unsure), PLAN).headline.endswith("The loss is not distinguishable from zero.")


def test_of_a_shortcut_no_share_of_wrong_rewards_is_told():
    taken = level(rate=0.5)
    taken.corruption["shortcut"] = 0.5
    assert recovery(taken, PLAN).headline.startswith("Some of the rewards were wrong: grpo ends at 0.4")


def test_there_is_none_without_corruption_or_without_the_clean_arm():
    ours = {"arms": {**PLAN.arms, "ours": {"curator": {"type": "denoise"}, "reward": {"flip": 0.0}}}, "primary": []}
    assert recovery(level({"grpo": [0.4], "ours": [0.5]}, plan=replace(PLAN, **ours)), replace(PLAN, **ours)) is None
    assert recovery(level(rate=0.0), PLAN) is None
    assert recovery(level({"grpo": [0.4], "ours": [0.5]}), PLAN) is None
    assert recovery(level({**SCORES, "clean": []}), PLAN) is None
    assert recovery(level({**SCORES, "grpo": []}), PLAN) is None
