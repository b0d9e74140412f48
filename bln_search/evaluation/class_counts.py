"""What guessing reaches on examples that are seen once, while they go by."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator

from bln_search.core.class_prior import Guess, guess_of
from bln_search.evaluation.batches import MiniBatch


class ClassCounts:
    """How often each class stands among the targets that went by."""

    def __init__(self) -> None:
        self._counts: Counter[int] = Counter()

    def counted(self, batches: Iterable[MiniBatch]) -> Iterator[MiniBatch]:
        """The mini-batches as they are; their targets (n,) are classes."""
        for batch in batches:
            self._counts.update(batch[1].tolist())
            yield batch

    @property
    def guess(self) -> Guess | None:
        """What guessing reaches on them; None of fewer than two classes."""
        return guess_of(self._counts.values())
