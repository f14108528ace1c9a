"""The plain-words verdict on the consensus."""

import json

import pytest

from geoalign.lab.analysis.consensus import consensus
from geoalign.lab.store.run import read_run


@pytest.fixture
def verdict_of(make_run):
    folder = make_run(steps=1)

    def of(accuracies, *, half=0.1, curator="geoalign"):
        lines = [
            {"stage": "rl", "step": step, "geoalign/new_group_accuracy": value,
             "geoalign/chance_accuracy": 0.5, "geoalign/new_group_accuracy_low": value and value - half,
             "geoalign/new_group_accuracy_high": value and value + half}
            for step, value in enumerate(accuracies, 1)
        ]  # fmt: skip
        (folder / "metrics.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
        (folder / "config.yaml").write_text(f"curator: {{type: {curator}}}\n")
        return consensus(read_run(folder))

    return of


def test_clear_consensus(verdict_of):
    # Mean 0.70, standard deviation 0.02: the t interval 0.70 +- 4.303 * 0.02 / sqrt(3) = 0.65 to 0.75 is above 0.5.
    verdict = verdict_of([0.68, 0.70, 0.72])
    assert verdict.level == "yes"
    assert "70.0%" in verdict.text
    assert "65.0% to 75.0%" in verdict.text


def test_chance_inside_the_interval_is_said(verdict_of):
    # Mean 0.52, standard deviation 0.10: 0.52 +- 4.303 * 0.10 / sqrt(3) = 0.27 to 0.77.
    verdict = verdict_of([0.42, 0.52, 0.62])
    assert verdict.level == "no"
    assert "chance lies inside the interval" in verdict.headline


def test_below_chance(verdict_of):
    assert verdict_of([0.30, 0.31, 0.32]).level == "against"


def test_a_consensus_that_fades(verdict_of):
    # Sixteen steps: 0.8 twelve times, then a last quarter of 0.48, 0.50, 0.50, 0.52, whose interval holds one half.
    verdict = verdict_of([0.8] * 12 + [0.48, 0.50, 0.50, 0.52])
    assert verdict.level == "faded"
    assert "last 4 of these steps it was 50.0%" in verdict.text


def test_a_single_step_uses_its_own_interval_over_groups(verdict_of):
    assert verdict_of([None, 0.65], half=0.1).level == "yes"
    assert verdict_of([None, 0.65], half=0.2).level == "no"


def test_without_a_measurement_the_reason_is_told(verdict_of):
    assert "looks for no consensus" in verdict_of([None], curator="grpo").text
    assert "trains no projector" in verdict_of([None]).text
    assert verdict_of([None]).level == "unknown"
