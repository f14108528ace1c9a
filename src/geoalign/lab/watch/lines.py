"""A run as lines of text, one a step: for output that is no terminal."""

from __future__ import annotations

from geoalign.lab.store.logs import Evaluation
from geoalign.lab.text import duration, harmless, percent, short
from geoalign.lab.watch.history import Step
from geoalign.lab.watch.run import WatchedRun
from geoalign.lab.watch.run_view import STAGES, evaluated

_LABELS = {
    "reward": "reward", "curated": "curated", "true": "true", "flagged": "flagged", "replaced": "replaced",
    "new_groups": "new groups", "kl": "KL", "loss": "loss", "seconds": "seconds",
}  # fmt: skip


def step_line(step: Step, run: WatchedRun, encoding: str) -> str:
    """A step: its stage and number, and what it logged of the quantities that matter most."""
    total = run.total_steps(step.stage)
    of = "" if total is None else f"/{total}"
    parts = [f"{STAGES.get(step.stage) or harmless(step.stage, encoding, 40)} {step.step}{of}"]
    for name, label in _LABELS.items():
        value = step.values.get(name)
        if value is not None:
            parts.append(f"{label} {_shown(name, value)}")
    return "  ".join(parts)


def _shown(name: str, value: float) -> str:
    if name == "seconds":
        return duration(value)
    return percent(value) if name == "new_groups" else short(value)


def evaluation_line(evaluation: Evaluation, encoding: str) -> str:
    """An evaluation of one set."""
    return f"evaluation {harmless(evaluation.set, encoding, 40)} at step {evaluation.step}  {evaluated(evaluation)}"
