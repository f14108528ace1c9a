"""Tasks: problems with gold answers, and demonstrations for the warm start."""

from geoalign.tasks.base import Demonstration, PreferencePair, Problem, Task
from geoalign.tasks.registry import make_task

__all__ = ["Demonstration", "PreferencePair", "Problem", "Task", "make_task"]
