"""Trinity's experiences as rollouts, and an assignment carried out on them. Imports no Trinity."""

from __future__ import annotations

import copy
import math
from collections.abc import Mapping, Sequence
from typing import Any

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from geoalign.adapters.assignment import Assignment
from geoalign.adapters.decision import named_components, named_fields, needed_fields
from geoalign.errors import InputError, UnsupportedError
from geoalign.method.advantages import group_advantages
from geoalign.types import Rollouts, response_keys

# What is added to the info of experiences.
SCORE, DONOR, REPLACED = "geoalign_score", "geoalign_donor", "geoalign_replaced"


def check_experiences(experiences: Sequence[Any]) -> None:
    """Raises UnsupportedError where an experience is no whole rollout: of a preference pair, or one step of several."""
    steps: dict[tuple[Any, ...], int] = {}
    for experience in experiences:
        eid = experience.eid
        if getattr(experience, "experience_type", "single_turn") == "dpo":
            raise UnsupportedError(f"experience {eid.uid}: preference pairs are not curated; use grpo's experiences")
        step = steps.setdefault((eid.batch, eid.task, eid.run), eid.step)
        if step != eid.step:
            raise UnsupportedError(
                f"experience {eid.uid}: runs of several experiences (steps {step} and {eid.step}) are not curated; use "
                f"a workflow that makes one experience of a run, several turns in it"
            )


def group_ids(experiences: Sequence[Any]) -> Int[Tensor, " b"]:
    """[B] the task that each experience answers, numbered by the sorted task ids of the batch."""
    names = [(str(experience.eid.batch), str(experience.eid.task)) for experience in experiences]
    numbers = {name: number for number, name in enumerate(sorted(set(names)))}
    return torch.tensor([numbers[name] for name in names], dtype=torch.int64)


def read_rollouts(
    experiences: Sequence[Any],
    *,
    reads: Sequence[str] = (),
    hidden: Float[Tensor, "b d"] | None = None,
    rollout_fields: Mapping[str, str] | None = None,
    components: Sequence[str] = (),
) -> Rollouts:
    """The experiences as a curator reads them; fields are in `Experience.info`, components in `Experience.metrics`.

    A reward of None or NaN is a row that could not be scored. A row whose tokens are all masked (a truncated one under
    `mask_response_truncated`) is no donor.
    """
    ids = [experience.eid.uid for experience in experiences]
    given = [math.nan if experience.reward is None else float(experience.reward) for experience in experiences]
    rewards = torch.tensor(given, dtype=torch.float32)
    groups = group_ids(experiences)
    makers = {
        "advantages": lambda: group_advantages(rewards, groups),
        "prompt_keys": lambda: response_keys(item.tokens[: item.prompt_length].tolist() for item in experiences),
        "logprobs": lambda: torch.tensor([_mean_logprob(experience) for experience in experiences]),
    }
    infos = [experience.info for experience in experiences]
    source = "numbers in Experience.metrics, where workflows leave their rewards"
    return Rollouts(
        rewards=rewards,
        groups=groups,
        ids=ids,
        hidden=hidden,
        lengths=torch.tensor([int(generated_mask(experience).sum()) for experience in experiences]),
        donor_ok=torch.tensor([bool(generated_mask(experience).any()) for experience in experiences]),
        response_keys=response_keys(item.tokens[item.prompt_length :].tolist() for item in experiences),
        **needed_fields(makers, reads),
        **named_fields(
            rollout_fields or {}, infos, rewards, setting="rollout_fields", source="Experience.info", names=ids
        ),
        **named_components(components, [experience.metrics for experience in experiences], rewards, source=source),
    )


def verifier_rows(experiences: Sequence[Any], asked: Sequence[int]) -> list[dict[str, Any]]:
    """These experiences as a second verifier reads them: their info, and prompt and response as texts, or of several
    turns the messages up to the last one, and that.

    InputError where an experience has neither texts nor messages.
    """
    rows = []
    for experience in [experiences[row] for row in asked]:
        prompt, response = experience.prompt_text, experience.response_text
        if response is None and experience.messages:
            prompt, response = experience.messages[:-1], experience.messages[-1]["content"]
        if response is None:
            expected = "expected response_text or messages, which the second verifier reads, got neither"
            raise InputError(f"experience {experience.eid.uid}: {expected}")
        rows.append({**experience.info, "prompt": prompt or "", "response": response})
    return rows


def generated_mask(experience: Any) -> Bool[Tensor, " t"]:
    """[t] which tokens after the prompt the model generated and is trained on."""
    mask = experience.action_mask
    if mask is None:
        return torch.ones(max(0, len(experience.tokens) - experience.prompt_length), dtype=torch.bool)
    return mask.bool()


def _mean_logprob(experience: Any) -> float:
    """The mean over the tokens that the model generated; NaN where it generated none."""
    mask = generated_mask(experience)
    if not bool(mask.any()):
        return math.nan
    if experience.logprobs is None or len(experience.logprobs) != len(mask):
        length = "none" if experience.logprobs is None else len(experience.logprobs)
        expected = f"expected {len(mask)} log-probabilities, got {length}"
        raise InputError(f"experience {experience.eid.uid}: {expected}; the rollout model must return them")
    return experience.logprobs[mask].float().mean().item()


def apply_assignment(
    experiences: Sequence[Any], assignment: Assignment, scores: Float[Tensor, " b"]
) -> tuple[list[Any], list[int]]:
    """The experiences that go on, and the position of each: a replaced one is a deep copy of its donor under a fresh id
    of the position's own task and run; dropped and unscorable ones are left out, and one then alone in its task,
    whose advantage Trinity would take for its reward.

    Every experience with a score has it in `info`; a copy has the ids of its donor and of what it replaced. A shaped
    reward beside token-level rewards, which Trinity would go on reading, is an UnsupportedError.
    """
    tasks, count = group_ids(experiences), len(experiences)
    alone = (tasks[assignment.active].bincount(minlength=count) == 1) & (tasks.bincount(minlength=count) > 1)
    curated, positions = [], []
    pairs = zip(assignment.source.tolist(), assignment.rewards.tolist(), strict=True)
    for position, (source, reward) in enumerate(pairs):
        if not assignment.active[position] or (assignment.advantages is None and alone[tasks[position]]):
            continue
        own = experiences[position]
        experience = own if source == position else _copied(experiences[source], own.eid)
        before = math.nan if experience.reward is None else float(experience.reward)
        # Rewards are float32 inside: one that a curator left alone keeps all its digits.
        if reward != torch.tensor(before, dtype=torch.float32).item():
            if experience.token_level_reward is not None:
                raise UnsupportedError(
                    f"experience {experience.eid.uid}: a curator that shapes rewards, and token_level_reward is there"
                )
            experience.reward = reward
        score = float(scores[source])
        if not math.isnan(score):
            experience.info[SCORE] = score
        curated.append(experience)
        positions.append(position)
    return curated, positions


def _copied(donor: Any, victim: Any) -> Any:
    found = copy.deepcopy(donor)
    # The class's own default makes the suffix, so that it is as unique as Trinity's others.
    found.eid = type(victim)(batch=victim.batch, task=victim.task, run=victim.run, step=victim.step)
    found.info[DONOR], found.info[REPLACED] = donor.eid.uid, victim.uid
    return found
