import math

import pytest
import torch
from trl_parts import Scripted, curated_batch, curation, digits, length, trainer

from geoalign.adapters.trl.advantages import advantages_by_function, scaled_advantages, total_rewards

NAN = math.nan
GROUPS = torch.tensor([0, 0, 0, 1, 1, 1])


# Group 0: 1, 3 (and one without a reward); group 1: 0, 0, 6.
REWARDS = torch.tensor([1.0, NAN, 3.0, 0.0, 0.0, 6.0])


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
    got = scaled_advantages(REWARDS, GROUPS, estimator=estimator, scale_rewards=scale)
    torch.testing.assert_close(got, torch.tensor(expected, dtype=torch.float32), atol=2e-4, rtol=0)


def test_total_leaves_single_nan_out_and_keeps_rows_of_nan():
    per_function = torch.tensor([[1.0, 2.0], [NAN, 2.0], [NAN, NAN]])
    total = total_rewards(per_function, torch.tensor([2.0, 0.5]))
    assert total[:2].tolist() == [3.0, 1.0]
    assert total[2].isnan()


def test_degenerate_batches_give_zero():
    lonely = torch.tensor([1.0, NAN, NAN, NAN, NAN, NAN])
    for scale in ("group", "batch", "none"):
        assert scaled_advantages(lonely, GROUPS, scale_rewards=scale).tolist() == [0.0] * 6
    assert advantages_by_function(lonely[:, None], torch.ones(1), GROUPS).tolist() == [0.0] * 6


def gaps(completions, **columns):
    """A reward that cannot score every row."""
    return [None if "1" in text else value for text, value in zip(completions, digits(completions), strict=True)]


@pytest.mark.parametrize("scale", ["group", "batch", "none"])
@pytest.mark.parametrize("aggregation", ["sum_then_normalize", "normalize_then_sum"])
def test_the_same_as_trls_own_code(tmp_path, scale, aggregation):
    """Where nothing is dropped, TRL's code and ours give the same numbers; some rows here cannot be scored."""
    prepared = trainer(
        tmp_path,
        Scripted(curation),
        reward=[gaps, length],
        reward_weights=[1.0, 0.3],
        scale_rewards=scale,
        multi_objective_aggregation=aggregation,
        num_generations=4,
        per_device_train_batch_size=32,
    )
    kept: dict[str, torch.Tensor] = {}
    wrapped = prepared._calculate_rewards

    def remember(*args):
        kept["rewards"] = wrapped(*args)
        return kept["rewards"]

    prepared._calculate_rewards = remember
    theirs = curated_batch(prepared)["advantages"]
    per_function, groups = kept["rewards"], torch.arange(32) // 4
    assert per_function.isnan().any()
    if aggregation == "normalize_then_sum":
        ours = advantages_by_function(per_function, prepared.reward_weights, groups)
    else:
        ours = scaled_advantages(
            total_rewards(per_function, prepared.reward_weights), groups, scale_rewards=prepared.scale_rewards
        )
    torch.testing.assert_close(ours, theirs, atol=1e-5, rtol=1e-5)
    assert theirs.abs().max() > 0.1
