"""What the adapters of all engines do alike in one step: read rewards by name, decide, make advantages and metrics.

An engine's adapter makes `Rollouts` of its rows and carries the assignment out on them; what stands here is the same
whatever the rows are.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Container, Iterable, Mapping, Sequence, Sized
from dataclasses import dataclass, replace
from numbers import Real
from typing import Any

import torch
from jaxtyping import Float, Int
from torch import Tensor

from geoalign.adapters.assignment import Assignment, assign
from geoalign.adapters.settings import GOLD_ANSWERS, EngineSettings, LogMetrics
from geoalign.answers import normal_form
from geoalign.curators.curator import Curator, anomalous_share
from geoalign.curators.registry import as_curator
from geoalign.curators.session import CurationSession
from geoalign.errors import ConfigError, InputError, UnsupportedError
from geoalign.types import Curation, Rollouts


@dataclass(frozen=True, eq=False)
class Decision:
    """A batch as the curator read it, what it decided, the content of each position, and metrics."""

    rollouts: Rollouts
    curation: Curation
    assignment: Assignment
    metrics: dict[str, float]


def decide(session: CurationSession, rollouts: Rollouts) -> Decision:
    """Curates one batch, in one process; `seconds` among the metrics are the curation's.

    The batch counts once it is curated: what the session says of a first batch is said of this one.
    """
    started = time.perf_counter()
    curation = session.curate(rollouts)
    session.calls += 1
    assignment = assign(curation, rollouts.groups, by=session.name)
    seconds = time.perf_counter() - started
    return Decision(rollouts, curation, assignment, decision_metrics(curation, rollouts, assignment, seconds=seconds))


def decision_metrics(curation: Curation, rollouts: Rollouts, assignment: Assignment, **more: float) -> dict[str, float]:
    """The curator's metrics, the mean rewards before and after, and how many rows were replaced, dropped, unscored.

    `anomalous_share` of the rows that the curator scored look wrong to it (NaN: it scored none). `changed_share` of the
    rows with a reward got another content, reward or weight, or were dropped; NaN where no row has a reward. `more`
    overwrites what a curator itself calls so, its seconds for example: one clock for all of them.
    """
    kept = assignment.rewards[assignment.kept]
    scored = ~rollouts.rewards.isnan()
    same_reward = assignment.rewards == rollouts.rewards
    changed = assignment.replaced | ~same_reward | (assignment.weights != 1)
    return {
        "anomalous_share": anomalous_share(curation, rollouts),
        "changed_share": changed[scored].double().mean().item(),
        **curation.metrics,
        "raw_reward": rollouts.rewards.nanmean().item(),
        "curated_reward": kept.nanmean().item() if len(kept) else math.nan,
        "replaced_rows": float(assignment.replaced.sum()),
        "dropped_rows": float((~assignment.kept).sum()),
        "unscored_rows": float(rollouts.rewards.isnan().sum()),
        **more,
    }


def prefixed_metrics(metrics: Mapping[str, float]) -> dict[str, float]:
    """Metrics as engines log them: `geoalign/<name>`; what is undefined in this batch (NaN) is left out."""
    return {f"geoalign/{name}": float(value) for name, value in metrics.items() if not math.isnan(value)}


# What is logged of every curator; `headline` of the curator follows, and the last where there is room.
_FIRST = ("anomalous_share", "changed_share", "seconds")
_LAST = ("curated_reward",)
_SHOWN = 5
# What went wrong, or keeps a curator from acting: logged wherever it is not 0.
ALARMS = frozenset({
    "unscored_rows", "failed_rewards", "rows_without_policy_token", "rows_without_logprob", "rows_without_answer",
    "alarms", "too_few_scores", "zero_spread", "groups_without_donor", "gate_closed", "forgotten",
    "appeals_unanswered",
})  # fmt: skip


def is_alarm(name: str) -> bool:
    """Whether a metric says that something went wrong, of a member of a chain too (`member_2/too_few_scores`)."""
    return name.rpartition("/")[2] in ALARMS


def metrics_to_log(
    metrics: Mapping[str, float], curator: Curator, which: LogMetrics = "headline", *, zeros: bool = False
) -> dict[str, float]:
    """The metrics that an engine logs, by `prefixed_metrics`.

    With "headline" these are at most five, the same in every batch, and each alarm that is not 0, or with `zeros` each
    alarm; with "all" they are all.
    """
    if which == "all":
        return prefixed_metrics(metrics)
    names = dict.fromkeys([*_FIRST, *_headline(curator), *_LAST])
    if curator.acts_on == ():
        # It is always 0 of a curator that changes nothing, as one that only watches.
        del names["changed_share"]
    shown = [*names][:_SHOWN]
    return prefixed_metrics({
        name: value for name, value in metrics.items() if name in shown or (is_alarm(name) and (zeros or value != 0))
    })  # fmt: skip


def _headline(curator: Curator) -> list[str]:
    """The metrics that the curator declares as its most telling ones, followed by those of its members."""
    return [*curator.headline, *(name for member in curator.members for name in _headline(member))]


def final_advantages(assignment: Assignment, computed: Callable[[], Float[Tensor, " b"]]) -> Float[Tensor, " b"]:
    """[B] the curator's own advantages, else those that the engine's formula gives; times the weights, 0 for NaN."""
    given = assignment.advantages
    if given is None:
        given = computed()
    return (given * assignment.weights).nan_to_num(0.0)


def rewards_stay(assignment: Assignment, rollouts: Rollouts) -> bool:
    """Whether each row has the reward that it came with: the engine's own advantages hold, times the weights.

    Not where a row has no reward (NaN): engines' own formulas do not leave it out.
    """
    return assignment.advantages is None and torch.equal(assignment.rewards, rollouts.rewards[assignment.source])


def group_numbers(names: Iterable[Any]) -> Int[Tensor, " b"]:
    """[B] the group of each row, numbered as their names first come."""
    numbers: dict[str, int] = {}
    return torch.tensor([numbers.setdefault(str(name), len(numbers)) for name in names])


def make_session(settings: EngineSettings, *, how: str) -> CurationSession:
    """The curator of the settings, checked as `check_can_run` says, with its generator."""
    session = CurationSession(as_curator(settings.curator), seed=settings.seed, monitor=settings.monitor)
    asks = () if settings.second_verifier is None else ("second_rewards",)
    check_can_run(session, (*settings.rollout_fields, *asks), how=how)
    return session


def check_can_run(session: CurationSession, given: Iterable[str], *, how: str) -> None:
    """Raises ConfigError where the curator needs a field that is not `given`; `how`: what to set for a field `{need}`.

    The session says so too, where the curator cannot act without one.
    """
    session.remedies = replace(session.remedies, field=how)
    parts = ("components",) if session.curator.components else ()
    missing = session.missing_fields({*given, *parts})
    if missing:
        expected = ", ".join(_giver(need) or how.format(need=need) for need in missing)
        raise ConfigError(f"{session.name} requires {', '.join(missing)}: expected {expected}, got none")


def _giver(need: str) -> str:
    """Which setting supplies a field that the rows of no engine contain; "" for any other field."""
    givers = {
        "trusted": "labelled_rollouts, which TRL's adapter alone can show",
        "second_rewards": "second_verifier, such as math_verify",
    }
    return givers.get(need, "")


def refuse(problems: Mapping[str, Any]) -> None:
    """Raises UnsupportedError with the first of these messages whose condition holds."""
    for message, holds in problems.items():
        if holds:
            raise UnsupportedError(message)


def check_components(wanted: Iterable[str], known: Iterable[str], *, source: str) -> None:
    """Raises ConfigError unless every component wanted is among the known ones; `source`: where those are."""
    known = sorted(known)
    for name in wanted:
        if name not in known:
            there = f"expected one of {', '.join(known)}" if known else f"this engine gives one reward: no {source}"
            raise ConfigError(f"component: {there}; got {name!r}")


def summed_components(
    per_function: Float[Tensor, "b f"], weights: Float[Tensor, " f"], names: Sequence[str]
) -> dict[str, Tensor]:
    """What each reward function adds to a weighted sum of them, by name; names that several have are left out."""
    parts = (per_function * weights.to(per_function.device)).unbind(1)
    return {name: part for name, part in zip(names, parts, strict=True) if list(names).count(name) == 1}


def needed_fields(makers: Mapping[str, Callable[[], Any]], needs: Container[str]) -> dict[str, Any]:
    """Builds only the requested fields, each by the function given for it."""
    return {name: make() for name, make in makers.items() if name in needs}


def states_of_rows(states: Sequence[Tensor | None], groups: Int[Tensor, " b"]) -> Float[Tensor, "b d"]:
    """[B, d] the hidden states that rows bring along; at least one row has one.

    A row without one gets the mean of the others of its group, else of the batch: a state that says nothing. So the
    caller lets rows pass that need none: without a reward, or without a token of the policy's own.
    """
    known = torch.tensor([state is not None for state in states])
    given = torch.stack([state for state in states if state is not None])
    found = given.mean(dim=0).repeat(len(states), 1)
    found[known] = given
    for row in (~known).nonzero().flatten().tolist():
        others = known & (groups == groups[row])
        if bool(others.any()):
            found[row] = found[others].mean(dim=0)
    return found


def named_components(
    wanted: Sequence[str], rows: Sequence[Any], rewards: Float[Tensor, " b"], *, source: str
) -> dict[str, Any]:
    """The field `components`, out of the numbers that rows carry by name: as they enter the sum; {} where none wanted.

    Rows (B dicts, or None) without a reward may lack what the others have, and get NaN; `source`: where the dicts come
    from. A scored row without a number of that name is a ConfigError, with the names that all scored rows have.
    """
    if not wanted:
        return {}
    entries = _entries(rows, rewards)
    numbers = [
        {name: float(value) for name, value in entry.items() if counts and isinstance(value, Real)}
        for entry, counts in entries
    ]
    known = [set(own) for own, (_, counts) in zip(numbers, entries, strict=True) if counts]
    if known:
        check_components(wanted, set.intersection(*known), source=source)
    return {"components": {name: torch.tensor([own.get(name, math.nan) for own in numbers]) for name in wanted}}


def named_fields(
    wanted: Mapping[str, str],
    rows: Sequence[Any],
    rewards: Float[Tensor, " b"],
    *,
    setting: str,
    source: str,
    names: Sequence[str] | None = None,
) -> dict[str, Any]:
    """The user's rollout fields (field -> name in the rows' dicts), out of what rows carry by name.

    Rows (B dicts, or None) without a reward may lack what the others have, and get None or NaN; `setting`: where
    `wanted` stands, `source`: where the dicts come from, `names`: of the rows. A scored row without the entry is a
    ConfigError; entries that are no numbers, or not equally many, are an InputError.
    """
    fields: dict[str, Any] = {}
    entries, names = _entries(rows, rewards), names or [f"row {row}" for row in range(len(rows))]
    for field, key in wanted.items():
        if field == GOLD_ANSWERS:
            continue
        for (entry, counts), name in zip(entries, names, strict=True):
            if counts and key not in entry:
                known = ", ".join(sorted(map(str, entry))) or "nothing"
                raise ConfigError(f"{setting}.{field}: expected {key!r} in {source}, got {known} in {name}")
        values = [entry.get(key) for entry, _ in entries]
        if field == "answers":
            fields[field] = as_answers(values)
        else:
            like = next((value for value in values if value is not None), math.nan)
            blank = [math.nan] * len(like) if isinstance(like, Sized) and not _is_single(like) else None
            values = [blank if value is None else value for value in values]
            fields[field] = as_floats(field, values, torch.device("cpu"), setting=setting)
    return fields


def _is_single(value: Any) -> bool:
    """Whether a value with a length is one all the same: a text, or a tensor or an array of no dimension."""
    return isinstance(value, str) or getattr(value, "ndim", 1) == 0


def _entries(rows: Sequence[Any], rewards: Float[Tensor, " b"]) -> list[tuple[Mapping[str, Any], bool]]:
    """The dict of each row, empty where there is none, and whether it has a reward; none where no row was read."""
    scored = (~rewards.isnan()).tolist() if rows else []
    return [(row if isinstance(row, Mapping) else {}, counts) for row, counts in zip(rows, scored, strict=True)]


def as_answers(values: Sequence[Any]) -> list[str | None]:
    """The values as answers in their normal form (`geoalign.answers.normal_form`); None where a response gives none."""
    texts = ["" if isinstance(value, (list, type(None))) and not value else str(value) for value in values]
    return [normal_form(text) or None for text in texts]


def as_floats(name: str, values: Sequence[Any], device: torch.device, *, setting: str = "rollout_fields") -> Tensor:
    """The values as float32: [B], or [B, M] where each is a list; None becomes NaN. InputError names the field."""
    try:
        return torch.tensor([_number_or_numbers(value) for value in values], dtype=torch.float32, device=device)
    except (TypeError, ValueError) as error:
        raise InputError(f"{setting}.{name}: expected numbers, one or equally many per row: {error}") from error


def _number_or_numbers(value: Any) -> Any:
    if value is None:
        return math.nan
    if hasattr(value, "tolist"):  # a tensor or an array
        return value.tolist()
    if isinstance(value, (list, tuple)):
        return [_number_or_numbers(item) for item in value]
    return float(value)
