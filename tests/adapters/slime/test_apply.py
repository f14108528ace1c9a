"""A curation in slime's list of samples, and the advantages, worked by hand."""

import math

import pytest
from curations import curation
from slime_parts import arguments

from geoalign.adapters.slime import hooks, post_process_rewards
from geoalign.adapters.slime.hooks import SlimeRun
from geoalign.errors import ConfigError, UnsupportedError


def decided(args, **changes):
    run = SlimeRun(args)
    run.session.curate = lambda rows: curation(rows, **changes)
    return run


GRPO = {"curator": {"type": "grpo"}}
# Rewards 1 1 0 0: mean 1/2, standard deviation sqrt(4 (1/2)^2 / 3) = 0.57735; 1 1 1 0: 3/4, and 1/2.
HALVES = 0.5 / (0.57735027 + 1e-6)


def test_without_curation_the_advantages_are_slimes(batch):
    before = list(batch)
    raw, found = SlimeRun(arguments(GRPO)).curate(batch)
    assert all(new is old for new, old in zip(batch, before, strict=True))
    assert raw == [1, 1, 0, 0, 1, 1, 1, 0, 0, 1, 0, 1]
    assert found[:4] == pytest.approx([HALVES, HALVES, -HALVES, -HALVES])
    assert found[4:8] == pytest.approx([0.5, 0.5, 0.5, -1.5], rel=1e-5)


@pytest.mark.parametrize(
    ("flags", "expected"),
    [
        ({"grpo_std_normalization": False}, [0.5, 0.5, -0.5, -0.5]),
        ({"rewards_normalization": False}, [1, 1, 0, 0]),
    ],
)
def test_other_normalisations(batch, flags, expected):
    _, found = SlimeRun(arguments(GRPO, **flags)).curate(batch)
    assert found[:4] == expected


def test_a_donor_stands_in_the_slot_with_the_ids_of_the_slot(batch):
    batch[3].rollout_id = 77
    donor = batch[0]
    raw_tokens = list(batch[3].tokens)
    raw, found = decided(arguments(GRPO), source=[0, 1, 2, 0, *range(4, 12)]).curate(batch)
    copy = batch[3]
    assert copy is not donor
    assert (copy.tokens, copy.reward, copy.index, copy.rollout_id) == (donor.tokens, 1.0, 3, 77)
    assert copy.tokens != raw_tokens
    assert (batch[0], donor.index, donor.rollout_id) == (donor, 0, None)
    # Rewards 1 1 0 1 now: mean 3/4, standard deviation 1/2; slime's own metric keeps the reward as generated.
    assert found[:4] == pytest.approx([0.5, 0.5, -1.5, 0.5], rel=1e-5)
    assert raw[3] == 0.0
    copy.metadata["answer"] = "other"
    assert donor.metadata["answer"] == "4"


def test_unscored_rows_leave_mean_and_deviation(batch):
    batch[3].reward = None
    batch[2].status = type(batch[2].status).FAILED
    raw, found = SlimeRun(arguments(GRPO)).curate(batch)
    assert found[:4] == [0.0] * 4  # 1 1 are left: no spread
    # The engine logs the mean of the raw rewards: of the ten scored ones, 1 1 1 1 1 0 0 1 0 1, it is 0.7.
    assert raw[2:4] == pytest.approx([0.7, 0.7])
    assert sum(raw) / len(raw) == pytest.approx(0.7)
    batch[0].reward = 1.0
    batch[1].reward = 0.0
    # 1 0 are left: mean 1/2, standard deviation sqrt(1/2).
    _, found = SlimeRun(arguments(GRPO)).curate(batch)
    assert found[:4] == pytest.approx([0.70710, -0.70710, 0, 0], abs=1e-4)
    batch[1].reward = None
    _, found = SlimeRun(arguments(GRPO)).curate(batch)
    assert found[:4] == [0.0] * 4  # one alone


def test_the_mean_of_raw_rewards_is_of_the_scored_samples_of_agents_too(batch):
    for sample in batch[:2]:
        sample.rollout_id, sample.reward = 0, 1.0
    batch[3].reward = None
    raw, _ = SlimeRun(arguments(GRPO)).curate(batch)
    scored = [1, 1, 0, 1, 1, 1, 0, 0, 1, 0, 1]
    assert sum(raw) / len(raw) == pytest.approx(sum(scored) / len(scored))


def test_nothing_scored_has_no_mean(batch):
    for sample in batch:
        sample.reward = None
    assert all(map(math.isnan, SlimeRun(arguments(GRPO)).curate(batch)[0]))


def test_dropped_rows_leave_the_loss_where_its_normaliser_is_the_tokens(batch):
    source = [0, 1, 3, *range(4, 12)]
    with pytest.raises(UnsupportedError, match="--global-batch-size rollouts; set --calculate-per-token-loss"):
        decided(arguments(GRPO), source=source).curate(batch)
    _, found = decided(arguments(GRPO, calculate_per_token_loss=True), source=source).curate(batch)
    assert [sample.remove_sample for sample in batch[:4]] == [False, False, True, False]
    # 1 1 0 are left: mean 2/3, standard deviation 0.57735.
    assert found[:4] == pytest.approx([0.57735, 0.57735, 0.0, -1.1547], abs=1e-4)


def test_a_donor_whose_own_slot_is_dropped_stays_in_the_loss_where_it_goes(batch):
    run = decided(arguments(GRPO, calculate_per_token_loss=True), source=[1, 1, *range(4, 12)])
    run.curate(batch)
    assert sorted(sample.remove_sample for sample in batch[:4]) == [False, False, True, True]
    kept = [sample for sample in batch[:4] if not sample.remove_sample]
    assert kept[0].tokens == kept[1].tokens


def test_a_rollout_of_several_samples_moves_as_a_whole(batch):
    for sample in batch[:2]:
        sample.rollout_id = 0
        sample.reward = 1.0
    first = [list(sample.tokens) for sample in batch[:2]]
    raw, found = decided(arguments(GRPO), source=[0, 1, 0, *range(3, 11)]).curate(batch)
    assert len(batch) == len(raw) == len(found) == 13
    assert [sample.tokens for sample in batch[3:5]] == first
    assert [sample.rollout_id for sample in batch[3:5]] == [3, 3]
    # One row a rollout: 1 0 1.
    assert found[:5] == pytest.approx([0.57735, 0.57735, -1.1547, 0.57735, 0.57735], abs=1e-4)


def test_one_run_for_one_namespace(batch):
    args = arguments(GRPO)
    post_process_rewards(args, batch)
    post_process_rewards(args, batch)
    assert hooks.run_of(args).session.calls == 2
    assert hooks.run_of(arguments(GRPO)).session.calls == 0


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"advantage_estimator": "ppo"}, "--advantage-estimator ppo"),
        ({"normalize_advantages": True}, "--normalize-advantages"),
        ({"custom_advantage_function_path": "a.b"}, "--custom-advantage-function-path a.b"),
    ],
)
def test_refused_arguments(changes, message):
    with pytest.raises(UnsupportedError, match=message):
        SlimeRun(arguments(GRPO, **changes))


def test_a_field_that_nobody_gives():
    with pytest.raises(ConfigError, match="requires answers: expected geoalign"):
        SlimeRun(arguments({"curator": {"type": "majority_vote"}}))


def test_denoise_of_a_component_of_a_reward_that_is_a_dict(batch):
    denoise = {"type": "denoise", "geometry": "none", "component": "verdict"}
    args = arguments({"curator": denoise, "rollout_fields": {"answers": "answer"}}, reward_key="score")
    with pytest.raises(ConfigError, match=r"this engine gives one reward: no dict of numbers in Sample\.reward"):
        SlimeRun(args).curate(batch)
    for sample in batch:
        sample.reward = {"score": sample.reward, "verdict": sample.reward / 2}
    seen = []
    run = SlimeRun(args)
    run.session.curate = lambda rollouts: seen.append(rollouts) or curation(rollouts)
    run.curate(batch)
    assert seen[0].components["verdict"][:4].tolist() == [0.5, 0.5, 0, 0]


@pytest.mark.parametrize(
    "curator", ["pods", {"type": "chain", "members": ["grpo", {"type": "geoalign", "strategy": "drop"}]}]
)
def test_a_curator_that_declares_to_drop_rows_is_refused_at_the_start(curator):
    with pytest.raises(UnsupportedError, match="drops rows, and slime's loss divides by --global-batch-size"):
        SlimeRun(arguments({"curator": curator}))
    SlimeRun(arguments({"curator": curator}, calculate_per_token_loss=True))
    SlimeRun(arguments({"curator": curator, "monitor": True}))
