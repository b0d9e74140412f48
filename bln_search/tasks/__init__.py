"""Losses and correctness of network outputs, for the tasks that networks are trained for."""

from bln_search.core.loss_description import LossDescription
from bln_search.core.metric_description import MetricDescription
from bln_search.core.task_plugin import TaskPlugin
from bln_search.tasks.metrics import StreamingMetric
from bln_search.tasks.score import ContrastiveScore
from bln_search.tasks.task import Task, make_task

__all__ = [
    "ContrastiveScore",
    "LossDescription",
    "MetricDescription",
    "StreamingMetric",
    "Task",
    "TaskPlugin",
    "make_task",
]
