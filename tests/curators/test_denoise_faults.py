"""What an audit found wrong in denoise, each fault as the batches that showed it."""

from dataclasses import replace

import pytest
import torch
from denoise_batches import answered, applied, cosine, repeating, world

from geoalign import Rollouts
from geoalign.curators.curator import identity
from geoalign.curators.denoise import Denoise, damped_praise
from geoalign.errors import InputError
from geoalign.method.groups import canonical_order
from geoalign.noise.posterior import infer
from geoalign.noise.rows import noisy_rows
from geoalign.noise.units import verdict_units


@pytest.mark.parametrize(("size", "share"), [(32, 1.0), (8, 0.5)])
def test_groups_that_the_model_is_sure_of_are_not_blown_up(size, share):
    """Clean verdicts: advantages stay GRPO's, at most (K - 1) / sqrt(K), also where half have no answer."""
    curator = Denoise(geometry="none")
    for seed in range(6):
        rollouts = answered(seed, size=size, wrong=0.0, share=share)
        curation = curator.curate(rollouts)
    assert cosine(curation, rollouts) > 0.95
    assert applied(curation, rollouts).abs().max() <= (size - 1) / size**0.5 + 0.01
    unanswered = (rollouts.groups >= share * 32) & (rollouts.rewards == 1)
    assert not curation.anomalous[unanswered].any()


def test_trusted_rows_inside_groups_blow_nothing_up():
    curator = Denoise(geometry="none")
    for seed in range(6):
        rollouts = answered(seed)
        trusted = torch.rand(256, generator=torch.Generator().manual_seed(99 + seed)) < 0.05
        rewards = torch.where(trusted, rollouts.true_rewards, rollouts.rewards)
        curation = curator.curate(replace(rollouts, rewards=rewards, trusted=trusted))
        assert curation.advantages is not None
        assert curation.advantages.abs().max() < 7 / 8**0.5 + 0.01
        assert torch.equal(curation.rewards[trusted], rewards[trusted])


def with_bad_rows(rollouts, rows, hidden, *, binary):
    """The batch with other states, in which these rows are bad and their rewards say so."""
    low = 0.0 if binary else -1.5
    return replace(
        rollouts,
        hidden=hidden,
        rewards=rollouts.rewards.index_fill(0, rows, low),
        true_rewards=rollouts.true_rewards.index_fill(0, rows, low),
    )


@pytest.mark.parametrize("binary", [True, False])
def test_rows_that_contradict_the_prediction_are_learnt(binary):
    """One row in 32 lies far along the direction of quality and bears a mark; it is bad, and its reward says so."""
    curator = Denoise()
    given = []
    for seed in range(14):
        rollouts = world(seed, binary=binary, wrong=0.1)
        rows = torch.arange(0, 256, 32)
        hidden = rollouts.hidden.clone()
        hidden[rows] = torch.randn(8, 12, generator=torch.Generator().manual_seed(seed))
        hidden[rows, 0] = 6.0
        hidden[rows, 1] += 6.0
        rollouts = with_bad_rows(rollouts, rows, hidden, binary=binary)
        given.append(float(applied(curator.curate(rollouts), rollouts)[rows].mean()))
    assert sum(given[-4:]) / 4 < -0.3


@pytest.mark.parametrize("binary", [True, False])
def test_rows_far_off_are_not_praised_for_it(binary):
    curator = Denoise()
    given = []
    for seed in range(8):
        rollouts = world(seed, binary=binary, wrong=0.1)
        if seed < 4:
            curator.curate(rollouts)
            continue
        rows = torch.arange(0, 256, 64)
        hidden = rollouts.hidden.index_fill(0, rows, 0.0)
        hidden[rows, 0] = 40.0
        rollouts = with_bad_rows(rollouts, rows, hidden, binary=binary)
        given.append(float(applied(curator.curate(rollouts), rollouts)[rows].mean()))
    assert sum(given) / len(given) < 0.3


def test_praise_is_damped_far_from_the_rows_that_are_fitted_and_not_from_identical_ones():
    """Of identical responses the centred states are 0. They are not fitted, and make no other row look far off."""
    states = torch.tensor([[0.0]] * 6 + [[1.0], [-1.0], [1.0], [-1.0], [4.0]])
    fitted = torch.tensor([False] * 6 + [True] * 5)
    prediction = torch.tensor([1.0] * 7 + [-1.0, 2.0, -2.0, 1.0], dtype=torch.float64)
    # The squared lengths of the fitted rows are 1, 1, 1, 1 and 16: three times their median is 3.
    expected = torch.tensor([1.0] * 7 + [-1.0, 2.0, -2.0, (3 / 16) ** 2], dtype=torch.float64)
    torch.testing.assert_close(damped_praise(prediction, states, fitted), expected)


def test_one_row_of_another_value_turns_nothing_off():
    plain, third = [], []
    one, other = Denoise(geometry="none"), Denoise(geometry="none")
    for seed in range(8):
        rollouts = answered(seed)
        rewards = rollouts.rewards.clone()
        rewards[seed] = 0.5
        plain.append(cosine(one.curate(rollouts), rollouts))
        third.append(cosine(other.curate(replace(rollouts, rewards=rewards)), rollouts))
    assert sum(third[3:]) > sum(plain[3:]) - 0.05 * 5


@pytest.mark.parametrize("size", [2, 3, 4])
def test_a_mixed_group_is_not_wrong_as_a_whole(size):
    """One response that got both verdicts opens the model; in small groups a row's own verdict still speaks for it."""
    curator = Denoise(geometry="none")
    for seed in range(6):
        draw = torch.Generator().manual_seed(seed)
        rate = torch.rand(64, generator=draw).repeat_interleave(size)
        true = (torch.rand(64 * size, generator=draw) < rate).float()
        rewards = torch.where(torch.rand(64 * size, generator=draw) < 0.3, 1 - true, true)
        keys = torch.arange(64 * size)
        # The first two rows hold one response, which got both verdicts.
        keys[1] = keys[0]
        rewards[0] = 1.0
        rewards[1] = 0.0
        rollouts = Rollouts(rewards=rewards, groups=torch.arange(64 * size) // size, response_keys=keys)
        curation = curator.curate(rollouts)
    # All groups but the first, which the response with both verdicts is in.
    accepted = rewards.view(64, size)[1:].sum(dim=1)
    mixed = (accepted > 0) & (accepted < size)
    wholly_wrong = (curation.scores.view(64, size)[1:] > 0).all(dim=1)
    assert mixed.sum() > 20
    assert (mixed & wholly_wrong).sum() <= 0.1 * mixed.sum()


def test_trusted_and_other_rows_in_one_exclusive_group_leave_the_fit_convex():
    """Newton's steps end at a maximum: the fit moves no further, and theta stays of the size that its prior allows."""
    rollouts = answered(3)
    trusted = torch.arange(256) % 3 == 0
    rewards = torch.where(trusted, rollouts.true_rewards, rollouts.rewards)
    rollouts = replace(rollouts, rewards=rewards, trusted=trusted)
    rows = noisy_rows(rollouts, canonical_order(rewards, rollouts.groups), answers=True)
    units = verdict_units(rows, torch.zeros_like(rows.rewards), rows.rewards, rows.scored, exclusive=True)
    fitted, further = units.fit({}, rounds=1000), units.fit({}, rounds=1001)
    torch.testing.assert_close(fitted.theta, further.theta, atol=1e-4, rtol=1e-4)
    assert fitted.theta.abs().max() < 6


def test_repeated_responses_neither_open_the_gate_nor_are_predicted():
    """Rewards are noise; the same rows come again with it, and a fit that has seen them would seem to predict it."""
    draw = torch.Generator().manual_seed(0)
    rollouts = Rollouts(
        rewards=torch.randn(256, generator=draw),
        groups=torch.arange(256) // 8,
        hidden=torch.randn(256, 64, generator=draw),
        prompt_keys=torch.arange(256) // 8,
    )
    known, blind = Denoise(), Denoise()
    for _ in range(4):
        curation = known.curate(rollouts)
        fooled = blind.curate(replace(rollouts, prompt_keys=None))
    assert fooled.metrics["states_used"] == 1
    assert curation.metrics["repeated_responses"] == 256
    # Of known prompts, other responses are as good as new.
    keys = torch.arange(256)
    known.curate(replace(rollouts, response_keys=keys))
    other = known.curate(replace(rollouts, response_keys=keys + keys % 2 * 1000))
    assert other.metrics["repeated_responses"] == 128
    assert torch.equal(curation.rewards, rollouts.rewards)
    assert curation.advantages is None


def test_rows_of_one_answer_share_the_variance_of_their_truth():
    """Two answers, each by two of four rows, P = 1/2 each, exclusive: the sum of right rows is always 2, never 0 or 4.

    Were the rows independent, E[var t] would be 4 (1/4) (1 - 1/4) / 3 = 1/4; it is (4 / 4 - 0 / 4) / 3 = 1/3.
    """
    rollouts = Rollouts(
        rewards=torch.tensor([1.0, 0.0, 1.0, 0.0] * 8),
        groups=torch.arange(32) // 4,
        answers=["a", "a", "b", "b"] * 8,
    )
    rows = noisy_rows(rollouts, canonical_order(rollouts.rewards, rollouts.groups), answers=True)
    posterior = infer(rows, None, least_slope=1.0)
    truth = float((posterior.offset + posterior.scale * posterior.mean)[0])
    torch.testing.assert_close(posterior.variance, torch.full_like(posterior.variance, truth * (1 - truth)))
    # Var(2 t_a + 2 t_b) = 4 (2 p) - (4 p)^2 with at most one right, each with probability p.
    wanted = torch.full_like(posterior.variance, 8 * truth - (4 * truth) ** 2)
    torch.testing.assert_close(posterior.group_variance, wanted)


@pytest.mark.parametrize("binary", [True, False])
def test_group_ids_do_not_matter(binary):
    """The first batch is predicted by folds over its groups, which are dealt by content."""
    rollouts = world(0, binary=binary, groups=48, wrong=0.1)
    ids = torch.randperm(48, generator=torch.Generator().manual_seed(1))[rollouts.groups]
    one, other = Denoise().curate(rollouts), Denoise().curate(replace(rollouts, groups=ids))
    assert one.metrics["states_used"] == 1
    torch.testing.assert_close(one.rewards, other.rewards, atol=1e-4, rtol=1e-4)


def test_a_checkpoint_holds_one_gram_matrix():
    curator = Denoise()
    curator.curate(world(0, binary=True, wrong=0.1))
    kept = [each for each in curator.state_dict()["ridge"].values() if isinstance(each, torch.Tensor)]
    # A, b, the solutions by six penalties, and the record of these.
    assert [each.numel() for each in kept] == [12 * 12, 12, 12 * 6, 3 * 6]


def test_one_component_is_denoised_and_the_others_stay():
    """A bonus for length beside the verdict: the verdict's own posterior, the bonus on top of it."""
    alone, summed = Denoise(geometry="none"), Denoise(geometry="none", component="verdict")
    for seed in range(4):
        rollouts = answered(seed)
        bonus = torch.randn(256, generator=torch.Generator().manual_seed(seed))
        expected = alone.curate(rollouts)
        parts = {"verdict": rollouts.rewards, "length": bonus}
        both = replace(rollouts, rewards=rollouts.rewards + bonus, components=parts)
        curation = summed.curate(both)
    torch.testing.assert_close(curation.scores.sort().values, expected.scores.sort().values, atol=1e-4, rtol=1e-4)
    torch.testing.assert_close(curation.rewards, expected.rewards + bonus, atol=1e-4, rtol=1e-4)
    # A row without a verdict of its own keeps what it has, and its say in its group.
    parts["verdict"] = parts["verdict"].masked_fill(torch.arange(256) % 8 == 0, torch.nan)
    some = summed.curate(replace(both, components=parts))
    assert torch.equal(some.rewards[::8], both.rewards[::8])
    assert not torch.equal(some.rewards, both.rewards)
    assert some.rewards.isfinite().all()
    assert (some.advantages[::8] != 0).any()
    with pytest.raises(InputError, match="component: expected one of length, verdict; got 'format'"):
        Denoise(geometry="none", component="format").curate(both)
    with pytest.raises(InputError, match="components"):
        summed.curate(rollouts)


def test_a_bonus_for_format_does_not_hide_the_verdict():
    """0.1 for every second row: 0, 0.1, 1, 1.1 are still two verdicts, and the bonus stays."""
    plain, bonus = Denoise(geometry="none"), Denoise(geometry="none")
    extra = 0.1 * (torch.arange(256) % 2)
    for seed in range(6):
        rollouts = answered(seed)
        expected = plain.curate(rollouts)
        curation = bonus.curate(replace(rollouts, rewards=rollouts.rewards + extra))
    assert "false_positive_rate" in curation.metrics
    assert torch.equal(curation.anomalous, expected.anomalous)
    assert curation.anomalous.any()


def test_several_answers_may_be_right_where_they_are_shared_only():
    """Two answers, both rewarded nearly always: exclusive, one of them must be wrong."""
    answers = ["a"] * 4 + ["b"] * 4
    rewards = torch.tensor([1.0, 1, 1, 1, 1, 1, 1, 0] * 16)
    rollouts = Rollouts(rewards=rewards, groups=torch.arange(128) // 8, answers=answers * 16)
    shared = Denoise(geometry="none", answers="shared").curate(rollouts)
    assert shared.anomalous.view(16, 8).tolist() == [[False] * 7 + [True]] * 16
    exclusive = Denoise(geometry="none").curate(rollouts)
    assert exclusive.anomalous.view(16, 8)[:, 4:7].all()
    # The rows may say so of some prompts alone.
    half = replace(rollouts, shared_answers=rollouts.groups >= 8)
    flagged = Denoise(geometry="none").curate(half).anomalous.view(16, 8)
    assert flagged[:8, 4:7].all()
    assert not flagged[8:, 4:7].any()


@pytest.mark.parametrize("binary", [True, False])
def test_what_was_learnt_is_forgotten_when_a_batch_contradicts_it(binary):
    """The states' direction turns round after six batches: never far behind the plain rewards, and soon ahead again."""
    curator = Denoise()
    gain = []
    for seed in range(10):
        rollouts = world(seed, binary=binary, groups=48, wrong=0.1)
        if seed >= 6:
            rollouts = replace(rollouts, hidden=-rollouts.hidden)
        curation = curator.curate(rollouts)
        assert curation.metrics["forgotten"] == (seed == 6)
        gain.append(cosine(curation, rollouts) - cosine(identity(rollouts), rollouts))
    assert min(gain[6:]) > -0.1
    assert gain[9] > 0


def test_verdicts_that_err_independently_on_equal_answers_are_pooled():
    """Eight equal verdicts on an answer are eight if each is made anew."""
    curator = Denoise(least_slope=1.0)
    found = []
    observed = []
    for seed in range(8):
        rollouts = repeating(seed, alike=False)
        curation = curator.curate(rollouts)
        found.append(cosine(curation, rollouts))
        observed.append(cosine(identity(rollouts), rollouts))
    assert sum(found[4:]) > sum(observed[4:]) + 4 * 0.2
    assert curation.metrics["error_correlation"] < 0.3
    assert curation.metrics["identified"] == 1


def praised(seed, *, answer, flipped=0.0):
    """Verdicts, and one response in five, marked in the states, without an answer or with a wrong one, rewarded."""
    rollouts = answered(seed, wrong=flipped)
    draw = torch.Generator().manual_seed(seed)
    marked = torch.rand(256, generator=draw) < 0.2
    answers = list(rollouts.answers)
    for row in marked.nonzero()[:, 0].tolist():
        answers[row] = f"{row % 5} of the marked" if answer else None
    true = rollouts.true_rewards.masked_fill(marked, 0)
    hidden = torch.randn(256, 12, generator=draw)
    hidden[:, 0] += true
    hidden[:, 1] += 3 * marked
    rewards = rollouts.rewards.masked_fill(marked, 1)
    return replace(rollouts, rewards=rewards, true_rewards=true, answers=answers, hidden=hidden), marked


@pytest.mark.parametrize("geometry", ["states", "none"])
def test_a_response_without_an_answer_is_not_praised_for_its_verdict(geometry):
    """Verdicts of which one in five is wrong besides; GRPO's cosine is 0.1 to 0.3, its advantage there 0.7 to 0.9."""
    curator = Denoise(geometry=geometry)
    for seed in range(8):
        rollouts, marked = praised(seed, answer=False, flipped=0.2)
        curation = curator.curate(rollouts)
        if seed > 2:
            assert cosine(curation, rollouts) > 0.7
            assert applied(curation, rollouts)[marked].mean() < 0.1


def test_a_right_response_whose_answer_is_not_read_keeps_its_reward_where_verdicts_are_good():
    curator = Denoise(geometry="none")
    for seed in range(6):
        rollouts = answered(seed, wrong=0.0)
        unread = (torch.arange(256) % 8 == 0) & (rollouts.true_rewards == 1)
        answers = [None if one else answer for one, answer in zip(unread, rollouts.answers, strict=True)]
        curation = curator.curate(replace(rollouts, answers=answers))
        assert curation.rewards[unread].min() > 0.5
        assert not curation.anomalous[unread].any()


def test_states_that_predict_the_errors_of_the_verifier_are_not_used():
    """They agree with its verdicts, and contradict what answers say among equal ones."""
    curator = Denoise()
    found = [curator.curate(praised(seed, answer=True)[0]).metrics for seed in range(8)]
    assert all(each["correlation_low"] > 0 for each in found[1:])
    assert sum(each["states_used"] for each in found) <= 2
    batch = answered(0)
    rows = noisy_rows(batch, canonical_order(batch.rewards, batch.groups, None), answers=True)
    assert infer(rows, -rows.standardised, least_slope=1.0).fit["theta"][2] == 0  # nor turned round


def test_rows_without_a_reward_teach_the_states_nothing():
    curator = Denoise()
    unscored = torch.arange(256) % 4 == 0
    for seed in range(4):
        rollouts = answered(seed)
        hidden = torch.randn(256, 8, generator=torch.Generator().manual_seed(seed))
        hidden += 3 * unscored[:, None]
        rewards = rollouts.rewards.masked_fill(unscored, torch.nan)
        found = curator.curate(replace(rollouts, rewards=rewards, hidden=hidden)).metrics
    assert not found["states_used"]


def test_rows_without_a_reward_do_not_hide_that_states_agree_with_answers():
    curator = Denoise()
    unscored = torch.arange(256) % 5 < 2
    for seed in range(4):
        rollouts = answered(seed)
        hidden = torch.randn(256, 8, generator=torch.Generator().manual_seed(seed))
        hidden[:, 0] += torch.where(unscored, -6.0, 2 * rollouts.true_rewards)
        rewards = rollouts.rewards.masked_fill(unscored, torch.nan)
        found = curator.curate(replace(rollouts, rewards=rewards, hidden=hidden)).metrics
    assert found["states_used"]


def test_states_that_predict_the_errors_of_the_verifier_are_not_used_beside_a_bonus_either():
    curator = Denoise()
    for seed in range(8):
        batch = praised(seed, answer=True)[0]
        bonus = 1e-3 * torch.rand(len(batch), generator=torch.Generator().manual_seed(seed))
        found = curator.curate(replace(batch, rewards=batch.rewards + bonus)).metrics
    assert found["agreement"] < 0


def test_expected_rewards_of_the_largest_numbers_stay_finite():
    """Matched in slope, they lie a little beyond the observed ones."""
    largest = 3e38
    rollouts = Rollouts(
        rewards=torch.tensor([largest, -largest, -largest, largest] * 16),
        groups=torch.arange(64) // 8,
        answers=[str(row % 3) for row in range(64)],
    )
    curation = Denoise(geometry="none", unidentified="modelled").curate(rollouts)
    assert not torch.equal(curation.rewards, rollouts.rewards)
    assert curation.rewards.isfinite().all()


def test_a_reward_that_stays_keeps_its_bits_where_others_change():
    """0.1 + 0.6 and 0.7 tie in the first group, of which nothing is known; the rewards of the others change."""
    first = torch.stack([torch.tensor(0.1) + torch.tensor(0.6), *torch.tensor([0.7, 0.0, 0.0])])
    assert first[0] != first[1]
    rollouts = Rollouts(
        rewards=torch.cat([first, torch.tensor([0.7, 0.7, 0.0, 0.0] * 30)]),
        groups=torch.arange(124) // 4,
        answers=[None] * 4 + ["7", "8", "7", "9"] * 30,
    )
    curation = Denoise(geometry="none", unidentified="modelled", unanswered="kept").curate(rollouts)
    assert torch.equal(curation.rewards[:4], first)
    assert not torch.equal(curation.rewards[4:], rollouts.rewards[4:])


@pytest.mark.parametrize("binary", [True, False])
def test_rewards_of_any_size_have_the_same_advantages(binary):
    """1e200 squared is beyond the numbers of float64; 1e-6, added to deviations, is nothing beside either size."""
    small, large = Denoise(), Denoise()
    for seed in range(3):
        rollouts = world(seed, binary=binary)
        rewards = rollouts.rewards.double()
        expected = small.curate(replace(rollouts, rewards=1e6 * rewards))
        curation = large.curate(replace(rollouts, rewards=1e200 * rewards))
    assert expected.advantages is not None
    torch.testing.assert_close(curation.advantages, expected.advantages, atol=1e-6, rtol=1e-6)
    torch.testing.assert_close(curation.rewards / 1e194, expected.rewards, atol=1e-3, rtol=1e-6)
