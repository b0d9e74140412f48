"""Category-balanced sampling with timeliness and uncertainty (CSTU): the memory of RoTTA."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from bln_search.data.inputs import Inputs


@dataclass
class RememberedExample:
    """An example of the memory.

    Attributes:
        inputs: (1, ...).
        uncertainty: U, the entropy of its prediction.
        age: A, the number of examples of the stream since then.
    """

    inputs: Inputs
    uncertainty: float
    age: int = 0


class CategoryBalancedMemory:
    """A memory of recent and certain examples, with the same share for each predicted class.

    A class of fewer than N/C examples takes another one; in a full memory, in place of one of the largest classes. A
    larger class takes it in place of one of its own. The one that leaves has the largest

        H = λ_t/(1 + exp(−A/N)) + λ_u·U/ln C,

    and stays if H of the new one is as large.

    Source: Yuan et al. 2023, Robust test-time adaptation in dynamic scenarios, section 3.3 and Algorithm 1.

    Args:
        capacity: N, the largest number of examples.
        classes: C.
        age_weight: λ_t.
        uncertainty_weight: λ_u.
    """

    def __init__(self, capacity: int, classes: int, age_weight: float, uncertainty_weight: float) -> None:
        self.capacity, self.age_weight, self.uncertainty_weight = capacity, age_weight, uncertainty_weight
        self._by_class: list[list[RememberedExample]] = [[] for _ in range(classes)]

    def __len__(self) -> int:
        return sum(map(len, self._by_class))

    def add(self, inputs: Inputs, label: int, uncertainty: float) -> None:
        """Take an example (1, ...) with its predicted class and entropy, or leave it out; all become older by one."""
        example = RememberedExample(inputs, uncertainty)
        if self._make_room(label, self._compute_score(example)):
            self._by_class[label].append(example)
        for remembered in self.list_examples():
            remembered.age += 1

    def list_examples(self) -> list[RememberedExample]:
        """Return all examples by class, in the order in which they came."""
        return [example for examples in self._by_class for example in examples]

    def _make_room(self, label: int, score: float) -> bool:
        """Remove an example for one of class `label`, where necessary; return whether the latter is taken."""
        if len(self._by_class[label]) >= self.capacity / len(self._by_class):
            return self._remove_highest_score([label], score)
        if len(self) < self.capacity:
            return True
        largest = max(map(len, self._by_class))
        majority = [key for key, examples in enumerate(self._by_class) if len(examples) == largest]
        return self._remove_highest_score(majority, score)

    def _remove_highest_score(self, labels: Sequence[int], limit: float) -> bool:
        """Remove the example of `labels` with the highest score, the last one of equals, if it is above `limit`."""
        candidates = [(label, example) for label in labels for example in self._by_class[label]]
        label, example = max(reversed(candidates), key=lambda candidate: self._compute_score(candidate[1]))
        if not self._compute_score(example) > limit:
            return False
        self._by_class[label] = [other for other in self._by_class[label] if other is not example]
        return True

    def _compute_score(self, example: RememberedExample) -> float:
        """Return H."""
        age = self.age_weight / (1 + math.exp(-example.age / self.capacity))
        return age + self.uncertainty_weight * example.uncertainty / math.log(len(self._by_class))
