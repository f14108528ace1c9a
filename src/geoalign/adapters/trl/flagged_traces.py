"""Flagged rollouts of a training on trackio's page of traces, beside the table that TRL logs there."""

from __future__ import annotations

import logging
import math
from typing import TYPE_CHECKING, Any

import torch

from geoalign.text import shortened

if TYPE_CHECKING:
    from geoalign.adapters.trl.curate import CuratedStep

_LOG = logging.getLogger(__name__)
# What the traces are called in trackio; `geoalign audit` passes them over by this name, as they are no sample.
FLAGGED = "geoalign/flagged"
# Traces in one log, the highest scores first: TRL's table has all rows.
_AT_MOST = 8
# Of the answers to a prompt: how many are named, and how much of each.
_ANSWERS = 4
_ANSWER = 40


class FlaggedTraces:
    """Keeps the last curation, and logs its flagged rollouts as `trackio.Trace` when the trainer logs.

    It is called as a `curation_observer`, on rank 0.
    """

    def __init__(self) -> None:
        self._last: CuratedStep | None = None

    def __call__(self, step: CuratedStep) -> None:
        self._last = step

    def log(self, global_step: int) -> None:
        """Logs the flagged rollouts of the last curation under this step; nothing where they were logged before.

        Whatever goes wrong in trackio stops no training.
        """
        step, self._last = self._last, None
        rows = [] if step is None else flagged_rows(step)
        if step is None or not rows:
            return
        try:
            import trackio

            traces = [trackio.Trace(messages=_messages(step, row), metadata=_metadata(step, row)) for row in rows]
            trackio.log({FLAGGED: traces}, step=global_step)
        except Exception as error:
            # Without a run trackio raises, too.
            _LOG.info("trackio took no traces: %s: %s", type(error).__name__, error)


def flagged_rows(step: CuratedStep) -> list[int]:
    """The flagged rows that are shown, the highest score first; rows without a score come last."""
    scores = step.curation.scores.nan_to_num(-math.inf)
    order = torch.argsort(scores, descending=True, stable=True).tolist()
    flagged = step.curation.anomalous.tolist()
    return [row for row in order if flagged[row]][:_AT_MOST]


def _messages(step: CuratedStep, row: int) -> list[dict[str, Any]]:
    """The rollout as two messages of a conversation."""
    return [
        {"role": "user", "content": step.prompts[row]},
        {"role": "assistant", "content": step.responses[row]},
    ]


def _metadata(step: CuratedStep, row: int) -> dict[str, Any]:
    """What was decided about a row, and what the responses to its prompt answered; unknown numbers are left out."""
    rollouts = step.rollouts
    numbers = {
        "score": step.curation.scores[row].item(),
        "reward": rollouts.rewards[row].item(),
    }
    found: dict[str, Any] = {name: value for name, value in numbers.items() if not math.isnan(value)}
    found["outcome"] = _outcome(step, row)
    found["generation"] = step.generation
    if rollouts.answers is not None:
        found["answer"] = rollouts.answers[row]
        found["answers to its prompt"] = answers_to_prompt(step, row)
    return found


def _outcome(step: CuratedStep, row: int) -> str:
    """What the curator made of a row, in words."""
    curation = step.curation
    places = (curation.source == row).nonzero().flatten().tolist()
    replaces = len(curation.source) == len(step.rollouts)
    if replaces and row not in places:
        return "replaced by another response"
    if not places:
        return "left out"
    place = row if replaces else places[0]
    reward, weight = curation.rewards[place].item(), curation.weights[place].item()
    if weight != 1:
        return f"kept with weight {weight:.3g}"
    if reward == step.rollouts.rewards[row].item() or math.isnan(reward):
        return "kept as it was"
    return f"kept with reward {reward:.3g}"


def answers_to_prompt(step: CuratedStep, row: int) -> str:
    """The most frequent answers to a row's prompt: "7: 5 times, mean reward 1; 8: once, mean reward 0"."""
    rollouts = step.rollouts
    assert rollouts.answers is not None
    rewards: dict[str | None, list[float]] = {}
    for other in (rollouts.groups == rollouts.groups[row]).nonzero().flatten().tolist():
        rewards.setdefault(rollouts.answers[other], []).append(rollouts.rewards[other].item())
    by_frequency = sorted(rewards.items(), key=lambda item: -len(item[1]))
    parts = []
    for answer, given in by_frequency[:_ANSWERS]:
        scored = [reward for reward in given if not math.isnan(reward)]
        name = "no answer" if answer is None else shortened(answer, _ANSWER)
        times = "once" if len(given) == 1 else f"{len(given)} times"
        mean = f"mean reward {sum(scored) / len(scored):.3g}" if scored else "no reward"
        parts.append(f"{name}: {times}, {mean}")
    return "; ".join(parts)
