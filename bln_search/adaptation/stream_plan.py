"""The plan of a stream: which example of which condition arrives when, and where arms return to their start."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from bln_search.core.errors import DataError
from bln_search.core.stream_outcomes import StreamLayout
from bln_search.core.streams import StreamMixture, StreamOrder, StreamReset
from bln_search.specs.sections.stream import StreamSpec

Indices = NDArray[np.int64]


@dataclass(frozen=True)
class StreamPlan(StreamLayout):
    """A stream in mini-batches, and where arms return to their start.

    Attributes:
        resets: Mini-batches, by number, before which arms return to the state before the stream.
    """

    resets: frozenset[int] = frozenset()

    def iter_mini_batches(self) -> Iterator[tuple[Indices, Indices]]:
        """Yield the conditions (n,) and the examples (n,) of each mini-batch."""
        ends = [*self.starts[1:], len(self.condition_of)]
        for start, end in zip(self.starts, ends, strict=True):
            yield self.condition_of[start:end], self.example_of[start:end]


def plan_stream(
    labels: Mapping[str, NDArray[np.int64]], spec: StreamSpec, *, order: int, network: int = 0
) -> StreamPlan:
    """Return a stream over all examples of all conditions.

    Args:
        labels: Classes (n,) of the examples of each condition.
        spec: The stream.
        order: Number of the random order, from 0.
        network: Number of the network, from 0: networks have different orders.

    Raises:
        DataError: There is no example.
    """
    names = tuple(labels)
    if not names or not all(len(classes) for classes in labels.values()):
        raise DataError("a stream needs at least one condition, and at least one example of each")
    generator = np.random.default_rng([spec.seed, network, order])
    segments = [segment for _ in range(spec.passes) for segment in _list_segments(names, labels, spec, generator)]
    starts: list[Indices] = []
    resets: set[int] = set()
    count = batches = 0
    previous = -1
    for conditions, _ in segments:
        of_segment = np.arange(0, len(conditions), spec.batch_size, dtype=np.int64)
        if spec.reset is StreamReset.CONDITION and conditions[0] != previous:
            resets.add(batches)
        previous = int(conditions[0])
        starts.append(count + of_segment)
        count, batches = count + len(conditions), batches + len(of_segment)
    return StreamPlan(
        names,
        np.concatenate([conditions for conditions, _ in segments]),
        np.concatenate([examples for _, examples in segments]),
        np.concatenate(starts),
        frozenset(resets),
    )


def _list_segments(
    names: Sequence[str], labels: Mapping[str, NDArray[np.int64]], spec: StreamSpec, generator: np.random.Generator
) -> list[tuple[Indices, Indices]]:
    """Return conditions and examples of each segment; a mini-batch does not cross its end."""
    if spec.mixture is StreamMixture.MIXED:
        conditions = np.concatenate([np.full(len(labels[name]), i, np.int64) for i, name in enumerate(names)])
        examples = np.concatenate([np.arange(len(labels[name]), dtype=np.int64) for name in names])
        order = order_examples(np.concatenate([labels[name] for name in names]), spec, generator)
        return [(conditions[order], examples[order])]
    rounds = spec.rounds if spec.mixture is StreamMixture.RECURRING else 1
    parts: list[list[Indices]] = []
    for name in names:
        shuffled = generator.permutation(len(labels[name])) if rounds > 1 else np.arange(len(labels[name]))
        parts.append([part.astype(np.int64) for part in np.array_split(shuffled, rounds)])
    segments = []
    for turn in range(rounds):
        for i, name in enumerate(names):
            part = parts[i][turn]
            if not len(part):
                continue
            examples = part[order_examples(labels[name][part], spec, generator)]
            segments.append((np.full(len(examples), i, np.int64), examples))
    return segments


def order_examples(labels: NDArray[np.int64], spec: StreamSpec, generator: np.random.Generator) -> Indices:
    """Return the order of the examples of a segment as indices (n,).

    `dirichlet` divides the examples of each class over as many slots as there are classes, in proportions drawn from a
    symmetric Dirichlet distribution; in a slot classes come one after the other (Yuan et al. 2023, RoTTA, section 4.1;
    Gong et al. 2022, NOTE, section 4).

    Args:
        labels: Classes (n,).
        spec: The order, with its concentration or length of runs.
        generator: Of random numbers.
    """
    shuffled = generator.permutation(len(labels)).astype(np.int64)
    if spec.order is StreamOrder.SHUFFLED:
        return shuffled
    classes = generator.permutation(np.unique(labels))
    by_class = [shuffled[labels[shuffled] == each] for each in classes]
    if spec.order is StreamOrder.BY_LABEL:
        return np.concatenate(by_class)
    if spec.order is StreamOrder.BLOCKS:
        runs = [
            run
            for examples in by_class
            for run in np.split(examples, range(spec.run_length, len(examples), spec.run_length))
        ]
        return np.concatenate([runs[i] for i in generator.permutation(len(runs))])
    slots: list[list[Indices]] = [[] for _ in classes]
    for examples in by_class:
        shares = generator.dirichlet(np.full(len(classes), spec.concentration))
        ends = np.round(np.cumsum(shares)[:-1] * len(examples)).astype(np.int64)
        for slot, part in zip(slots, np.split(examples, ends), strict=True):
            slot.append(part)
    return np.concatenate([slot[i] for slot in slots for i in generator.permutation(len(slot))])
