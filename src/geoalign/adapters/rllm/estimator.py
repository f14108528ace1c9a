"""An advantage estimator of rLLM that curates the rewards of a batch before it makes advantages of them.

rLLM calls it with one array of rewards for each group of trajectories, and puts what it returns into every step. Its
verl backend has made the rows before that, so that an estimator can change advantages and nothing else.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from rllm.trainer.algorithms.advantage import register_rllm_adv_estimator
from rllm.trainer.algorithms.config import rLLMAdvantageEstimator
from rllm.trainer.algorithms.rl_algo import calculate_grpo_advantages_per_group

from geoalign.adapters.decision import (
    decide,
    final_advantages,
    make_session,
    metrics_to_log,
    named_components,
    named_fields,
    needed_fields,
    refuse,
    rewards_stay,
)
from geoalign.adapters.second_verifier import verifier_of_settings
from geoalign.adapters.settings import RllmSettings, read_section
from geoalign.errors import ConfigError
from geoalign.types import Rollouts, response_keys

_LOG = logging.getLogger(__name__)
Arrays = list[np.ndarray[Any, Any]]
Log = Callable[[dict[str, float]], None]


class CuratedEstimator:
    """rLLM's GRPO advantages of curated rewards, of the trajectories of one role.

    Args:
        settings: the settings, as plain data.
        log: called with the metrics of each batch; rLLM's own trackers hear nothing of an estimator.

    Raises:
        ConfigError: a setting is unknown or out of range, or the curator needs a field that none names.
        UnsupportedError: the curator replaces or drops rows, or reads hidden states.
    """

    def __init__(self, settings: Mapping[str, Any] | None = None, *, log: Log | None = None) -> None:
        self.settings = read_section(RllmSettings, settings, engine="rLLM")
        how = "rollout_fields with {need}: <entry of Trajectory.metadata, signals or 'output'>"
        self.session = make_session(self.settings, how=how)
        # What a task asks and answers stands below `task`: a trajectory's own entries are what its response says.
        gold = ("task.ground_truth", "task.answer")
        self._second_verifier = verifier_of_settings(self.settings, self.session, gold=gold)
        self._log = log
        self._role: str | None = None
        curator = self.session.curator
        states = "hidden" in curator.requires
        without = "take a curator without, such as {'type': 'denoise', 'geometry': 'none'}"
        refuse({f"{self.session.name} requires hidden states, which rLLM does not return; {without}": states})
        self._check_rows(replaces="rows" in (curator.acts_on or ()), drops=curator.drops_rows)
        path = self.settings.state_file
        if path is not None and Path(path).is_file():
            self.session.load(path, setting="state_file", otherwise="give the curator of that run, or another file")

    def __call__(
        self, rewards: Sequence[Any], algorithm_config: Any, traj_groups: Sequence[Any] = (), **more: Any
    ) -> tuple[Arrays, Arrays]:
        """The advantages of each group's trajectories, twice: rLLM ignores the returns."""
        self._check_role(traj_groups)
        trajectories = [trajectory for group in traj_groups for trajectory in group.trajectories]
        sizes = [len(group) for group in rewards]
        rollouts = self._read(np.concatenate(rewards), trajectories, sizes)
        decision = decide(self.session, rollouts)
        placed = decision.assignment
        self._check_rows(replaces=bool(placed.replaced.any()), drops=placed.dropped)

        def computed() -> torch.Tensor:
            of_engine = rewards_stay(placed, rollouts)
            given = rewards if of_engine else np.split(placed.rewards.double().numpy(), np.cumsum(sizes)[:-1])
            by_group = [grpo_advantages(group, algorithm_config.norm_adv_by_std_in_grpo) for group in given]
            return torch.from_numpy(np.concatenate(by_group))

        advantages = final_advantages(placed, computed)
        advantages = advantages.masked_fill(~placed.active, 0.0)
        self._note(metrics_to_log(decision.metrics, self.session.curator, self.settings.log_metrics))
        if self.settings.state_file is not None:
            self.session.save(self.settings.state_file)
        split = np.split(advantages.double().numpy(), np.cumsum(sizes)[:-1])
        return split, split

    def _read(self, rewards: Any, trajectories: Sequence[Any], sizes: Sequence[int]) -> Rollouts:
        """The trajectories as a curator reads them; what costs something is made for a curator that reads it."""
        observed = torch.tensor(rewards, dtype=torch.float32)
        tokens = [[token for step in each.steps for token in step.response_ids] for each in trajectories]
        prompts = [list(each.steps[0].prompt_ids) if each.steps else [] for each in trajectories]
        signals = [dict(each.signals) for each in trajectories]
        entries = [
            {"output": each.output, **own, **(each.metadata or {})}
            for each, own in zip(trajectories, signals, strict=True)
        ]
        makers = {
            "response_keys": lambda: response_keys(tokens),
            "prompt_keys": lambda: response_keys(prompts),
            "logprobs": lambda: torch.tensor([_mean_logprob(each) for each in trajectories]),
        }
        names = [f"trajectory {each.uid}" for each in trajectories]
        verifier = self._second_verifier
        asking = (
            None if verifier is None else verifier.field(lambda asked: [_asked(trajectories[row]) for row in asked])
        )
        return Rollouts(
            rewards=observed,
            groups=torch.arange(len(sizes)).repeat_interleave(torch.tensor(sizes)),
            ids=[each.uid for each in trajectories],
            lengths=torch.tensor([len(each) for each in tokens]),
            second_rewards=asking,
            **needed_fields(makers, self.session.curator.reads),
            **named_components(self.session.curator.components, signals, observed, source="Trajectory.signals"),
            **named_fields(
                self.settings.rollout_fields,
                entries,
                observed,
                setting="rollout_fields",
                source="Trajectory.metadata, Trajectory.signals or 'output'",
                names=names,
            ),
        )

    def _check_role(self, traj_groups: Sequence[Any]) -> None:
        """Raises UnsupportedError where trajectories of another role come: a curator learns from one verifier."""
        for group in traj_groups:
            self._role = self._role or group.group_role
            is_another_role = group.group_role != self._role
            reason = (
                f"role {group.group_role!r}: this estimator curates {self._role!r}; register another one by a name of "
                "its own, and name it for the role in traj_group_adv_estimator_map"
            )
            refuse({reason: is_another_role})

    def _check_rows(self, *, replaces: bool, drops: bool) -> None:
        refuse(
            {
                f"{self.session.name} replaces rows, which rLLM's backends have packed before advantages are made; "
                "take a curator that changes rewards": replaces,
                f"{self.session.name} drops rows, which rLLM's losses would still count; take a curator that changes "
                "rewards": drops,
            }
        )

    def _note(self, metrics: dict[str, float]) -> None:
        _LOG.info("batch %d: %s", self.session.calls, metrics)
        if self._log is not None:
            self._log(metrics)


def grpo_advantages(rewards: Any, by_std: bool) -> Any:
    """rLLM's own GRPO advantages of one group, rows without a reward (NaN) left out; those get 0."""
    scored = ~np.isnan(rewards)
    found = np.zeros(len(rewards))
    # Of a single row rLLM takes the reward itself: of a group that became one by failures there is nothing to learn.
    if scored.sum() > 1 or scored.all():
        found[scored] = calculate_grpo_advantages_per_group(rewards[scored], norm_adv_by_std_in_grpo=by_std)[0]
    return found


def _asked(trajectory: Any) -> dict[str, Any]:
    """The trajectory as a second verifier reads it: its last response, and the first message of the user."""
    task = trajectory.task
    about = task if isinstance(task, Mapping) else dict(getattr(task, "metadata", None) or {})
    messages = trajectory.steps[-1].chat_completions if trajectory.steps else []
    said = [_text(message.get("content")) for message in messages if message.get("role") == "assistant"]
    asked = [_text(message.get("content")) for message in messages if message.get("role") == "user"]
    last = trajectory.steps[-1].model_response if trajectory.steps else ""
    response = last or (said[-1] if said else trajectory.output)
    return {"prompt": str(asked[0] if asked else task), "response": str(response), "task": about}


def _text(content: Any) -> Any:
    """A message's content as text: of a list of parts the texts among them, one after the other."""
    if not isinstance(content, list):
        return content
    return "".join(part.get("text") or "" for part in content if isinstance(part, Mapping))


def _mean_logprob(trajectory: Any) -> float:
    """The mean over all tokens of the policy; NaN where a step does not have them all."""
    found = [value for step in trajectory.steps for value in step.logprobs]
    count = sum(len(step.response_ids) for step in trajectory.steps)
    return sum(found) / count if found and len(found) == count else float("nan")


def register(
    settings: Mapping[str, Any] | None = None, *, name: str = "geoalign", log: Log | None = None
) -> CuratedEstimator:
    """Registers a curated estimator: `rllm.algorithm.adv_estimator=geoalign` then selects it.

    rLLM turns every name in its configuration that is not one of its own into `OTHER`, so that is registered as well:
    the estimator registered last is the one that a configuration can name. By `name` any of them is selected in
    `traj_group_adv_estimator_map`.

    Raises:
        ConfigError: `name` is one of rLLM's own; else as `CuratedEstimator`, and UnsupportedError as there.
    """
    if rLLMAdvantageEstimator(name) is not rLLMAdvantageEstimator.OTHER:
        raise ConfigError(f"name: expected none of rLLM's own estimators, got {name!r}")
    estimator = CuratedEstimator(settings, log=log)
    for key in (name, rLLMAdvantageEstimator.OTHER):
        register_rllm_adv_estimator(key)(estimator)
    return estimator
