"""What is reached without looking at an example: a network that does no better has learned nothing."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from bln_search.evaluation.batches import MiniBatch


@dataclass(frozen=True)
class Guess:
    """The same answer to every example, the shares of the classes: mean loss in nats, their entropy; and accuracy."""

    loss: float
    accuracy: float


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
        """What guessing reaches on them; None of fewer than two classes, where it is always right."""
        if len(self._counts) < 2:
            return None
        counts, total = self._counts.values(), self._counts.total()
        loss = math.fsum(count * math.log(total / count) for count in counts) / total
        return Guess(loss=loss, accuracy=max(counts) / total)
