"""Promises on what a curator declares, and on what engines, chains and watchers make of it."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

from geoalign.curators.baselines.reshaped_advantages import GRPO
from geoalign.curators.chain import Chain
from geoalign.curators.curator import Curator
from geoalign.curators.monitor import Monitor
from geoalign.errors import InputError
from geoalign.testing.trial import BrokenPromiseError, Trial, actions_of, curate, expect, expect_same, promise
from geoalign.types import Rollouts


@promise("it does something on an ordinary batch, unless it declares to do nothing")
def it_does_something(trial: Trial) -> None:
    """A curator that does nothing keeps every other promise; one that learns first has another batch to learn from."""
    if trial.curator.acts_on == ():
        return
    done = set()
    for rollouts, curation in trial.in_turn:
        done |= actions_of(curation, rollouts)
    rows = len(trial.batch())
    expect(
        bool(done),
        f"it changes nothing in two batches of {rows} rows with {trial.rewards} rewards; make it with settings under "
        'which it does, or try it with other rewards (rewards="binary")',
    )


@promise("it changes what it declares in acts_on, and nothing else")
def it_acts_as_declared(trial: Trial) -> None:
    declared = trial.curator.acts_on
    if declared is None:
        return
    done = set()
    for rollouts, curation in trial.varied:
        done |= actions_of(curation, rollouts)
    undeclared = sorted(done - set(declared))
    expect(not undeclared, f"it changes {', '.join(undeclared)}, and declares {declared}")
    # What a curator does that another one holds it need not do on the other's batches, or a later one undoes it.
    undone = sorted(set(declared) - done)
    expect(not undone or bool(trial.curator.members), f"it declares {', '.join(undone)}, and changes none in 4 batches")


@promise("it returns fewer rows if it declares drops_rows, and not otherwise")
def it_drops_rows_as_declared(trial: Trial) -> None:
    dropped = any(len(curation.source) < len(rollouts) for rollouts, curation in trial.varied)
    declared = trial.curator.drops_rows
    expect(dropped == declared, f"it {'drops' if dropped else 'keeps'} rows, and declares drops_rows = {declared}")


@promise("it scores rows if it declares scores_rows, and not otherwise")
def it_scores_rows_as_declared(trial: Trial) -> None:
    scored = not all(curation.scores.isnan().all() for _, curation in trial.varied)
    declared = trial.curator.scores_rows
    expect(scored == declared, f"it scores {'rows' if scored else 'none'}, and declares scores_rows = {declared}")


@promise("fields of the rollouts that it does not declare in requires or optional change nothing")
def unread_fields_change_nothing(trial: Trial) -> None:
    rollouts, curator = trial.batch(), trial.curator
    names = {"rewards", "groups", "ids", "donor_ok", *curator.reads}
    if curator.members:
        # In a chain a trusted reward stays, whatever a member makes of it.
        names.add("trusted")
    bare = Rollouts(**{name: getattr(rollouts, name) for name in names})
    expect_same(trial.decide(bare), trial.expected, "without the fields that it does not declare")


@promise("it needs no field that it does not declare in requires")
def what_is_not_required_is_not_needed(trial: Trial) -> None:
    rollouts = trial.batch()
    names = {"rewards", "groups", *trial.curator.requires}
    bare = Rollouts(**{name: getattr(rollouts, name) for name in names})
    scores = len(trial.decide(bare).scores)
    expect(scores == len(rollouts), f"without the other fields it scores {scores} of {len(rollouts)} rows")


@promise("without a field that it declares in requires it raises an InputError that names the field")
def missing_fields_are_named(trial: Trial) -> None:
    for name in trial.curator.requires:
        nothing: dict[str, Any] = {name: None}
        without = replace(trial.batch(), **nothing)
        try:
            trial.decide(without)
        except InputError as error:
            said = str(error)
            expect(
                f"{name}=..." in said and "needs the rollout field" in said,
                f"of a batch without {name} it says {said!r} (call rollouts.require first)",
            )
        else:
            raise BrokenPromiseError(f"it curates a batch without {name}")


@promise("rewards other than 0 and 1 are refused by an InputError that names one, if it declares binary_rewards")
def other_rewards_are_refused_as_declared(trial: Trial) -> None:
    if not trial.curator.binary_rewards:
        return
    rollouts = trial.batch()
    rewards = rollouts.rewards.clone()
    rewards[1] = 0.5
    try:
        trial.decide(replace(rollouts, rewards=rewards))
    except InputError as error:
        said = str(error)
        expect("binary rewards" in said and "0.5 in row 1" in said, f"of the reward 0.5 in row 1 it says {said!r}")
    else:
        raise BrokenPromiseError("it curates a batch with the reward 0.5")


@promise("in a chain with members that change nothing it decides as alone")
def a_chain_leaves_it_as_it_is(trial: Trial) -> None:
    alone = trial.expected
    in_chains = [
        Chain([trial.new()]),
        Chain([trial.new(), GRPO()]),
        Chain([GRPO(), trial.new(), Chain([GRPO()])]),
    ]
    for chain in in_chains:
        curation = curate(chain, trial.batch())
        expect_same(curation, alone, "in a chain with GRPO, which changes nothing")
        for name, value in alone.metrics.items():
            in_chain = curation.metrics.get(name)
            if name != "seconds":
                found = f"its metric {name} is {in_chain} in a chain with GRPO, and {value} alone"
                expect(in_chain is not None and _same_number(in_chain, value), found)


def _same_number(one: float, other: float) -> bool:
    """Whether two metrics are equal up to rounding; NaN is equal to NaN."""
    if math.isnan(one) or math.isnan(other):
        return math.isnan(one) and math.isnan(other)
    return math.isclose(one, other, rel_tol=1e-6, abs_tol=1e-12)


# The attributes of `Curator` in which a curator declares itself, beside the fields that it reads.
_DECLARATIONS = (
    "acts_on",
    "drops_rows",
    "recomputes_advantages",
    "absolute_advantages",
    "binary_rewards",
    "answer_reading",
    "components",
    "pooled_batches",
    "scores_rows",
    "log_odds",
    "min_scores",
)
_KEPT_BY_WATCHERS = ("components", "binary_rewards", "scores_rows", "log_odds", "min_scores", "requires")


def _declarations(curator: Curator[Any]) -> dict[str, Any]:
    """All that a curator declares; what it requires and reads in alphabetical order."""
    declared = {name: getattr(curator, name) for name in _DECLARATIONS}
    return {**declared, "requires": sorted(curator.requires), "reads": sorted(curator.reads)}


@promise("a chain of it alone declares what it declares")
def a_chain_of_one_declares_alike(trial: Trial) -> None:
    alone, chained = _declarations(trial.new()), _declarations(Chain([trial.new()]))
    others = [name for name in alone if alone[name] != chained[name]]
    expect(not others, f"a chain declares otherwise {', '.join(others)}")


@promise("a watcher of it acts on nothing, and declares how its scores are to be read")
def a_watcher_declares_alike(trial: Trial) -> None:
    watcher, alone = Monitor(curator=trial.new()), _declarations(trial.new())
    expect(watcher.acts_on == () and not watcher.drops_rows, "a watcher declares to act")
    watching = _declarations(watcher)
    others = [name for name in _KEPT_BY_WATCHERS if alone[name] != watching[name]]
    expect(not others, f"a watcher declares otherwise {', '.join(others)}")
    reading = alone["answer_reading"] or "exclusive"
    expect(watcher.answer_reading == reading, f"a watcher declares answer_reading = {watcher.answer_reading!r}")
    first = watcher.reads[: len(trial.curator.requires)]
    expect(first == tuple(trial.curator.requires), f"a watcher reads {first} first")


@promise("a watcher of it trains as GRPO does, and has its scores and flags")
def a_watcher_changes_nothing(trial: Trial) -> None:
    rollouts = trial.batch()
    watched = curate(Monitor(curator=trial.new()), rollouts)
    plain = curate(GRPO(), rollouts)
    seen = replace(plain, scores=trial.expected.scores, anomalous=trial.expected.anomalous)
    expect_same(watched, seen, "from GRPO's rows and its own scores")
