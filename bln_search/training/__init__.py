"""Training of a network, reproducible bit for bit on one device."""

from bln_search.training.loop import TrainingResult, TrainingRun, train

__all__ = ["TrainingResult", "TrainingRun", "train"]
