"""Training of a network, reproducible bit for bit on one device."""

from bln_search.training.loop import TrainingRun
from bln_search.training.result import TrainingResult

__all__ = ["TrainingResult", "TrainingRun"]
