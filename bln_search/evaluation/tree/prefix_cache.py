"""What is alive behind beginnings that many configurations have in common, kept for those that are asked for later."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from bln_search.evaluation.tree.segments import is_examples
from bln_search.evaluation.tree.trie import Trie

Beginning = tuple[int, ...]
"""The digits of the first choices."""


@dataclass(frozen=True)
class Alive:
    """The values in front of a stage, when so many choices are made."""

    stage: int
    depth: int
    values: list[Any]

    def copied(self) -> list[Any]:
        """The values for a walk, which may change them in place."""
        return [value.clone() if is_examples(value) else value for value in self.values]


class Store:
    """Beginnings of every group of mini-batches; beyond `limit` bytes the least lately used are given up."""

    def __init__(self, limit: int) -> None:
        self.limit, self.size = limit, 0
        self._kept: OrderedDict[tuple[Any, int, Beginning], Alive] = OrderedDict()

    def of(self, group: Any) -> Held:
        """Those of one group, by what names it."""
        return Held(self, group)

    def find(self, key: tuple[Any, int, Beginning]) -> Alive | None:
        """What is kept there."""
        found = self._kept.get(key)
        if found is not None:
            self._kept.move_to_end(key)
        return found

    def keep(self, key: tuple[Any, int, Beginning], alive: Alive) -> None:
        """Keep it, unless it is there as far on already, or larger than everything together may be."""
        size, before = _bytes(alive), self._kept.get(key)
        if size > self.limit or (before is not None and before.stage >= alive.stage):
            return
        if before is not None:
            self.size -= _bytes(self._kept.pop(key))
        self._kept[key] = Alive(alive.stage, alive.depth, alive.copied())
        self.size += size
        while self.size > self.limit:
            _, oldest = self._kept.popitem(last=False)
            self.size -= _bytes(oldest)


@dataclass(frozen=True)
class Held:
    """A store seen from one group of mini-batches."""

    store: Store
    group: Any

    def has(self, beginning: Beginning) -> bool:
        """Is it kept?"""
        return self.store.find((self.group, len(beginning), beginning)) is not None

    def longest(self, trie: Trie) -> Alive | None:
        """The longest beginning of all configurations of the tree that is kept."""
        common = _common(trie)
        for depth in range(len(common), -1, -1):
            found = self.store.find((self.group, depth, common[:depth]))
            if found is not None:
                return found
        return None

    def keep(self, stage: int, depth: int, trie: Trie, node: int, values: Sequence[Any]) -> None:
        """Keep what is alive at a node of that depth."""
        first = 0 if depth == 0 else int(trie.first[depth - 1][node])
        beginning = tuple(int(digit) for digit in trie.digits[first, :depth])
        self.store.keep((self.group, depth, beginning), Alive(stage, depth, list(values)))


def _common(trie: Trie) -> Beginning:
    """The digits that all configurations begin with."""
    first, last = trie.digits[0], trie.digits[-1]
    different = (first != last).nonzero()[0]
    return tuple(int(digit) for digit in (first if len(different) == 0 else first[: different[0]]))


def _bytes(alive: Alive) -> int:
    return sum(value.numel() * value.element_size() for value in alive.values if is_examples(value))
