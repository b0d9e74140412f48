"""Training of a network, reproducible bit for bit on one device."""

from bln_search.training.loop import Trained, TrainingRun, train

__all__ = ["Trained", "TrainingRun", "train"]
