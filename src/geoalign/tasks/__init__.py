"""Tasks: problems with gold answers, and demonstrations for the warm start."""

from geoalign.tasks.base import Demonstration, Problem, Task
from geoalign.tasks.registry import make_task

__all__ = ["Demonstration", "Problem", "Task", "make_task"]
