"""The study of the AP2 page with mini-batches of several sizes."""

from __future__ import annotations

from dataclasses import dataclass

from bench.documents.study_losses import Values, losses_of
from papers.experiments.ap2_cells import OWN_ROWS

BATCH_SIZE_STUDY = "ap2_batch_size_mnist"

_ROWS = OWN_ROWS | {"bn": "TT-- frozen"}
"""BN with the population of frozen weights: with mini-batches of two its moving averages are of twenty examples."""


@dataclass(frozen=True)
class BatchSizeRun:
    """Networks of one arm that were trained with mini-batches of one size.

    Attributes:
        arm: The arm.
        size: Size of the mini-batches.
        epochs: Number of epochs, with which all sizes have as many steps.
    """

    arm: str
    size: int
    epochs: int

    def test(self, metric: str = "loss", factor: float = 1.0) -> Values:
        """Return `loss` or `error` on the test split by seed, times `factor`.

        Raises:
            NotMeasuredError: The study is not measured.
        """
        label = f"{self.arm} batch_size={self.size} epochs={self.epochs} {_ROWS[self.arm]}"
        return losses_of(BATCH_SIZE_STUDY).row(label, metric=metric, factor=factor)

    def less_plain(self) -> Values:
        """Return by seed the test loss less that of the plain network with mini-batches of the same size."""
        plain = BatchSizeRun("none", self.size, self.epochs).test()
        return {seed: loss - plain[seed] for seed, loss in self.test().items() if seed in plain}
