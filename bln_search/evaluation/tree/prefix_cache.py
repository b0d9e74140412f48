"""Cache of activations after prefixes that many configurations share, for later evaluations."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from bln_search.evaluation.tree.graph.segments import is_example_tensor
from bln_search.evaluation.tree.trie import Trie

Prefix = tuple[int, ...]
"""The digits of the first choices."""

_Key = tuple[Any, int, Prefix]
"""Group of mini-batches, length of the prefix, prefix."""


@dataclass(frozen=True)
class CachedActivations:
    """The values that enter `segment` after `depth` choices."""

    segment: int
    depth: int
    values: list[Any]

    def copy_values(self) -> list[Any]:
        """Return a copy of the values for a traversal, which may change them in place."""
        return [value.clone() if is_example_tensor(value) else value for value in self.values]


class PrefixCache:
    """Least-recently-used cache of activations by group of mini-batches and prefix, of at most `limit` bytes."""

    def __init__(self, limit: int) -> None:
        self.limit, self.size = limit, 0
        self._entries: OrderedDict[_Key, CachedActivations] = OrderedDict()

    def view(self, group: Any) -> CacheView:
        """Return the part of one group of mini-batches, by its key."""
        return CacheView(self, group)

    def get(self, key: _Key) -> CachedActivations | None:
        """Return the entry; None where there is none."""
        entry = self._entries.get(key)
        if entry is not None:
            self._entries.move_to_end(key)
        return entry

    def put(self, key: _Key, activations: CachedActivations) -> None:
        """Add an entry, unless one of the same or a later segment exists or it exceeds the limit on its own."""
        size, present = _num_bytes(activations), self._entries.get(key)
        if size > self.limit or (present is not None and present.segment >= activations.segment):
            return
        if present is not None:
            self.size -= _num_bytes(self._entries.pop(key))
        self._entries[key] = CachedActivations(activations.segment, activations.depth, activations.copy_values())
        self.size += size
        while self.size > self.limit:
            _, oldest = self._entries.popitem(last=False)
            self.size -= _num_bytes(oldest)


@dataclass(frozen=True)
class CacheView:
    """The entries of a cache for one group of mini-batches."""

    cache: PrefixCache
    group: Any

    def has(self, prefix: Prefix) -> bool:
        """Return whether the prefix is cached."""
        return self.cache.get((self.group, len(prefix), prefix)) is not None

    def find_longest_shared_prefix(self, trie: Trie) -> CachedActivations | None:
        """Return the longest cached prefix that all configurations of the tree share."""
        common = _common_prefix(trie)
        for depth in range(len(common), -1, -1):
            activations = self.cache.get((self.group, depth, common[:depth]))
            if activations is not None:
                return activations
        return None

    def put(self, segment: int, depth: int, trie: Trie, node: int, values: Sequence[Any]) -> None:
        """Cache the values that enter `segment` at a node of the tree at `depth`."""
        first = 0 if depth == 0 else int(trie.first_leaf_of_nodes[depth - 1][node])
        prefix = tuple(int(digit) for digit in trie.digits[first, :depth])
        self.cache.put((self.group, depth, prefix), CachedActivations(segment, depth, list(values)))


def _common_prefix(trie: Trie) -> Prefix:
    """Return the leading digits that all configurations share."""
    first, last = trie.digits[0], trie.digits[-1]
    different = (first != last).nonzero()[0]
    return tuple(int(digit) for digit in (first if len(different) == 0 else first[: different[0]]))


def _num_bytes(activations: CachedActivations) -> int:
    return sum(value.numel() * value.element_size() for value in activations.values if is_example_tensor(value))
