"""Configurations as a prefix tree: the nodes of a depth are the prefixes of that length."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from bln_search.core.per_layer import ConfigurationSpace

Digits = NDArray[np.uint8]
"""A row of digits for each configuration, (configurations, choices)."""


@dataclass(frozen=True)
class ConfigurationTrie:
    """Prefix tree over distinct configurations in the order of their indices.

    Attributes:
        digits: one row for each configuration.
        nodes[d]: for each node of depth d + 1, the digit of choice d.
        children[d]: for each node of depth d, the index of its first child among the nodes of depth d + 1; the last
            entry is their number. Depth 0 is the root.
    """

    digits: Digits
    nodes: tuple[NDArray[np.int64], ...]
    children: tuple[NDArray[np.int64], ...]

    def __len__(self) -> int:
        return len(self.digits)

    @cached_property
    def first_configuration_of_nodes(self) -> tuple[NDArray[np.int64], ...]:
        """For each depth from 1, the index of the first configuration of each node."""
        return tuple(_indices_of_new_prefixes(self.digits, depth) for depth in range(1, self.digits.shape[1] + 1))


def build_configuration_trie(digits: Digits) -> ConfigurationTrie:
    """Build the tree over these configurations, which must be distinct and in the order of their indices."""
    choices = digits.shape[1]
    starts = [np.zeros(1, np.int64), *(_indices_of_new_prefixes(digits, depth) for depth in range(1, choices + 1))]
    nodes = tuple(digits[starts[depth + 1], depth].astype(np.int64) for depth in range(choices))
    children = tuple(
        np.append(np.searchsorted(starts[depth + 1], starts[depth]), len(starts[depth + 1])) for depth in range(choices)
    )
    return ConfigurationTrie(digits, nodes, children)


def digits_of_all_configurations(space: ConfigurationSpace) -> Digits:
    """Return the digits of all configurations of a space, in the order of their indices."""
    grids = np.indices(space.num_options_per_choice, dtype=np.uint8)
    return np.ascontiguousarray(grids.reshape(len(space.num_options_per_choice), -1).T)


def sorted_unique_configurations_with_inverse(digits: Digits) -> tuple[Digits, NDArray[np.int64]]:
    """Return the distinct configurations in the order of their indices, and the position of each given one in them."""
    unique, inverse = np.unique(digits, axis=0, return_inverse=True)
    return unique, inverse.reshape(-1)


def _indices_of_new_prefixes(digits: Digits, depth: int) -> NDArray[np.int64]:
    changed = (digits[1:, :depth] != digits[:-1, :depth]).any(1)
    return np.concatenate([[0], np.flatnonzero(changed) + 1]).astype(np.int64)
