"""One network trained: seeded, repeatable bit for bit on one device."""

from bln_search.training.loop import Trained, train

__all__ = ["Trained", "train"]
