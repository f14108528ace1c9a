"""A conversion of one's own behind a curated batch, worked by hand."""

import inspect

import pytest
from slime_parts import arguments, mine, recorded

from geoalign.adapters.slime import curated_conversion, post_process_rewards
from geoalign.adapters.slime.hooks import run_of
from geoalign.errors import ConfigError, InputError

REPLACE = {"curator": {"type": "pf_ppo_br"}}
DROP = {"curator": {"type": "pods", "m": 2}}
# Rewards 1 1 0 0: mean 1/2, standard deviation 0.57735.
HALVES = 0.5 / (0.57735027 + 1e-6)


def test_the_data_are_those_of_the_curated_samples_with_the_hooks_advantages(batch):
    by_hook, args = recorded(), arguments(REPLACE)
    raw, advantages = post_process_rewards(arguments(REPLACE), by_hook)
    found = curated_conversion(mine)(args, batch)
    assert found == {**mine(args, by_hook), "rewards": advantages, "raw_reward": raw}
    assert [sample.tokens for sample in by_hook] != [sample.tokens for sample in recorded()]
    assert run_of(args).session.calls == 1


def test_without_curation_rewards_are_the_advantages_and_the_rest_is_the_conversions(batch):
    args = arguments({"curator": {"type": "grpo"}})
    plain = mine(args, recorded())
    found = curated_conversion(mine)(args, batch)
    assert found["rewards"][:4] == pytest.approx([HALVES, HALVES, -HALVES, -HALVES])
    assert {**found, "rewards": plain["rewards"]} == plain


def test_rows_may_be_left_out_or_several_of_one_sample(batch):
    def split(args, samples):
        return mine(args, [samples[0], samples[0], *samples[2:]])

    found = curated_conversion(split)(arguments({"curator": {"type": "grpo"}}), batch)
    assert found["rewards"][:4] == pytest.approx([HALVES, HALVES, -HALVES, -HALVES])
    assert found["raw_reward"][:4] == [1, 1, 0, 0]

    def leaves_out(args, samples):
        return mine(args, [samples[3], samples[0]])

    found = curated_conversion(leaves_out)(arguments({"curator": {"type": "grpo"}}), recorded())
    assert found["rewards"] == pytest.approx([-HALVES, HALVES])
    assert found["raw_reward"] == [0, 1]


def test_samples_of_one_rollout_share_its_advantage_under_one_index(batch):
    for sample in batch[:2]:
        sample.rollout_id, sample.index = 0, 0

    def turned(args, samples):
        return mine(args, samples[::-1])

    found = curated_conversion(turned)(arguments({"curator": {"type": "grpo"}}), batch)
    # One row a rollout: 1 0 0, mean 1/3, standard deviation 0.57735.
    assert found["rewards"][::-1][:4] == pytest.approx([1.1547, 1.1547, -0.57735, -0.57735], abs=1e-4)


def test_dropped_samples_must_leave_the_loss(batch):
    args = arguments(DROP, calculate_per_token_loss=True)
    found = curated_conversion(mine)(args, batch)
    dropped = [row for row, sample in enumerate(batch) if sample.remove_sample]
    assert len(dropped) == 6
    assert all(not any(found["loss_masks"][row]) and found["rewards"][row] == 0 for row in dropped)

    def trains_on_all(args, samples):
        return {**mine(args, samples), "loss_masks": [[1] * sample.response_length for sample in samples]}

    with pytest.raises(InputError, match=r"loss_masks .*: expected zeros for sample \d+, which is dropped"):
        curated_conversion(trains_on_all)(args, recorded())
    kept_out = recorded()
    kept_out[0].remove_sample = True  # by a filter: no affair of the curation's
    curated_conversion(trains_on_all)(arguments({"curator": {"type": "grpo"}}), kept_out)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"sample_indices": [*range(11), 99]}, "expected Sample.index of one rollout, got 99, which 0 have"),
        ({"tokens": [[1]]}, "tokens of the converted samples: expected 12, as sample_indices or the samples, got 1"),
        ({"loss_masks": []}, "loss_masks of the converted samples: expected 12"),
    ],
)
def test_rows_of_no_sample(batch, changes, message):
    with pytest.raises(InputError, match=message):
        curated_conversion(lambda args, samples: {**mine(args, samples), **changes})(arguments(REPLACE), batch)


def test_an_index_of_two_rollouts(batch):
    batch[1].index = 0
    with pytest.raises(InputError, match="got 0, which 2 have"):
        curated_conversion(lambda args, samples: mine(args, samples[::-1]))(arguments(REPLACE), batch)


def test_a_batch_is_curated_once(batch):
    args = arguments(REPLACE)

    def curates(args, samples):
        post_process_rewards(args, samples)

    for twice in (curates, curated_conversion(mine)):
        with pytest.raises(ConfigError, match="curated_conversion: expected a conversion that does not curate"):
            curated_conversion(twice)(args, batch)
    assert run_of(args).session.calls == 2
    curated_conversion(mine)(args, batch)


def test_it_has_the_conversions_name_and_signature():
    assert curated_conversion(mine).__name__ == "mine"
    assert list(inspect.signature(curated_conversion(mine)).parameters) == ["args", "samples"]
