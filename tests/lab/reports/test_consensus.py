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


@pytest.mark.parametrize(
    ("accuracies", "half", "level", "said"),
    [
        # Mean 0.70, standard deviation 0.02: the t interval 0.70 +- 4.303 * 0.02 / sqrt(3) = 0.65 to 0.75.
        ([0.68, 0.70, 0.72], 0.1, "yes", "70.0% of pairs (mean over 3 steps; 95% interval 65.0% to 75.0%; chance 50%)"),
        # Mean 0.52, standard deviation 0.10: 0.52 +- 4.303 * 0.10 / sqrt(3) = 0.27 to 0.77.
        ([0.42, 0.52, 0.62], 0.1, "no", "27.2% to 76.8%"),
        ([0.30, 0.31, 0.32], 0.1, "against", "31.0%"),
        # Sixteen steps: a last quarter of 0.48, 0.50, 0.50, 0.52, whose interval holds one half.
        ([0.8] * 12 + [0.48, 0.50, 0.50, 0.52], 0.1, "faded", "last 4 of these steps it was 50.0%"),
        # A single step has its own interval over groups.
        ([None, 0.65], 0.1, "yes", "one step"),
        ([None, 0.65], 0.2, "no", "one step"),
        ([None], 0.1, "unknown", "trains no projector"),
    ],
)
def test_the_verdict(verdict_of, accuracies, half, level, said):
    verdict = verdict_of(accuracies, half=half)
    assert verdict.level == level
    assert said in verdict.text


def test_without_a_projector_the_reason_is_told(verdict_of):
    assert "looks for no consensus" in verdict_of([None], curator="grpo").text
