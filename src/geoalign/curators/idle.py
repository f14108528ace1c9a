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
        field: the setting that gives a rollout field, with `{need}` in the place of its name.
        enlarge: says which setting makes batches larger by a factor; None: no setting of the engine is known.
    """

    field: str = "Rollouts(..., {need}=...)"
    enlarge: Callable[[float], str] | None = None


def why_idle(curator: Curator, rollouts: Rollouts, curation: Curation, remedies: Remedies) -> str | None:
    """Why a curator could not act on a batch with rewards, and the remedy, in one line; None: there is no such reason.

    Args:
        curation: what the curator made of the batch.
    """
    return (
        _too_few_scores(curator, rollouts, curation, remedies)
        or _second_verifier_is_silent(curation)
        or _nothing_to_learn(curator, rollouts)
        or _no_answers(curator, rollouts, curation, remedies)
    )


def _too_few_scores(curator: Curator, rollouts: Rollouts, curation: Curation, remedies: Remedies) -> str | None:
    """Fewer rows have a score than the curator, or a member of it, takes."""
    metrics = curation.metrics
    # In a chain a member's metrics may have a prefix.
    prefixes = [name.removesuffix("too_few_scores") for name in metrics if name.split("/")[-1] == "too_few_scores"]
    short = [prefix for prefix in prefixes if metrics[f"{prefix}too_few_scores"]]
    if not short:
        return None
    rows = len(rollouts)
    needed = curator.min_scores
    scored = int(metrics[f"{short[0]}scored_rollouts"])
    if rows < needed:
        why = f"{rows} rollouts < min_scores = {needed}"
        factor = needed / rows
    else:
        # In a group of equal rewards no row has a score.
        why = f"{scored} of {rows} rollouts have a score, fewer than min_scores = {needed}"
        factor = needed / max(scored, 1)
    remedy = f"give at least {math.ceil(rows * factor)} rollouts a batch"
    if remedies.enlarge is not None:
        remedy = remedies.enlarge(factor)
    return f"nothing is flagged: {why}: {remedy}"


def _second_verifier_is_silent(curation: Curation) -> str | None:
    """The second verifier was asked, and gave no verdict at all."""
    asked = int(curation.metrics.get("appeals_unanswered", 0))
    if not asked or curation.metrics.get("appeals") or curation.metrics.get("checks"):
        return None
    return f"no verdict came: the second verifier answered none of {asked} questions: see what it says of one row"


def _nothing_to_learn(curator: Curator, rollouts: Rollouts) -> str | None:
    """The curator learns from trusted rows, and these are not of both kinds."""
    if "trusted" not in curator.requires or rollouts.trusted is None:
        return None
    known = rollouts.rewards[rollouts.trusted & ~rollouts.rewards.isnan()]
    if len(known.unique()) > 1:
        return None
    found = "trusted rows of one reward only" if len(known) else "no trusted row"
    return f"nothing is learnt: there is {found}: give labelled_rollouts with right and wrong responses to a prompt"


def _no_answers(curator: Curator, rollouts: Rollouts, curation: Curation, remedies: Remedies) -> str | None:
    """The curator compares answers, there are none, and nothing was changed."""
    reads_answers = "answers" in curator.optional and curator.answer_reading in ("exclusive", "shared")
    given = rollouts.answers is not None and any(answer is not None for answer in rollouts.answers)
    if not reads_answers or given or _changed(rollouts, curation):
        return None
    scored = rollouts.rewards[~rollouts.rewards.isnan()]
    reads_states = "hidden" in curator.requires
    are_verdicts = len(scored.unique()) < 2 or two_values(scored) is not None
    if reads_states and not are_verdicts:
        # The rewards are scores of a reward model: there are no answers, and the curator relies on states.
        return None
    left = []
    if "response_keys" in curator.reads:
        left.append("identical responses with different rewards")
    if reads_states:
        left.append("hidden states, once they predict the rewards of new prompts")
    found = "there are no answers to compare" if rollouts.answers is None else "no response has an answer"
    if left:
        found = f"{found}, which leaves {' and '.join(left)}"
    return f"no reward is changed: {found}: set {remedies.field.format(need='answers')}"


def _changed(rollouts: Rollouts, curation: Curation) -> bool:
    """Whether any row, reward or weight is not as it came, or the curation has advantages of its own."""
    if curation.advantages is not None or len(curation.source) != len(rollouts):
        return True
    rewards = rollouts.rewards[curation.source]
    same_rewards = torch.equal(curation.rewards.nan_to_num(0.0), rewards.to(curation.rewards).nan_to_num(0.0))
    same_weights = torch.equal(curation.weights, reward_weights(rewards).to(curation.weights))
    return bool(curation.replaced.any()) or not same_rewards or not same_weights
