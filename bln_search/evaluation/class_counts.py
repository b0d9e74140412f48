"""Class counts of a stream of mini-batches, for the loss and accuracy of a constant prediction."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator

from bln_search.core.class_prior import ClassPriorBaseline, compute_class_prior_baseline
from bln_search.evaluation.batches import MiniBatch


class ClassCounter:
    """Counts the classes of the targets that pass through `iter_batches_and_count_targets`."""

    def __init__(self) -> None:
        self._counts: Counter[int] = Counter()

    def iter_batches_and_count_targets(self, batches: Iterable[MiniBatch]) -> Iterator[MiniBatch]:
        """Yield the mini-batches unchanged and count their targets (n,), which are classes."""
        for batch in batches:
            self._counts.update(batch[1].tolist())
            yield batch

    @property
    def class_prior_baseline(self) -> ClassPriorBaseline | None:
        """Loss and accuracy of a constant prediction by class frequencies; None for fewer than two classes."""
        return compute_class_prior_baseline(self._counts.values())

    @property
    def only_class(self) -> int | None:
        """The class of all targets; None if there are several."""
        return next(iter(self._counts)) if len(self._counts) == 1 and self._counts.total() > 1 else None
