import math

import pytest
import torch
from trl_parts import Scripted, curated_batch, curation, gaps, length, trainer

from geoalign.adapters.grpo_trainer.scaled_advantages import advantages_by_function, scaled_advantages, total_rewards

NAN = math.nan
# Group 0: 1, 3 (and one without a reward); group 1: 0, 0, 6.
REWARDS = torch.tensor([1.0, NAN, 3.0, 0.0, 0.0, 6.0])
LONELY = torch.tensor([1.0, NAN, NAN, NAN, NAN, NAN])


@pytest.mark.parametrize(
    ("estimator", "scale", "expected"),
    [
        ("grpo", "none", [-1, 0, 1, -2, -2, 4]),
        # Deviations sqrt(2) and sqrt(12), one degree of freedom less than rewards.
        ("grpo", "group", [-0.7071, 0, 0.7071, -0.5773, -0.5773, 1.1547]),
        # Of 1, 3, 0, 0, 6 around 2: (1 + 1 + 4 + 4 + 16) / 4 = 6.5, sqrt 2.5495.
        ("grpo", "batch", [-0.3922, 0, 0.3922, -0.7845, -0.7845, 1.5689]),
        # ms-swift's. k / (k - 1): 2 of group 0's two, 1.5 of group 1's three.
        ("rloo", "none", [-2, 0, 2, -3, -3, 6]),
        # Of the advantages -1, 1, -2, -2, 4 around 0: 26 / 4 = 6.5.
        ("reinforce_plus_plus", "batch", [-0.3922, 0, 0.3922, -0.7845, -0.7845, 1.5689]),
    ],
)
def test_by_hand(estimator, scale, expected):
    got = scaled_advantages(REWARDS, 3, estimator=estimator, scale_rewards=scale)
    torch.testing.assert_close(got, torch.tensor(expected, dtype=torch.float32), atol=2e-4, rtol=0)
    assert scaled_advantages(LONELY, 3, estimator=estimator, scale_rewards=scale).tolist() == [0.0] * 6


def test_total_leaves_single_nan_out_and_keeps_rows_of_nan():
    per_function = torch.tensor([[1.0, 2.0], [NAN, 2.0], [NAN, NAN]])
    total = total_rewards(per_function, torch.tensor([2.0, 0.5]))
    torch.testing.assert_close(total, torch.tensor([3.0, 1.0, NAN]), equal_nan=True)
    assert advantages_by_function(LONELY[:, None], torch.ones(1), 3).tolist() == [0.0] * 6


@pytest.mark.parametrize("scale", ["group", "batch", "none"])
@pytest.mark.parametrize("aggregation", ["sum_then_normalize", "normalize_then_sum"])
@pytest.mark.parametrize("rewards", [{gaps: 1.0, length: 0.3}, {gaps: 1.0}])
def test_the_same_as_trls_own_code(tmp_path, scale, aggregation, rewards):
    """Where nothing is dropped, TRL's code and ours give the same numbers; some rows here cannot be scored."""
    options = {"scale_rewards": scale, "multi_objective_aggregation": aggregation}
    options["reward_weights"] = [*rewards.values()]
    watcher = Scripted(curation, requires=("advantages",))
    theirs = curated_batch(trainer(tmp_path, watcher, reward=[*rewards], per_device_train_batch_size=32, **options))
    seen = watcher.seen[0]
    assert seen.rewards.isnan().any() == (len(rewards) == 1)
    torch.testing.assert_close(seen.advantages, theirs["advantages"], atol=1e-5, rtol=1e-5)
    assert theirs["advantages"].abs().max() > 0.1
