"""Groups of trajectories as rLLM makes them, and one batch through its own function of advantages."""

from __future__ import annotations

SIZE = 4


class Section(dict):
    """A section of a configuration, as far as rLLM reads one here: `get`, and names as attributes."""

    __getattr__ = dict.__getitem__


def groups_of(rewards, *, role="solver", answers=None):
    """Groups of four one-step trajectories, whose responses all differ."""
    from rllm.types import Step, Trajectory, TrajectoryGroup

    trajectories = [
        Trajectory(
            uid=f"t{row}", name=role, reward=reward, output=None if answers is None else answers[row],
            signals={"verdict": reward}, metadata={"answer": f"a{row % 3}"},
            steps=[Step(prompt_ids=[1, row // SIZE], response_ids=[10 + row, 2], logprobs=[-0.5, -1.5],
                        model_response=f"response {row}")],
        )
        for row, reward in enumerate(rewards)
    ]  # fmt: skip
    return [
        TrajectoryGroup(trajectories=trajectories[first : first + SIZE], group_id=f"task{first}:{role}")
        for first in range(0, len(trajectories), SIZE)
    ]


def advantages_of(groups, estimator="geoalign", **algorithm):
    """The advantage of each trajectory's step, by rLLM's own configuration and function."""
    from rllm.trainer.algorithms.advantage import collect_reward_and_advantage_from_trajectory_groups
    from rllm.trainer.algorithms.config import AlgorithmConfig

    roles = algorithm.pop("estimator_map", None)
    section = Section(adv_estimator=estimator, **algorithm)
    config = AlgorithmConfig.from_config(section, estimator_map=roles)
    collect_reward_and_advantage_from_trajectory_groups(groups, config)
    return [trajectory.steps[0].advantage for group in groups for trajectory in group.trajectories]
