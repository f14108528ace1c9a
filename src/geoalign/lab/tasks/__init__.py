"""Tasks: problems with gold answers, and demonstrations for the warm start."""

from geoalign.lab.config.tasks import ArithmeticConfig, DialogueConfig, MathConfig, TaskConfig
from geoalign.lab.tasks.arithmetic import arithmetic_task
from geoalign.lab.tasks.base import Demonstration, PreferencePair, Problem, Task
from geoalign.lab.tasks.dialogue import dialogue_task
from geoalign.lab.tasks.hh_rlhf import hh_rlhf_task
from geoalign.lab.tasks.problems import math_task

__all__ = ["Demonstration", "PreferencePair", "Problem", "Task", "make_task"]


def make_task(settings: TaskConfig, *, seed: int) -> Task:
    """The task of these settings; `seed` is that of the run."""
    if isinstance(settings, ArithmeticConfig):
        return arithmetic_task(settings, seed=seed if settings.seed is None else settings.seed)
    if isinstance(settings, DialogueConfig):
        return dialogue_task(settings, seed=seed if settings.seed is None else settings.seed)
    if isinstance(settings, MathConfig):
        return math_task(settings)
    return hh_rlhf_task(settings)
