"""Why a curator could not act on a batch, and what to do about it."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import torch

from geoalign.curators.curator import Curator, reward_weights
from geoalign.noise.rows import two_values
from geoalign.types import Curation, Rollouts


@dataclass(frozen=True)
class Remedies:
    """What a user can do, in the words of the engine that runs the curator.

    Attributes:
        field: what gives a rollout field, with `{need}` in the place of its name.
        enlarge: makes of a factor the change of settings that makes batches so many times as large; None: no setting of
            the engine is known.
    """

    field: str = "Rollouts(..., {need}=...)"
    enlarge: Callable[[float], str] | None = None


def why_idle(curator: Curator, rollouts: Rollouts, curation: Curation, remedies: Remedies) -> str | None:
    """Why a curator could not act on a batch with rewards, and the remedy, in one line; None: nothing speaks of it."""
    for reason in (_too_few_scores, _nothing_answered, _nothing_trusted, _no_answers):
        if (said := reason(curator, rollouts, curation, remedies)) is not None:
            return said
    return None


def _too_few_scores(curator: Curator, rollouts: Rollouts, curation: Curation, remedies: Remedies) -> str | None:
    metrics = curation.metrics
    # In a chain a member's metrics may have a prefix.
    prefixes = [name.removesuffix("too_few_scores") for name in metrics if name.split("/")[-1] == "too_few_scores"]
    short = [prefix for prefix in prefixes if metrics[f"{prefix}too_few_scores"]]
    if not short:
        return None
    rows, needed = len(rollouts), curator.min_scores
    scored = int(metrics[f"{short[0]}scored_rollouts"])
    if rows < needed:
        why = f"{rows} rollouts < min_scores = {needed}"
        factor = needed / rows
    else:
        # In groups of equal rewards none has one.
        why = f"{scored} of {rows} rollouts have a score, fewer than min_scores = {needed}"
        factor = needed / max(scored, 1)
    if remedies.enlarge is None:
        return f"nothing is flagged: {why}: give at least {math.ceil(rows * factor)} rollouts a batch"
    return f"nothing is flagged: {why}: {remedies.enlarge(factor)}"


def _nothing_answered(curator: Curator, rollouts: Rollouts, curation: Curation, remedies: Remedies) -> str | None:
    asked = int(curation.metrics.get("appeals_unanswered", 0))
    if not asked or curation.metrics.get("appeals"):
        return None
    return f"no verdict came: the second verifier answered none of {asked} questions: see what it says of one row"


def _nothing_trusted(curator: Curator, rollouts: Rollouts, curation: Curation, remedies: Remedies) -> str | None:
    if "trusted" not in curator.requires or rollouts.trusted is None:
        return None
    known = rollouts.rewards[rollouts.trusted & ~rollouts.rewards.isnan()]
    if len(known.unique()) > 1:
        return None
    found = "no trusted row" if not len(known) else "trusted rows of one reward only"
    return f"nothing is learnt: there is {found}: give labelled_rollouts with right and wrong responses to a prompt"


def _no_answers(curator: Curator, rollouts: Rollouts, curation: Curation, remedies: Remedies) -> str | None:
    reads = "answers" in curator.optional and curator.answer_reading in ("exclusive", "shared")
    given = rollouts.answers is not None and any(answer is not None for answer in rollouts.answers)
    if not reads or given or _changed(rollouts, curation):
        return None
    scored = rollouts.rewards[~rollouts.rewards.isnan()]
    by_states = "hidden" in curator.requires
    if by_states and len(scored.unique()) > 1 and two_values(scored) is None:
        # Scores of a reward model: there are no answers, and states are what it goes by.
        return None
    others = ["identical responses with different rewards"] if "response_keys" in curator.reads else []
    others += ["hidden states, once they predict the rewards of new prompts"] if by_states else []
    found = "there are no answers to compare" if rollouts.answers is None else "no response has an answer"
    left = f", which leaves {' and '.join(others)}" if others else ""
    return f"no reward is changed: {found}{left}: set {remedies.field.format(need='answers')}"


def _changed(rollouts: Rollouts, curation: Curation) -> bool:
    """Whether anything is not as it came."""
    rewards = rollouts.rewards[curation.source]
    same = (
        len(curation.source) == len(rollouts)
        and not bool(curation.replaced.any())
        and torch.equal(curation.rewards.nan_to_num(0.0), rewards.to(curation.rewards).nan_to_num(0.0))
        and torch.equal(curation.weights, reward_weights(rewards).to(curation.weights))
    )
    return not same or curation.advantages is not None
