"""PF-PPO: values that its own source gives, on three groups of eight rewards."""

import pytest
import torch
from worked_groups import EQ, RB, RC, close, generator, group

from geoalign import CURATORS, Rollouts, group_advantages
from geoalign.curators.baselines.pf_ppo import PFPPO
from geoalign.curators.registry import make_curator
from geoalign.errors import ConfigError, InputError


def frequencies(curator, rollouts, calls=250):
    draws = torch.zeros(len(rollouts))
    source = generator()
    for _ in range(calls):
        draws += torch.bincount(curator.curate(rollouts, generator=source).source, minlength=len(rollouts))
    return draws / draws.sum()


def test_pf_ppo_paper_best_random():
    # 2000 draws: the standard error of a frequency of 1/2 is 0.011, that of 1/14 0.006.
    drawn = frequencies(PFPPO(variant="br"), group(RC))
    assert drawn[1] == pytest.approx(0.5, abs=0.03)
    assert drawn[torch.arange(8) != 1].tolist() == pytest.approx([0.071429] * 7, abs=0.02)


def test_pf_ppo_paper_best_worst():
    drawn = frequencies(PFPPO(variant="bw"), group(RC))
    assert drawn[[1, 0]].tolist() == pytest.approx([0.5, 0.5], abs=0.03)
    assert drawn[2:].sum() == 0


def test_pf_ppo_paper_draws_one_of_the_tied_best():
    # Ones stand in rows 1, 2, 4: each is the best in a third of the calls: 1/3 * 1/2 + 2/3 * 1/14 = 0.214286.
    drawn = frequencies(PFPPO(variant="br"), group(RB), calls=600)
    assert drawn[[1, 2, 4]].tolist() == pytest.approx([0.214286] * 3, abs=0.03)
    # Of equal rewards the best and the worst are two rows, not one twice.
    equal = PFPPO(variant="bw").curate(group(EQ), generator=generator(3)).source
    assert len(equal.unique()) == 2


def test_pf_ppo_paper_keeps_places_and_takes_fewer_draws():
    curation = PFPPO(variant="br").curate(group(RC), generator=generator(5))
    drawn = curation.source.unique()
    assert torch.equal(curation.source[drawn], drawn)
    assert curation.metrics["replaced"] == 8 - len(drawn)
    fewer = PFPPO(variant="br", draws=3).curate(group(RC), generator=generator(5))
    assert len(fewer.source) == 3
    assert len(PFPPO(variant="bw", draws=8).curate(group(RC), generator=generator(5)).source) == 8
    with pytest.raises(InputError, match="at most the 8 rollouts of a group, got 9 in group 17"):
        PFPPO(draws=9).curate(group(RC))


@pytest.mark.parametrize(("rewards", "pair"), [(RB, [1, 0]), (RC, [1, 0]), (EQ, [0, 1])])
def test_pf_ppo_filter_best_worst(rewards, pair):
    rollouts = group(rewards)
    curation = PFPPO(variant="bw", mode="filter").curate(rollouts)
    assert curation.source.tolist() == pair
    if rewards is not EQ:
        # GRPO on a pair of different rewards: +-(1/2 (r - s)) / (sqrt(1/2) (r - s)), always +-0.7071.
        advantages = group_advantages(curation.rewards, rollouts.groups[curation.source])
        close(advantages, [0.707106, -0.707106], atol=2e-6)


def test_pf_ppo_filter_best_random():
    seen = set()
    for seed in range(60):
        best, other = PFPPO(variant="br", mode="filter").curate(group(RB), generator=generator(seed)).source.tolist()
        assert best == 1
        seen.add(other)
    assert seen == {0, 2, 3, 4, 5, 6, 7}
    assert len(set(PFPPO(variant="br", mode="filter").curate(group(EQ), generator=generator()).source.tolist())) == 2


@pytest.mark.parametrize(("rewards", "best"), [(RB, 4), (RC, 1), (EQ, 7)])
def test_pf_ppo_reweight_best_random(rewards, best):
    # 0.4 / (0.4 + 7 * 0.1) = 0.363636; 0.1 / 1.1 = 0.090909.
    drawn = frequencies(PFPPO(variant="br", mode="reweight"), group(rewards))
    expected = torch.full((8,), 0.090909)
    expected[best] = 0.363636
    torch.testing.assert_close(drawn, expected, atol=0.03, rtol=0)


@pytest.mark.parametrize(("rewards", "pair"), [(RB, {0, 4}), (RC, {0, 1}), (EQ, {0, 7})])
def test_pf_ppo_reweight_best_worst(rewards, pair):
    drawn = frequencies(PFPPO(variant="bw", mode="reweight"), group(rewards), calls=50)
    assert set(drawn.nonzero()[:, 0].tolist()) == pair


def test_pf_ppo_reweight_draws_over_the_buffer_after_the_advantages():
    """Two groups, one far better: rows cross over and bring the advantages of their own group along."""
    rewards = torch.tensor([0.0, 1, 10, 11])
    rollouts = Rollouts(rewards=rewards, groups=torch.tensor([0, 0, 1, 1]))
    curation = PFPPO(variant="bw", mode="reweight").curate(rollouts, generator=generator(1))
    close(curation.advantages, [[-0.707106, 0.707106][row % 2] for row in curation.source.tolist()], atol=2e-6)
    assert curation.metrics["across_groups"] > 0
    given = PFPPO(variant="bw", mode="reweight").curate(
        Rollouts(rewards=rewards, groups=rollouts.groups, advantages=torch.tensor([1.0, 2, 3, 4])),
        generator=generator(1),
    )
    assert given.advantages.tolist() == [row + 1.0 for row in given.source.tolist()]


@pytest.mark.parametrize(
    ("settings", "rewards", "expected"),
    [
        # 3 ones: 0.4 / (3 * 0.4 + 5 * 0.1) = 0.235294; 0.1 / 1.7 = 0.058824.
        ({"variant": "br"}, RB, [0.058824, 0.235294, 0.235294, 0.058824, 0.235294] + [0.058824] * 3),
        ({"weighting": "pow"}, RC, [0.004016, 0.325301, 0.100402, 0.036145, 0.196787, 0.016064, 0.257028, 0.064257]),
        # Row 1 is the highest, row 0 the lowest of the batch.
        ({"variant": "bw"}, RC, [0.5, 0.5] + [0.0] * 6),
        # r^2 of nothing but zeros says nothing: all alike.
        ({"weighting": "pow"}, [0.0] * 4, [0.25] * 4),
    ],
)
def test_pf_ppo_verl(settings, rewards, expected):
    drawn = frequencies(PFPPO(mode="verl", **settings), group(rewards))
    torch.testing.assert_close(drawn, torch.tensor(expected), atol=0.03, rtol=0)


def test_pf_ppo_names_and_variants():
    assert PFPPO().config.variant == "br"
    assert type(make_curator(PFPPO(variant="bw").config)) is CURATORS["pf_ppo_bw"]
    assert type(make_curator(PFPPO(variant="br").config)) is CURATORS["pf_ppo_br"]
    assert CURATORS["pf_ppo_bw"]().config.variant == "bw"
    assert isinstance(CURATORS["pf_ppo_br"](mode="filter"), PFPPO)
    for curator in (PFPPO(mode="reweight"), CURATORS["pf_ppo_bw"](mode="verl")):
        assert "across groups" in curator.library_only
    assert PFPPO(mode="filter").library_only is None
    with pytest.raises(ConfigError, match="variant"):
        PFPPO(variant="wb")
    with pytest.raises(ConfigError, match="'bw'"):
        CURATORS["pf_ppo_bw"](variant="br")
