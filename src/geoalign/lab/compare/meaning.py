"""What a comparison can say at all, from its settings: the model, the task, the errors, the seeds; what to do next."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from geoalign.lab.compare.table import Table
from geoalign.text import visible

# With fewer seeds an interval is so wide that it hides most differences.
_ENOUGH_SEEDS = 5
_TASKS = {
    "arithmetic": "generated arithmetic problems",
    "math": "mathematics problems",
    "dialogue": "generated dialogues",
    "hh_rlhf": "the dialogues of HH-RLHF",
}


def meaning(table: Table, run: Mapping[str, Any]) -> str:
    """Sentences on how far the findings reach.

    Args:
        run: the base run's settings as they stand in the comparison's file, where any of them may be missing.
    """
    counts = {len(row.seeds) for level in table.levels for row in level.rows}
    most = max(counts, default=0)
    if not most:
        return ""
    seeds = "One seed" if most == 1 else f"{most} seeds"
    if len(counts) > 1 and most > 1:
        seeds = f"Up to {seeds}"
    return f"{seeds} of {_model(run)}{_task(run)}{_errors(table)}.{_reach(table, run)}"


def more_seeds(table: Table) -> bool:
    """Whether more seeds are the first thing that the comparison lacks."""
    return len(table.plan.seeds) < _ENOUGH_SEEDS


def _model(run: Mapping[str, Any]) -> str:
    model = run.get("model") or {}
    if model.get("type") == "tiny":
        return "a tiny model trained from scratch"
    path = model.get("path")
    return visible(str(path), 80) if path else "a model"


def _task(run: Mapping[str, Any]) -> str:
    name = (run.get("task") or {}).get("type")
    return f" on {_TASKS[name]}" if name in _TASKS else ""


def _has_injected_errors(table: Table) -> bool:
    return any(level.corruption for level in table.levels)


def _errors(table: Table) -> str:
    if _has_injected_errors(table):
        return ", with errors put into the rewards on purpose"
    if all(level.rate == 0 for level in table.levels):
        return ", without wrong rewards"
    return ", with the errors that the rewards have by themselves"


def _reach(table: Table, run: Mapping[str, Any]) -> str:
    if (run.get("model") or {}).get("type") == "tiny":
        return (
            " This is a toy: it shows how the arms compare here, not what they gain on a model and a verifier of yours."
        )
    if _has_injected_errors(table):
        return " A verifier's own errors follow other patterns than injected ones: the gains may differ there."
    return ""
