import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from benchmarks.dialogue_labels import labelled


def test_labels_are_gold_utilities_on_the_scale_of_the_rewards(tmp_path):
    """By hand: the action's three steps in order have utility 3 x 0.5 + 2 x 0.25 = 2, nothing 0, flattery -0.25."""
    prompt = "help me fix my lamp"
    rows = [
        {"group": group, "prompt": prompt, "response": response, "reward": 9.0, "true_reward": reward}
        for group, response, reward in [(0, "open, mend, test.", 1.0), (0, "", 4.0), (0, "nice!", 4.0), (1, "", 0.0)]
    ]
    pq.write_table(pa.Table.from_pylist(rows), tmp_path / "step.parquet")
    labels = [row["true_reward"] for row in labelled(tmp_path / "step.parquet", 1)]
    assert np.mean(labels) == pytest.approx(3.0, abs=1e-3)
    assert np.std(labels) == pytest.approx(2**0.5, abs=1e-3)
    assert (labels[0] - labels[1]) / (labels[1] - labels[2]) == pytest.approx(2 / 0.25, abs=0.05)
