"""The task that the settings of a run name."""

from __future__ import annotations

from geoalign.lab.data.arithmetic import arithmetic_task
from geoalign.lab.data.dialogue import dialogue_task
from geoalign.lab.data.hh_rlhf import hh_rlhf_task
from geoalign.lab.data.problems import math_task
from geoalign.lab.data.settings import ArithmeticConfig, DialogueConfig, MathConfig, TaskConfig
from geoalign.lab.data.task import Task


def make_task(settings: TaskConfig, *, seed: int) -> Task:
    """The task of these settings; `seed` is that of the run."""
    if isinstance(settings, ArithmeticConfig):
        return arithmetic_task(settings, seed=seed if settings.seed is None else settings.seed)
    if isinstance(settings, DialogueConfig):
        return dialogue_task(settings, seed=seed if settings.seed is None else settings.seed)
    if isinstance(settings, MathConfig):
        return math_task(settings)
    return hh_rlhf_task(settings)
