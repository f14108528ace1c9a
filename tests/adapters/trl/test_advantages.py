import math

import pytest
import torch
from trl_parts import Scripted, curated_batch, curation, digits, length, trainer

from geoalign.adapters.trl.advantages import total_rewards, trl_advantages, trl_advantages_by_function
from geoalign.errors import UnsupportedError

NAN = math.nan
GROUPS = torch.tensor([0, 0, 0, 1, 1, 1])


def test_group_scale_by_hand():
    # Group 0: mean 2, std sqrt((1 + 0 + 1) / 2) = 1, so -1/1.0001, 0, 1/1.0001. Group 1: the NaN row is out, mean 3,
    # std sqrt((1 + 1) / 1) = 1.41421, so -1/1.41431 and 1/1.41431.
    rewards = torch.tensor([1.0, 2, 3, 2, NAN, 4])
    expected = torch.tensor([-0.9999, 0, 0.9999, -0.70706, 0, 0.70706])
    torch.testing.assert_close(trl_advantages(rewards, GROUPS, scale_rewards="group"), expected, atol=2e-5, rtol=0)


def test_other_scales_by_hand():
    # Kept rewards 1, 2, 3, 2, 4: mean 2.4, squares 1.96 + 0.16 + 0.36 + 0.16 + 2.56 = 5.2,
    # std sqrt(5.2 / 4) = 1.140175.
    rewards = torch.tensor([1.0, 2, 3, 2, NAN, 4])
    centred = torch.tensor([-1.0, 0, 1, -1, 0, 1])
    torch.testing.assert_close(trl_advantages(rewards, GROUPS, scale_rewards="none"), centred)
    torch.testing.assert_close(
        trl_advantages(rewards, GROUPS, scale_rewards="batch"), centred / (1.140175 + 1e-4), atol=1e-5, rtol=0
    )


def test_total_leaves_single_nan_out_and_keeps_rows_of_nan():
    per_function = torch.tensor([[1.0, 2.0], [NAN, 2.0], [NAN, NAN]])
    total = total_rewards(per_function, torch.tensor([2.0, 0.5]))
    assert total[:2].tolist() == [3.0, 1.0]
    assert total[2].isnan()


def test_unknown_scale_is_refused():
    with pytest.raises(UnsupportedError, match="scale_rewards"):
        trl_advantages(torch.zeros(6), GROUPS, scale_rewards="median")


def test_degenerate_batches_give_zero():
    lonely = torch.tensor([1.0, NAN, NAN, NAN, NAN, NAN])
    for scale in ("group", "batch", "none"):
        assert trl_advantages(lonely, GROUPS, scale_rewards=scale).tolist() == [0.0] * 6
    assert trl_advantages_by_function(lonely[:, None], torch.ones(1), GROUPS).tolist() == [0.0] * 6


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
        ours = trl_advantages_by_function(per_function, prepared.reward_weights, groups)
    else:
        ours = trl_advantages(
            total_rewards(per_function, prepared.reward_weights), groups, scale_rewards=prepared.scale_rewards
        )
    torch.testing.assert_close(ours, theirs, atol=1e-5, rtol=1e-5)
    assert theirs.abs().max() > 0.1
