"""Losses and correctness of network outputs, for the tasks that networks are trained for."""

from bln_search.tasks.task import Task, make_task

__all__ = ["Task", "make_task"]
