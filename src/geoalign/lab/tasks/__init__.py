"""Tasks: problems with gold answers, and demonstrations for the warm start."""

from geoalign.lab.tasks.base import Demonstration, PreferencePair, Problem, Task
from geoalign.lab.tasks.registry import make_task

__all__ = ["Demonstration", "PreferencePair", "Problem", "Task", "make_task"]
