"""Cache of activations after prefixes that many configurations share, for later evaluations."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from bln_search.evaluation.tree.graph.segments import is_example_tensor
from bln_search.evaluation.tree.trie import ConfigurationTrie

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


class ActivationPrefixCache:
    """Least-recently-used cache of activations by group of mini-batches and prefix, of at most `limit` bytes."""

    def __init__(self, limit: int) -> None:
        self.limit, self.size = limit, 0
        self._entries: OrderedDict[_Key, CachedActivations] = OrderedDict()

    def view_of_group(self, group: Any) -> GroupCacheView:
        """Return the part of one group of mini-batches, by its key."""
        return GroupCacheView(self, group)

    def find(self, key: _Key) -> CachedActivations | None:
        """Return the entry; None where there is none."""
        entry = self._entries.get(key)
        if entry is not None:
            self._entries.move_to_end(key)
        return entry

    def put_unless_later_segment_is_cached(self, key: _Key, activations: CachedActivations) -> None:
        """Add an entry, unless one of the same or a later segment exists or it exceeds the limit on its own."""
        size, present = _count_bytes(activations), self._entries.get(key)
        if size > self.limit or (present is not None and present.segment >= activations.segment):
            return
        if present is not None:
            self.size -= _count_bytes(self._entries.pop(key))
        self._entries[key] = CachedActivations(activations.segment, activations.depth, activations.copy_values())
        self.size += size
        while self.size > self.limit:
            _, oldest = self._entries.popitem(last=False)
            self.size -= _count_bytes(oldest)


@dataclass(frozen=True)
class GroupCacheView:
    """The entries of a cache for one group of mini-batches."""

    cache: ActivationPrefixCache
    group: Any

    def has_prefix(self, prefix: Prefix) -> bool:
        """Return whether the prefix is cached."""
        return self.cache.find((self.group, len(prefix), prefix)) is not None

    def find_activations_of_longest_prefix(self, trie: ConfigurationTrie) -> CachedActivations | None:
        """Return the longest cached prefix that all configurations of the tree share."""
        common = _prefix_of_all_configurations(trie)
        for depth in range(len(common), -1, -1):
            activations = self.cache.find((self.group, depth, common[:depth]))
            if activations is not None:
                return activations
        return None

    def put_node(self, segment: int, depth: int, trie: ConfigurationTrie, node: int, values: Sequence[Any]) -> None:
        """Cache the values that enter `segment` at a node of the tree at `depth`."""
        first = 0 if depth == 0 else int(trie.first_configuration_of_nodes[depth - 1][node])
        prefix = tuple(int(digit) for digit in trie.digits[first, :depth])
        self.cache.put_unless_later_segment_is_cached(
            (self.group, depth, prefix), CachedActivations(segment, depth, list(values))
        )


def _prefix_of_all_configurations(trie: ConfigurationTrie) -> Prefix:
    first, last = trie.digits[0], trie.digits[-1]
    different = (first != last).nonzero()[0]
    return tuple(int(digit) for digit in (first if len(different) == 0 else first[: different[0]]))


def _count_bytes(activations: CachedActivations) -> int:
    return sum(value.numel() * value.element_size() for value in activations.values if is_example_tensor(value))
