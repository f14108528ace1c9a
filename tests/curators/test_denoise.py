"""Denoise: what it believes, when it stays out of the way, and that no batch is predicted from itself."""

import math
from dataclasses import replace

import pytest
import torch
from denoise_batches import answered, applied, cosine, world

from geoalign import CURATORS, Rollouts, group_advantages
from geoalign.curators.denoise import Denoise
from geoalign.errors import ConfigError, InputError
from geoalign.method.groups import canonical_order
from geoalign.noise.posterior import infer
from geoalign.noise.rows import noisy_rows
from geoalign.statistics import auroc


def after(curator, batches, **kwargs):
    for seed in range(batches):
        rollouts = world(seed, **kwargs)
        curation = curator.curate(rollouts, generator=torch.Generator().manual_seed(seed))
    return curation, rollouts


@pytest.mark.parametrize("binary", [True, False])
def test_advantages_come_nearer_to_the_true_ones(binary):
    curation, rollouts = after(Denoise(), 6, binary=binary)
    observed = cosine(CURATORS["grpo"]().curate(rollouts), rollouts)
    assert cosine(curation, rollouts) > observed + (0.03 if binary else 0.15)
    wrong = rollouts.rewards != rollouts.true_rewards
    assert auroc(curation.scores.numpy(), wrong.numpy()) > 0.65
    assert torch.equal(curation.anomalous, curation.scores > 0)


@pytest.mark.parametrize(
    ("batch", "geometry", "alike"), [(world, "states", True), (answered, "none", False)], ids=["scores", "verdicts"]
)
def test_the_rule_where_nothing_can_be_known_is_for_verdicts_and_leaves_scores_alone(batch, geometry, alike):
    with_rule = Denoise(geometry=geometry)
    without_rule = Denoise(geometry=geometry, unidentified="modelled")
    for seed in range(4):
        rollouts = batch(seed, wrong=0.5)
        kept = with_rule.curate(rollouts, generator=torch.Generator().manual_seed(seed))
        modelled = without_rule.curate(rollouts, generator=torch.Generator().manual_seed(seed))
    # Bit for bit.
    assert torch.equal(kept.rewards, modelled.rewards) is alike


@pytest.mark.parametrize("binary", [True, False])
def test_states_without_a_signal_leave_the_batch_as_it_was(binary):
    """Exactly: the rewards' own bits, no advantages of its own. Two or three of 24 batches may pass for a signal."""
    untouched = 0
    for start in range(8):
        curator = Denoise()
        for seed in range(3):
            rollouts = world(100 * start + seed, signal=0.0, binary=binary)
            curation = curator.curate(rollouts)
            if curation.metrics["states_used"] == 0:
                untouched += 1
                assert torch.equal(curation.rewards, rollouts.rewards)
                assert curation.advantages is None
                assert not curation.anomalous.any()
    assert untouched >= 20


def test_a_batch_is_predicted_before_its_rewards_are_seen():
    first, second = Denoise(), Denoise()
    for curator in (first, second):
        after(curator, 3)
    rollouts = world(7)
    other = replace(rollouts, rewards=rollouts.rewards.flip(0))
    first.curate(rollouts)
    second.curate(other)
    of_first = last_prediction_by_row(first, rollouts)
    of_second = last_prediction_by_row(second, other)
    torch.testing.assert_close(of_first, of_second, atol=1e-6, rtol=1e-4)
    assert of_first.abs().sum() > 0


def last_prediction_by_row(curator, rollouts):
    """What the states predicted of the last batch, which the curator's state has in canonical order."""
    in_order = curator.state_dict()["past"][-1]["prediction"]
    order = canonical_order(rollouts.rewards, rollouts.groups, rollouts.hidden).order
    return in_order[order.argsort()]


def test_the_first_batch_is_predicted_by_folds():
    curation, rollouts = after(Denoise(), 1, groups=96, wrong=0.2)
    assert curation.metrics["states_used"] == 1
    assert cosine(curation, rollouts) > cosine(CURATORS["grpo"]().curate(rollouts), rollouts) + 0.05


def test_a_state_without_a_signal_costs_little():
    alone, beside = Denoise(), Denoise(states=2)
    for seed in range(5):
        rollouts = world(seed)
        noise = torch.randn(len(rollouts), 12, generator=torch.Generator().manual_seed(1000 + seed))
        both = replace(rollouts, hidden=torch.cat([rollouts.hidden, noise], dim=1))
        expected, curation = alone.curate(rollouts), beside.curate(both)
    assert curation.metrics["states_used"] == 1
    assert cosine(curation, rollouts) == pytest.approx(cosine(expected, rollouts), abs=0.03)


def test_states_of_two_layers_say_more_together_than_each_alone():
    """One has quality + 3 x something, the other that something only, in other units: the quality is a difference."""
    alone, together = Denoise(), Denoise(states=2)
    for seed in range(5):
        rollouts = world(seed)
        other = 3 * torch.randn(len(rollouts), 12, generator=torch.Generator().manual_seed(1000 + seed))
        first = rollouts.hidden + other
        expected = alone.curate(replace(rollouts, hidden=first))
        curation = together.curate(replace(rollouts, hidden=torch.cat([first, other / 100], dim=1)))
    assert cosine(curation, rollouts) > cosine(expected, rollouts) + 0.1


def test_answers_tell_wrong_verdicts():
    """Four of six rows say 7, three of them rewarded; two say 8, one of them rewarded: the 8 that was is wrong."""
    answers = ["7", "7", "7", "7", "8", "8"] * 12
    rewards = torch.tensor([1.0, 1.0, 1.0, 0.0, 1.0, 0.0] * 12)
    rollouts = Rollouts(rewards=rewards, groups=torch.arange(72) // 6, answers=answers)
    curation = Denoise(geometry="none").curate(rollouts)
    assert curation.anomalous.view(12, 6).tolist() == [[False, False, False, True, True, False]] * 12
    order = canonical_order(rewards, rollouts.groups)
    posterior = infer(noisy_rows(rollouts, order, answers=True), None, least_slope=0.3)
    given = torch.empty(72, dtype=torch.float64).index_copy_(0, order.order, posterior.rewards).view(12, 6)
    assert given[:, :4].min() > 0.6 > 0.3 > given[:, 4:].max()
    assert posterior.metrics["true_positive_rate"] == pytest.approx(0.75, abs=0.05)
    blind = Denoise(geometry="none", answers="none").curate(rollouts)
    assert torch.equal(blind.rewards, rollouts.rewards)


def test_identical_responses_with_different_verdicts_are_a_contradiction():
    """Without answers and states, of three equal responses the verdict of two is taken for true."""
    keys = torch.arange(48).view(8, 6)
    keys[:, :3] = 1000 + torch.arange(8)[:, None]
    rewards = torch.tensor([1.0, 1, 0, 0, 1, 0] * 8)
    rollouts = Rollouts(rewards=rewards, groups=torch.arange(48) // 6, response_keys=keys.flatten())
    curation = Denoise(geometry="none").curate(rollouts)
    assert curation.rewards[0] == curation.rewards[1] == curation.rewards[2] > 0.5
    assert curation.anomalous.view(8, 6).tolist() == [[False, False, True, False, False, False]] * 8


def test_advantages_of_a_group_of_which_little_is_known_stay_small():
    """A = (m - mean) / sqrt(E[s^2]), not over the deviation of m: near-equal expected rewards are not blown up."""
    curation, rollouts = after(Denoise(least_slope=1.0), 6, binary=True, wrong=0.3)
    own = group_advantages(curation.rewards, rollouts.groups)
    assert curation.advantages is not None
    assert curation.advantages.norm() < 0.8 * own.norm()
    assert float(curation.advantages @ own) > 0
    sums = torch.zeros(32).index_add_(0, rollouts.groups, curation.advantages)
    torch.testing.assert_close(sums, torch.zeros(32), atol=1e-4, rtol=0)


def test_affine_rewards_are_denoised_alike():
    one, other = Denoise(), Denoise()
    for seed in range(4):
        rollouts = world(seed)
        first = one.curate(rollouts)
        second = other.curate(replace(rollouts, rewards=3 * rollouts.rewards - 5))
    torch.testing.assert_close(second.rewards, 3 * first.rewards - 5, atol=1e-3, rtol=1e-3)
    torch.testing.assert_close(second.advantages, first.advantages, atol=1e-3, rtol=1e-3)


def test_trusted_rows_keep_their_rewards():
    rollouts = world(0, wrong=0.3)
    trusted = torch.arange(len(rollouts)) % 5 == 0
    rewards = torch.where(trusted, rollouts.true_rewards, rollouts.rewards)
    curator = Denoise()
    after(curator, 4)
    curation = curator.curate(replace(rollouts, rewards=rewards, trusted=trusted))
    torch.testing.assert_close(curation.rewards[trusted], rewards[trusted], atol=1e-5, rtol=1e-5)
    assert not curation.anomalous[trusted].any()
    assert not torch.equal(curation.rewards, rewards)


def checked(rollouts, groups):
    trusted = rollouts.groups < groups
    rewards = torch.where(trusted, rollouts.true_rewards, rollouts.rewards)
    return replace(rollouts, rewards=rewards, trusted=trusted)


def test_systematic_errors_are_not_mended_without_trusted_rows():
    """Rewards that follow a shortcut agree with the states, so they are believed, and the shortcut with them."""
    curation, rollouts = after(Denoise(), 8, wrong=0.0, shortcut=2.0)
    observed = cosine(CURATORS["grpo"]().curate(rollouts), rollouts)
    assert curation.metrics["states_used"] == 1
    assert observed < 0.5
    assert cosine(curation, rollouts) == pytest.approx(observed, abs=0.05)


@pytest.mark.parametrize("wrong", [0.0, 0.3])
def test_trusted_rows_mend_systematic_errors_of_the_others(wrong):
    """16 trusted groups beside 32, the same rows in every batch as a file of labelled rollouts would bring them."""
    curator, labelled = Denoise(), checked(world(100), 16)
    first = labelled.groups < 16
    for seed in range(4):
        own = world(seed, wrong=wrong, shortcut=1.5)
        both = Rollouts(
            rewards=torch.cat([own.rewards, labelled.rewards[first]]),
            groups=torch.cat([own.groups, labelled.groups[first] + 32]),
            hidden=torch.cat([own.hidden, labelled.hidden[first]]),
            true_rewards=torch.cat([own.true_rewards, labelled.true_rewards[first]]),
            trusted=torch.arange(48 * 8) >= 32 * 8,
        )
        curation = curator.curate(both)
    observed = cosine(CURATORS["grpo"]().curate(own), own)
    advantages = curation.advantages[: len(own)]
    true = group_advantages(own.true_rewards, own.groups)
    assert curation.metrics["correction_low"] > 0
    assert float(advantages @ true / (advantages.norm() * true.norm())) > observed + 0.25
    torch.testing.assert_close(curation.rewards[len(own) :], labelled.rewards[first], atol=1e-5, rtol=1e-5)


def agreement(curation, rollouts, rows):
    """The cosine of the advantages of these rows with those of their true rewards."""
    given = curation.advantages
    if given is None:
        given = group_advantages(curation.rewards, rollouts.groups)
    given = given[rows]
    true = group_advantages(rollouts.true_rewards, rollouts.groups)[rows]
    return float(given @ true / (given.norm() * true.norm()))


def test_trusted_rows_do_no_harm_where_errors_are_random():
    """Clean groups do not teach the noise model that all are clean."""
    curator, blind = Denoise(), Denoise()
    for seed in range(5):
        rollouts = world(seed)
        curation, expected = curator.curate(checked(rollouts, 8)), blind.curate(rollouts)
    others = rollouts.groups >= 8
    assert agreement(curation, rollouts, others) > agreement(expected, rollouts, others) - 0.03
    assert curation.metrics["wrong_share"] > 0.15


def test_where_nothing_but_the_rewards_is_known_no_share_of_wrong_ones_is_given():
    rollouts = Rollouts(rewards=torch.tensor([1.0, 0.0]), groups=torch.zeros(2, dtype=torch.long))
    assert math.isnan(Denoise(geometry="none").curate(rollouts).metrics["wrong_share"])


def test_trusted_verdicts_mend_systematic_ones():
    """A verdict that looks at the wrong column: with labels for half of the groups it is believed less."""

    def verdicts(seed):
        rollouts = world(seed, binary=True, wrong=0.0, groups=96)
        looked_at = 2 * rollouts.hidden[:, 1] + rollouts.hidden[:, 0]
        return replace(rollouts, rewards=(looked_at > 0).float())

    # The expected reward lies between the two; an unbiased estimate need not.
    curator, blind = Denoise(least_slope=1.0), Denoise(least_slope=1.0)
    for seed in range(4):
        rollouts = verdicts(seed)
        curation, expected = curator.curate(checked(rollouts, 48)), blind.curate(rollouts)
    others = rollouts.groups >= 48
    assert agreement(curation, rollouts, others) > agreement(expected, rollouts, others) + 0.1
    assert curation.rewards.min() >= 0
    assert curation.rewards.max() <= 1
    wrong = (rollouts.rewards != rollouts.true_rewards)[others].numpy()
    found = auroc(curation.scores[others].numpy(), wrong)
    without_labels = auroc(expected.scores[others].numpy(), wrong)
    assert found > without_labels + 0.05


def test_a_learnt_correction_moves_unbiased_estimates_as_far_as_expected_rewards():
    """Estimates beyond the bounds of binary rewards are not clamped to them, which would shrink them again."""
    beyond = torch.tensor([1.6, -0.4, 0.5], dtype=torch.float64)
    expected = torch.tensor([0.8, 0.3, 0.5], dtype=torch.float64)
    rollouts = Rollouts(rewards=torch.tensor([1.0, 0.0, 1.0]), groups=torch.zeros(3, dtype=torch.long))
    rows = noisy_rows(rollouts, canonical_order(rollouts.rewards, rollouts.groups), answers=False)
    rows = replace(rows, rewards=torch.tensor([1.0, 0.0, 1.0], dtype=torch.float64))
    certain = infer(rows, None, least_slope=1.0)
    posterior = replace(certain, verdicts=True, mean=expected, estimate=beyond).corrected(
        torch.tensor([0.5, -0.1, 0.1]).double()
    )
    torch.testing.assert_close(posterior.offset + posterior.mean, torch.tensor([1.0, 0.2, 0.6], dtype=torch.float64))
    torch.testing.assert_close(posterior.rewards, torch.tensor([1.8, -0.5, 0.6], dtype=torch.float64))


def test_a_batch_of_trusted_rows_alone_is_left_as_it_is():
    curator = Denoise()
    after(curator, 3)
    rollouts = checked(world(3), 32)
    curation = curator.curate(rollouts)
    torch.testing.assert_close(curation.rewards, rollouts.rewards, atol=1e-5, rtol=1e-5)
    assert not curation.anomalous.any()


def test_bad_input_is_named():
    curator = Denoise()
    curator.curate(world(0))
    with pytest.raises(InputError, match="hidden: expected 12 columns as earlier, got 7"):
        curator.curate(world(0, d=7))
    with pytest.raises(InputError, match="expected a multiple of states = 5 columns, got 12"):
        Denoise(states=5).curate(world(0))
    keys = "ridge, past, fit, seen, trusted_answers"
    with pytest.raises(ConfigError, match=rf"state: expected the keys {keys} beside .*, got past"):
        curator.load_state_dict({name: curator.state_dict()[name] for name in ("class", "settings", "past")})
    with pytest.raises(ConfigError, match="geometry"):
        Denoise(geometry="hyperbolic")


@pytest.mark.parametrize(("binary", "wrong"), [(True, 0.2), (False, 0.2), (False, 0.4)])
def test_the_share_of_wrong_rewards(binary, wrong):
    """Of verdicts an estimate; of other rewards an upper bound, since what surprises may be right."""
    curation, _ = after(Denoise(), 4, binary=binary, wrong=wrong, groups=48)
    share = curation.metrics["wrong_share"]
    assert share == pytest.approx(wrong, abs=0.05) if binary else wrong < share < 2 * wrong


@pytest.mark.parametrize(("seed", "size", "batches"), [(0, 32, 3), (8, 8, 12)])
def test_noisy_rewards_at_the_extremes_are_not_all_called_wrong(seed, size, batches):
    """From one start, or one small first batch, the noise model ended where it believed in no reward."""
    curator = Denoise()
    draw = torch.Generator().manual_seed(seed)
    groups = torch.arange(8 * size) // 8
    for _ in range(batches):
        hidden = torch.randn(size, 8, 16, generator=draw)
        true = hidden[..., 0] + torch.randn(size, 8, generator=draw)
        low, high = true.amin(dim=1, keepdim=True), true.amax(dim=1, keepdim=True)
        other_extreme = torch.where(true < true.mean(dim=1, keepdim=True), high, low)
        wrong = torch.rand(size, 8, generator=draw) < 0.4
        rewards = torch.where(wrong, other_extreme, true).flatten()
        curation = curator.curate(Rollouts(rewards=rewards, groups=groups, hidden=hidden.flatten(0, 1)))
    assert 0.4 < curation.metrics["wrong_share"] < 0.8


def test_verdicts_that_are_wrong_two_times_in_five_are_overruled_by_the_states():
    """Without answers only the curvature of the odds tells the flip rates; trusting the verdicts would leave 0.2.

    Unbiased rewards go back to the verdicts: of the states' prior they take little.
    """
    curation, rollouts = after(Denoise(least_slope=1.0), 8, binary=True, wrong=0.4, groups=64)
    observed = cosine(CURATORS["grpo"]().curate(rollouts), rollouts)
    assert observed < 0.3
    expected = cosine(curation, rollouts)
    assert expected > 0.45
    curation, rollouts = after(Denoise(), 8, binary=True, wrong=0.4, groups=64)
    assert observed < cosine(curation, rollouts) < expected


def test_groups_of_equal_rewards_are_told_apart_by_the_states():
    """All of a group got one reward: the states still say which row is better, in the other groups' units."""
    curator = Denoise()
    after(curator, 4)
    rollouts = world(4)
    equal = rollouts.groups < 4
    curation = curator.curate(replace(rollouts, rewards=torch.where(equal, 0.5, rollouts.rewards)))
    true, given = rollouts.true_rewards[equal], curation.rewards[equal]
    assert float(torch.corrcoef(torch.stack([given, true]))[0, 1]) > 0.5
    assert given.std() < rollouts.rewards.std()
    assert 0 < curation.advantages[equal].abs().mean() < curation.advantages[~equal].abs().mean()


def popular_answers(seed, *, wrong=0.4, groups=40, size=12):
    """Two answers a prompt, given 8 and 4 times; in a fifth of the prompts the more frequent one is wrong."""
    draw = torch.Generator().manual_seed(seed)
    rank = torch.arange(size).repeat(groups)
    popular = rank < 8
    group = torch.arange(groups).repeat_interleave(size)
    misled = group % 5 == 0
    true = (popular != misled).float()
    flipped = torch.rand(groups * size, generator=draw) < wrong
    answers = [f"{prompt} {of_most}" for prompt, of_most in zip(group.tolist(), popular.tolist(), strict=True)]
    rewards = torch.where(flipped, 1 - true, true)
    return Rollouts(rewards=rewards, groups=group, true_rewards=true, answers=answers), misled


def test_a_wrong_majority_is_not_raised():
    """Expected rewards lean on what is frequent: where the majority is wrong matched ones lower it further."""
    preferred = {}
    for least_slope in (0.1, 1.0):
        curator, gaps = Denoise(geometry="none", least_slope=least_slope), []
        for seed in range(12):
            rollouts, misled = popular_answers(seed)
            advantages = applied(curator.curate(rollouts), rollouts)
            right = rollouts.true_rewards == 1
            of_right = advantages[misled & right].mean()
            of_wrong = advantages[misled & ~right].mean()
            gaps.append(float(of_right - of_wrong))
        preferred[least_slope] = sum(gaps) / len(gaps)
    assert preferred[1.0] < preferred[0.1] - 0.1
