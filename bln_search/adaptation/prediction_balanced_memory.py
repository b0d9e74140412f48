"""Prediction-balanced reservoir sampling: the memory of NOTE."""

from __future__ import annotations

from collections import defaultdict

import torch

from bln_search.data.inputs import Inputs


class PredictionBalancedMemory:
    """A memory of examples whose predicted classes are balanced, and that samples each class uniformly over time.

    A full memory takes an example of class c in place of another one: of a random example of the largest classes if c
    is none of them; otherwise with probability m_c/n_c of a random example of c, where m_c counts c in the memory and
    n_c in the stream so far.

    Source: Gong et al. 2022, Algorithm 1.

    Args:
        capacity: Largest number of examples.
        generator: Of the random choices: a class and an example of it, or the probability and an example.
    """

    def __init__(self, capacity: int, generator: torch.Generator) -> None:
        self.capacity, self._generator = capacity, generator
        self._seen: dict[int, int] = defaultdict(int)
        self._examples: dict[int, list[Inputs]] = defaultdict(list)

    def __len__(self) -> int:
        return sum(map(len, self._examples.values()))

    def add(self, example: Inputs, label: int) -> None:
        """Take an example (1, ...) with its predicted class, or leave it out."""
        self._seen[label] += 1
        if len(self) < self.capacity or self._make_room(label):
            self._examples[label].append(example)

    def list_examples(self) -> list[Inputs]:
        """Return all examples by class, in the order in which they came."""
        return [example for label in sorted(self._examples) for example in self._examples[label]]

    def _make_room(self, label: int) -> bool:
        """Remove an example for one of class `label`; return whether the latter is taken."""
        largest = max(map(len, self._examples.values()))
        majority = sorted(key for key, examples in self._examples.items() if len(examples) == largest)
        if label not in majority:
            self._remove_random_example(majority[self._draw_index(len(majority))])
            return True
        probability = float(torch.rand((), generator=self._generator, dtype=torch.float64))
        if probability > len(self._examples[label]) / self._seen[label]:
            return False
        self._remove_random_example(label)
        return True

    def _remove_random_example(self, label: int) -> None:
        examples = self._examples[label]
        del examples[self._draw_index(len(examples))]

    def _draw_index(self, length: int) -> int:
        return int(torch.randint(length, (), generator=self._generator))
