"""The baselines: values that their own source gives, on three groups of eight rewards."""

import math
from dataclasses import replace

import pytest
import torch
from worked_groups import EQ, RB, RC, close, generator, group

from geoalign import Rollouts, group_advantages
from geoalign.curators.baselines.reshaped_advantages import MCGRPO, SGRPO, QuantileBaseline
from geoalign.curators.baselines.reshaped_rewards import PAR
from geoalign.curators.baselines.seed_grpo import SeedGRPO, cosine_clusters
from geoalign.curators.baselines.subsets import CPPO, PODS, PFPPOBestRandom, PFPPOBestWorst, VarianceFilter
from geoalign.errors import ConfigError, InputError


def test_s_grpo():
    expected = [0.0, 0.420883, 0.72111, 0.784857, 0.8, 0.784857, 0.72111, 0.420883, 0.0]
    for right, weight in enumerate(expected):
        rollouts = group([1.0] * right + [0.0] * (8 - right))
        close(SGRPO(flip_rate=0.1).curate(rollouts).weights, [weight] * 8, atol=1e-5)
    with pytest.raises(ConfigError, match=r"less than 0\.5"):
        SGRPO(flip_rate=0.5)


def test_cppo():
    for rewards, kept in ((RB, {1, 2, 4}), (RC, {0, 1, 5, 6})):
        rollouts = group(rewards)
        advantages = group_advantages(rollouts.rewards, rollouts.groups)
        curation = CPPO().curate(group(rewards, advantages=advantages))
        assert len(curation.source) == 4
        assert set(curation.source.tolist()) >= kept
        # The advantages are those of the whole group, not of the kept rows.
        assert torch.equal(curation.advantages, advantages[curation.source])
    assert len(CPPO(pruning_rate=0.9).curate(group(RC, advantages=torch.ones(8))).source) == 1
    assert len(CPPO(pruning_rate=0.0).curate(group(RC, advantages=torch.ones(8))).source) == 8
    with pytest.raises(InputError, match="finite advantages, got nan in row 0"):
        CPPO().curate(group(RC, advantages=torch.full((8,), math.nan)))


def test_mc_grpo():
    # Median 0.45; distances .35 .45 .05 .15 .25 .25 .35 .05, their median 0.25: (r - 0.45) / 0.251.
    curation = MCGRPO().curate(group(RC))
    close(curation.advantages, [(r - 0.45) / 0.251 for r in RC], atol=1e-5)
    # Five rewards: the third is the median and leaves; distances 3 1 0 1 7, their median 1.
    odd = MCGRPO().curate(group([0.0, 2, 3, 4, 10]))
    assert odd.source.tolist() == [0, 1, 3, 4]
    close(odd.advantages, [-3 / 1.001, -1 / 1.001, 1 / 1.001, 7 / 1.001])
    whole = MCGRPO(drop_median=False).curate(group([0.0, 2, 3, 4, 10]))
    close(whole.advantages, [-3 / 1.001, -1 / 1.001, 0.0, 1 / 1.001, 7 / 1.001])


def test_mc_grpo_where_the_deviation_is_zero():
    # Median 0, MAD 0; the standard deviation of three ones in eight is 0.517549.
    curation = MCGRPO().curate(group(RB))
    close(curation.advantages, [r / 0.518549 for r in RB], atol=1e-5)
    assert curation.metrics["zero_mad_groups"] == 1
    close(MCGRPO().curate(group(EQ)).advantages, [0.0] * 8)


def test_quantile_baseline():
    # The 4th of 8 ascending rewards (ceil 3.2) is 0.4; standard deviation 0.290012 of 0.1 .. 0.9 without 0.6.
    close(QuantileBaseline().curate(group(RC)).advantages, [(r - 0.4) / 0.290013 for r in RC], atol=1e-5)
    # Success rate 3/8 <= 1 - 0.4: baseline 0, only successes count; rate 5/8: baseline 1, only failures.
    close(QuantileBaseline(scale="none").curate(group(RB)).advantages, RB)
    opposite = group([1 - r for r in RB])
    close(QuantileBaseline(scale="none").curate(opposite).advantages, [-r for r in RB])
    # 0.4 * 5 is rank 2 exactly.
    five = group([1.0, 2, 3, 4, 5])
    close(QuantileBaseline(scale="none").curate(five).advantages, [-1.0, 0, 1, 2, 3])


@pytest.mark.parametrize(
    ("rewards", "m", "kept", "variance"),
    [
        (RB, 3, [1, 6, 7], 0.3333),
        (RB, 6, [1, 2, 4, 0, 3, 5], 0.3),
        (RC, 2, [1, 0], 0.32),
        (RC, 8, [0, 1, 2, 3, 4, 5, 6, 7], 0.084107),
        (RC, 4, [1, 6, 5, 0], 0.166667),
        (RC, None, [1, 6, 5, 0], 0.166667),
        (EQ, 4, [0, 1, 2, 3], 0.0),
        ([0.0] * 7 + [1], 4, [7, 0, 1, 2], 0.25),
    ],
)
def test_pods(rewards, m, kept, variance):
    curation = PODS(m=m).curate(group(rewards))
    assert curation.source.tolist() == kept
    assert curation.rewards.var().item() == pytest.approx(variance, abs=5e-5)


def test_pods_finds_the_largest_variance_of_all_subsets():
    draw = generator(4)
    for n, m in ((7, 3), (8, 4), (6, 5), (9, 2)):
        rewards = torch.randn(n, generator=draw)
        subsets = torch.combinations(torch.arange(n), m).tolist()
        best = max(rewards[subset].var() for subset in subsets)
        found = PODS(m=m).curate(group(rewards.tolist())).rewards.var()
        assert found.item() == pytest.approx(best.item(), abs=1e-6)


def test_pods_bounds():
    with pytest.raises(InputError, match="m of at most the 8 rollouts of a group, got m = 9 in group 17"):
        PODS(m=9).curate(group(RC))
    with pytest.raises(ConfigError, match="greater than or equal to 2"):
        PODS(m=1)


# Standard deviations: group 0 has 0.577, group 1 0.5, group 2 has 0, group 3 has 0.0577; together 1.135.
FOUR_GROUPS = Rollouts(
    rewards=torch.tensor([[0.0, 1, 0, 1], [1, 0, 0, 0], [1, 1, 1, 1], [0.5, 0.6, 0.5, 0.6]]).flatten(),
    groups=torch.arange(4).repeat_interleave(4),
)


@pytest.mark.parametrize(
    ("settings", "groups"),
    [
        ({}, [0, 1]),
        ({"keep": 1.0}, [0, 1, 3]),
        ({"keep": 0.5}, [0]),
        ({"keep": 0.52, "slack": 0.0}, [0, 1]),
        ({"slack": 2.0}, []),
    ],
)
def test_variance_filter_keeps_the_groups_whose_rewards_differ_most(settings, groups):
    curation = VarianceFilter(**settings).curate(FOUR_GROUPS)
    assert sorted(curation.source.tolist()) == [4 * group + row for group in groups for row in range(4)]
    assert curation.metrics["groups_left_out"] == 4 - len(groups)


def test_variance_filter_leaves_out_rows_without_a_reward():
    rewards = FOUR_GROUPS.rewards.clone()
    rewards[1] = math.nan
    curation = VarianceFilter().curate(replace(FOUR_GROUPS, rewards=rewards))
    assert sorted(curation.source.tolist()) == [0, 2, 3, 4, 5, 6, 7]


def test_variance_filter_keeps_the_same_groups_however_large_the_rewards():
    usual = VarianceFilter(slack=0.0).curate(FOUR_GROUPS)
    scaled = VarianceFilter(slack=0.0).curate(replace(FOUR_GROUPS, rewards=FOUR_GROUPS.rewards.double() * 1e200))
    assert scaled.source.tolist() == usual.source.tolist()


def test_pods_leaves_out_rows_without_a_reward():
    rewards = [math.nan, 0.0, 1.0, math.nan, 2.0]
    curation = PODS(m=4).curate(group(rewards))
    assert sorted(curation.source.tolist()) == [1, 2, 4]
    assert curation.metrics["unscored_rewards"] == 2


@pytest.mark.parametrize(
    ("slope", "rewards", "references", "expected"),
    [
        (1.0, RB, [0.5], [0.622459 if reward else 0.377541 for reward in RB]),
        (3.0, RB, [0.5], [0.817574 if reward else 0.182426 for reward in RB]),
        (1.0, RC, [0.2, 0.5, 0.8], [0.402715, 0.597285, 0.5, 0.450895, 0.549105, 0.426634, 0.573366, 0.475389]),
        (1.0, [-3.0, 0, 2, 5], [-1.0, 0, 1, 2], [0.047827, 0.404801, 0.766107, 0.981356]),
    ],
)
def test_par(slope, rewards, references, expected):
    rollouts = group(rewards, reference_rewards=torch.tensor([references] * len(rewards)))
    curation = PAR(slope=slope).curate(rollouts)
    close(curation.rewards, expected)
    # References that are not there do not count.
    missing = torch.cat([rollouts.reference_rewards, torch.full((len(rewards), 2), math.nan)], dim=1)
    close(PAR(slope=slope).curate(group(rewards, reference_rewards=missing)).rewards, expected)


def test_par_is_grpo_where_rewards_differ_by_little():
    """At differences x up to 0.035, as ArmoRM's scores have, the sigmoid is straight up to x^2 / 12 = 1e-4."""
    rewards = torch.linspace(0.05, 0.085, 16).tolist()
    rollouts = group(rewards, reference_rewards=torch.tensor([rewards[::3]] * 16))

    def distance_from_grpo(curator):
        """The largest difference of an advantage."""
        shaped = group_advantages(curator.curate(rollouts).rewards, rollouts.groups, eps=0.0)
        plain = group_advantages(rollouts.rewards, rollouts.groups, eps=0.0)
        return (shaped - plain).abs().max()

    assert distance_from_grpo(PAR()) < 1e-4
    # A slope of a hundred, or rewards a hundred times as large, begin to be another method.
    assert distance_from_grpo(PAR(slope=100.0)) > 0.02


def test_par_without_references_is_an_error():
    with pytest.raises(InputError, match=r"reference_rewards: expected Rollouts\(\.\.\., reference_rewards=\.\.\.\)"):
        PAR().curate(group(RB))
    with pytest.raises(InputError, match=r"at least one number per row, got none of 0, .*in row 0 \(group 17\)"):
        PAR().curate(group(RB, reference_rewards=torch.zeros(8, 0)))
    references = torch.zeros(8, 2)
    references[3] = math.nan
    with pytest.raises(InputError, match=r"got none of 2, .*in row 3"):
        PAR().curate(group(RB, reference_rewards=references))
    references[3] = math.inf
    with pytest.raises(InputError, match="infinite one, in row 3"):
        PAR().curate(group(RB, reference_rewards=references))
    # A row without a reward needs none.
    rewards = [*RB[:3], math.nan, *RB[4:]]
    references[3] = math.nan
    assert PAR().curate(group(rewards, reference_rewards=references)).weights[3] == 0


def frequencies(curator, rewards, groups=250):
    """How often each row of a group is drawn, over many groups of the same rewards."""
    rollouts = Rollouts(rewards=torch.tensor(rewards).repeat(groups), groups=torch.arange(groups).repeat_interleave(8))
    places = curator.curate(rollouts, generator=generator()).source % 8
    return torch.bincount(places, minlength=8) / len(rollouts)


def test_pf_ppo():
    # 2000 draws: the standard error of a frequency of 1/2 is 0.011, that of 1/14 0.006.
    drawn = frequencies(PFPPOBestRandom(), RC)
    assert drawn[1] == pytest.approx(0.5, abs=0.03)
    others = drawn[torch.arange(8) != 1]
    assert others.tolist() == pytest.approx([0.071429] * 7, abs=0.02)
    drawn = frequencies(PFPPOBestWorst(), RC)
    assert drawn[[1, 0]].tolist() == pytest.approx([0.5, 0.5], abs=0.03)
    assert drawn[2:].sum() == 0


def test_pf_ppo_draws_one_of_the_tied_best():
    # Ones stand in rows 1, 2, 4: each is the best in a third of the calls: 1/3 * 1/2 + 2/3 * 1/14 = 0.214286.
    drawn = frequencies(PFPPOBestRandom(), RB, groups=600)
    assert drawn[[1, 2, 4]].tolist() == pytest.approx([0.214286] * 3, abs=0.03)
    # Of equal rewards the best and the worst are two rows, not one twice.
    equal = PFPPOBestWorst().curate(group(EQ), generator=generator(3)).source
    assert len(equal.unique()) == 2


def test_pf_ppo_draws_among_the_rows_that_may_replace_others():
    """The worst rows are cut off: the best and the worst are those of the others, and groups keep two rewards."""
    rewards = [1.0, 1.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0]
    groups = torch.arange(60).repeat_interleave(8)
    donor_ok = torch.tensor([True] * 4 + [False] * 4).repeat(60)
    rollouts = Rollouts(rewards=torch.tensor(rewards).repeat(60), groups=groups, donor_ok=donor_ok)
    curation = PFPPOBestWorst().curate(rollouts, generator=generator())
    assert bool(donor_ok[curation.source].all())
    # Eight draws of two rows at equal odds: all alike once in 128 groups.
    shares = curation.rewards.view(60, 8).mean(dim=1)
    assert shares.mean() == pytest.approx(0.5, abs=0.07)


@pytest.mark.parametrize("donors", [[3], [1, 2, 4]])
def test_pf_ppo_leaves_a_group_whole_that_would_lose_its_advantages(donors):
    """One row may replace others, or three with the same reward, 1, as where all wrong responses are cut off."""
    donor_ok = torch.isin(torch.arange(8), torch.tensor(donors))
    for curator in (PFPPOBestRandom(), PFPPOBestWorst()):
        curation = curator.curate(replace(group(RB), donor_ok=donor_ok), generator=generator())
        assert curation.source.tolist() == list(range(8))
        assert curation.metrics["groups_without_donor"] == 1


def test_pf_ppo_keeps_places():
    curation = PFPPOBestRandom().curate(group(RC), generator=generator(5))
    drawn = curation.source.unique()
    assert torch.equal(curation.source[drawn], drawn)
    assert curation.metrics["replaced"] == 8 - len(drawn)


ANSWERS = ["7", "5", "5", "3", "5", "7", "9", None]
LOGPROBS = [-0.2, -0.4, -0.3, -0.9, -0.5, -0.6, -1.1, -0.8]


@pytest.mark.parametrize(
    ("answers", "logprobs", "entropy", "code", "linear"),
    [
        (ANSWERS, [-0.5] * 8, 1.494175, 0.970908, 0.985629),
        (ANSWERS, LOGPROBS, 1.355797, 0.973531, 0.986960),
        (["1"] * 8, LOGPROBS, 0.0, 1.0, 1.0),
        ([str(i) for i in range(8)], [-0.5] * 8, math.log(8), 0.959969, 0.98),
        ([None] * 8, [-0.5] * 8, math.log(8), 0.959969, 0.98),
    ],
)
def test_seed_grpo(answers, logprobs, entropy, code, linear):
    rollouts = group(RB, answers=answers, logprobs=torch.tensor(logprobs))
    curation = SeedGRPO().curate(rollouts)
    assert curation.metrics["entropy"] == pytest.approx(entropy, abs=1e-6)
    close(curation.weights, [code] * 8)
    close(SeedGRPO(mode="paper_linear").curate(rollouts).weights, [linear] * 8)
    exponential = math.exp(-0.02 * entropy / math.log(8))
    close(SeedGRPO(mode="paper_exp").curate(rollouts).weights, [exponential] * 8)
    if logprobs == [-0.5] * 8:
        without = group(RB, answers=answers)
        close(SeedGRPO(mass="share").curate(without).weights, [code] * 8)


def test_seed_grpo_options():
    rollouts = group(RB, answers=ANSWERS, logprobs=torch.full((8,), -0.5))
    # 1 - 0.5 * 1.494175 / log 8 = 0.640727
    close(SeedGRPO(mode="paper_linear", alpha=0.5).curate(rollouts).weights, [0.640727] * 8)
    close(SeedGRPO(mode="paper_linear", alpha=9.0).curate(rollouts).weights, [0.0] * 8)


def test_seed_grpo_scales_each_group_by_its_own_entropy():
    rollouts = Rollouts(
        rewards=torch.tensor([0.0, 1, 0, 1, 1]),
        groups=torch.tensor([3, 8, 3, 8, 1]),
        answers=["a", "b", "a", "c", None],
        logprobs=torch.zeros(5),
    )
    # Group 8: two clusters of 1/2, H = log 2 = H_max: 1 / (1 + 0.0417). Groups 3 (one cluster) and 1 (one row): 1.
    close(SeedGRPO().curate(rollouts).weights, [1.0, 0.959969, 1.0, 0.959969, 1.0])


@pytest.mark.parametrize("offset", [0.0, 300.0])
def test_seed_grpo_finds_the_meanings_of_states_with_a_large_common_offset(offset):
    # Group i has i + 1 meanings among its 8 rollouts. A state is what all share, its prompt, its meaning, and noise.
    draw = generator(3)
    d = 256
    of_prompt = torch.randn(6, 1, d, generator=draw)
    noise = 0.05 * torch.randn(6, 8, d, generator=draw)
    meanings = torch.randn(6, 6, d, generator=draw)
    which = torch.stack([torch.arange(8) % (number + 1) for number in range(6)])
    of_meaning = torch.stack([meanings[i, which[i]] for i in range(6)])
    states = offset + of_prompt + of_meaning + noise
    fields = {
        "rewards": torch.arange(8.0).repeat(6),
        "groups": torch.arange(6).repeat_interleave(8),
        "logprobs": torch.zeros(48),
    }
    by_state = SeedGRPO(clusters="hidden", alpha=1.0).curate(Rollouts(hidden=states.flatten(0, 1), **fields))
    answers = [str(meaning) for meaning in which.flatten().tolist()]
    by_answer = SeedGRPO(alpha=1.0).curate(Rollouts(answers=answers, **fields))
    assert by_state.metrics["clusters"] == 3.5
    torch.testing.assert_close(by_state.weights, by_answer.weights)
    # As they come, the states of one group are all one cluster once the offset is large.
    assert (len(cosine_clusters(states[5], 0.95).unique()) == 1) == (offset > 0)


def test_seed_grpo_leaves_rows_without_a_token_of_the_policy_out_of_the_entropy():
    """They have no log-probability: neither their answer nor their number says how unsure the policy is."""
    logprobs = torch.full((8,), math.nan)
    logprobs[[0, 1, 7]] = -0.5
    rollouts = Rollouts(
        rewards=torch.tensor([0.0, 1, 0, 1, math.nan, 0, 1, 1]),
        groups=torch.tensor([0, 0, 0, 0, 0, 1, 1, 2]),
        answers=["a", "b", "c", "a", None, "a", "b", "a"],
        logprobs=logprobs,
    )
    curation = SeedGRPO().curate(rollouts)
    # Group 0: two rows of mass 1/2 each and two answers, H = log 2 of log 2. Group 1: nothing is known. Group 2: a row.
    close(curation.weights, [0.959969, 0.959969, 0.959969, 0.959969, 0.0, 1.0, 1.0, 1.0])
    assert curation.metrics["rows_without_logprob"] == 5
    # The means are of the groups with evidence: (log 2 + 0) / 2, (2 + 1) / 2 clusters.
    assert curation.metrics["entropy"] == pytest.approx(math.log(2) / 2)
    assert curation.metrics["clusters"] == 1.5
    assert curation.metrics["scale"] == pytest.approx((0.959969 + 1) / 2, abs=1e-6)


def test_seed_grpo_of_a_batch_without_any_token_of_the_policy():
    rollouts = group([0.0, 1.0], answers=["a", "b"], logprobs=torch.full((2,), math.nan))
    curation = SeedGRPO().curate(rollouts)
    close(curation.weights, [1.0, 1.0])
    assert curation.metrics["rows_without_logprob"] == 2
    assert math.isnan(curation.metrics["entropy"])


def test_seed_grpo_with_equal_masses_reads_no_log_probability():
    rollouts = group([0.0, 1.0], answers=["a", "b"], logprobs=torch.full((2,), math.nan))
    curation = SeedGRPO(mass="share").curate(rollouts)
    close(curation.weights, [0.959969] * 2)
    assert curation.metrics["rows_without_logprob"] == 0


def test_seed_grpo_refuses_infinite_log_probabilities():
    logprobs = torch.zeros(8)
    logprobs[2] = -math.inf
    with pytest.raises(InputError, match=r"finite logprobs, .*got -inf in row 2"):
        SeedGRPO().curate(group(RB, answers=ANSWERS, logprobs=logprobs))
