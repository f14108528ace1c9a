"""Tasks: problems with gold answers, and demonstrations for the warm start."""

from geoalign.errors import ConfigError
from geoalign.lab.config.tasks import ArithmeticConfig, DialogueConfig, HHRLHFConfig, MathConfig
from geoalign.lab.tasks.arithmetic import ArithmeticTask, WordSumsTask
from geoalign.lab.tasks.base import Demonstration, PreferencePair, Problem, Task
from geoalign.lab.tasks.dialogue import DialogueTask
from geoalign.lab.tasks.hh_rlhf import HHRLHFTask
from geoalign.lab.tasks.math import MathTask

__all__ = ["Demonstration", "PreferencePair", "Problem", "Task", "make_task"]


def make_task(settings: object, *, seed: int) -> Task:
    """The task of these settings (a member of `TaskConfig`); `seed` is that of the run."""
    if isinstance(settings, ArithmeticConfig):
        kind = WordSumsTask if settings.wording == "words" else ArithmeticTask
        return kind(settings, seed=seed if settings.seed is None else settings.seed)
    if isinstance(settings, MathConfig):
        return MathTask(settings)
    if isinstance(settings, DialogueConfig):
        return DialogueTask(settings, seed=seed if settings.seed is None else settings.seed)
    if isinstance(settings, HHRLHFConfig):
        return HHRLHFTask(settings)
    raise ConfigError(f"task: expected settings of a known task, got {type(settings).__name__}")
