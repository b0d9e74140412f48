"""Configurations as a tree: nodes of a depth are what configurations have in common up to that choice."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from bln_search.core.per_layer import ConfigurationSpace

Digits = NDArray[np.uint8]
"""A row of digits for each configuration, (configurations, choices)."""


@dataclass(frozen=True)
class Trie:
    """The tree over distinct configurations in the order of their indices.

    nodes[d]: for each node of depth d + 1 the digit of choice d. children[d]: for each node of depth d where its
    children begin among the nodes of depth d + 1, and at the end where the last one's end; depth 0 is the one root.
    """

    digits: Digits
    nodes: tuple[NDArray[np.int64], ...]
    children: tuple[NDArray[np.int64], ...]

    def __len__(self) -> int:
        return len(self.digits)

    @cached_property
    def first(self) -> tuple[NDArray[np.int64], ...]:
        """For each depth from 1, the first configuration under each node."""
        starts = [_starts(self.digits, depth) for depth in range(1, self.digits.shape[1] + 1)]
        return tuple(starts)


def trie_of(digits: Digits) -> Trie:
    """The tree over these configurations, which must be distinct and in the order of their indices."""
    choices = digits.shape[1]
    starts = [np.zeros(1, np.int64), *(_starts(digits, depth) for depth in range(1, choices + 1))]
    nodes = tuple(digits[starts[depth + 1], depth].astype(np.int64) for depth in range(choices))
    children = tuple(
        np.append(np.searchsorted(starts[depth + 1], starts[depth]), len(starts[depth + 1])) for depth in range(choices)
    )
    return Trie(digits, nodes, children)


def every_configuration(space: ConfigurationSpace) -> Digits:
    """All digits of a space, in the order of their indices."""
    grids = np.indices(space.radices, dtype=np.uint8)
    return np.ascontiguousarray(grids.reshape(len(space.radices), -1).T)


def distinct(digits: Digits) -> tuple[Digits, NDArray[np.int64]]:
    """Distinct rows in the order of their indices, and where each given row stands among them."""
    found, inverse = np.unique(digits, axis=0, return_inverse=True)
    return found, inverse.reshape(-1)


def _starts(digits: Digits, depth: int) -> NDArray[np.int64]:
    """Where a new prefix of that length begins."""
    changed = (digits[1:, :depth] != digits[:-1, :depth]).any(1)
    return np.concatenate([[0], np.flatnonzero(changed) + 1]).astype(np.int64)
