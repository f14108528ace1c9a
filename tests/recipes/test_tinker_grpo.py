"""The recipe for tinker-cookbook, on classes with the fields of its own (rl/types.py and completers.py at 9dfcc3a2)."""

from dataclasses import dataclass, field
from typing import Any

import pytest
import recipe
import torch

from geoalign import GRPO, PODS, Denoise, GeoAlign, PFPPOBestWorst, SeedGRPO
from geoalign.curators.session import CurationSession
from geoalign.errors import ConfigError, InputError


@dataclass
class TokensWithLogprobs:
    tokens: list[int]
    maybe_logprobs: list[float] | None


@dataclass
class Transition:
    ob: Any
    ac: TokensWithLogprobs
    reward: float
    episode_done: bool


@dataclass(frozen=True)
class Trajectory:
    transitions: list[Transition]
    final_ob: Any


@dataclass
class TrajectoryGroup:
    trajectories_G: list[Trajectory]  # noqa: N815 - its names
    final_rewards_G: list[float]  # noqa: N815
    metrics_G: list[dict[str, float]]  # noqa: N815
    rollout_errors: list[Any] = field(default_factory=list)

    def get_total_rewards(self):
        every = zip(self.trajectories_G, self.final_rewards_G, strict=True)
        return [sum(step.reward for step in row.transitions) + final for row, final in every]


def group(rewards):
    """Two turns a trajectory, whose answer is its first token; half of the reward comes with the last turn."""
    rows = [
        Trajectory([Transition(None, TokensWithLogprobs([k, n], [-0.5, -1.0]), r, bool(n)) for n, r in turns], None)
        for k, reward in enumerate(rewards)
        for turns in [((0, 0.0), (1, reward / 2))]
    ]
    return TrajectoryGroup(rows, [reward / 2 for reward in rewards], [{"row": k} for k in range(len(rewards))])


@pytest.fixture(scope="module")
def curated():
    return recipe.load("tinker_grpo").curated


def test_without_curation_groups_and_advantages_are_the_cookbooks(curated):
    groups = [group([1.0, 0.0, 0.0, 1.0]), group([1.0, float("nan"), 0.0])]
    found, advantages, metrics = curated(groups, CurationSession(GRPO(), seed=0))
    assert [one.trajectories_G for one in found] == [one.trajectories_G for one in groups]
    assert [values.tolist() for values in advantages] == [[0.5, -0.5, -0.5, 0.5], [0.5, 0.0, -0.5]]
    assert metrics["geoalign/unscored_rows"] == 1


def test_dropped_trajectories_leave_their_group(curated):
    found, advantages, _ = curated([group([1.0, 0.0, 0.0, 0.2])], CurationSession(PODS(m=2), seed=0))
    # The two rewards of the largest variance; their mean is that of what is kept.
    assert sorted(found[0].get_total_rewards()) == [0.0, 1.0]
    assert sorted(advantages[0].tolist()) == [-0.5, 0.5]


def test_a_replaced_trajectory_is_its_donor(curated):
    given = group([1.0, 0.0, 0.5, 0.25])
    found, advantages, metrics = curated([given], CurationSession(PFPPOBestWorst(), seed=0))
    rows = [one["row"] for one in found[0].metrics_G]
    assert set(rows) <= {0, 1}  # of the best and the worst: two of the four positions at least are replaced
    assert metrics["geoalign/replaced_rows"] >= 2
    assert found[0].trajectories_G == [given.trajectories_G[row] for row in rows]
    rewards = torch.tensor([[1.0, 0.0][row] for row in rows])
    assert found[0].get_total_rewards() == rewards.tolist()
    torch.testing.assert_close(advantages[0], rewards - rewards.mean())


def test_denoise_works_by_answers(curated):
    groups = [group([1.0, 1.0, 0.0, 0.0]) for _ in range(16)]
    session = CurationSession(Denoise(geometry="none", unidentified="modelled"), seed=0)
    found, advantages, metrics = curated(groups, session, answer_of=lambda r: str(r.transitions[0].ac.tokens[0] % 2))
    assert len(found) == 16
    # Equal answers of other rewards come closer.
    assert all(values.std() < torch.tensor([1.0, 1.0, 0.0, 0.0]).std() for values in advantages)
    assert metrics["geoalign/raw_reward"] == 0.5


def test_what_the_engine_cannot_give_is_refused(curated):
    with pytest.raises(InputError, match="hidden"):
        curated([group([1.0, 0.0])], CurationSession(GeoAlign(), seed=0))
    with pytest.raises(ConfigError, match=r"SeedGRPO requires answers: expected answers \(answers: by answer_of\)"):
        curated([group([1.0, 0.0])], CurationSession(SeedGRPO(), seed=0))
