"""One network under per-layer configurations: all of them, or those that are asked for."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, Self

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from bln_search.core.errors import DataError, ModelError
from bln_search.core.per_layer import ConfigurationSpace
from bln_search.core.records import Outcomes
from bln_search.evaluation.batches import MiniBatch, grouped
from bln_search.evaluation.memory import keep_freed_memory
from bln_search.evaluation.tree.memory_plan import chunk_limit, find_sizes
from bln_search.evaluation.tree.options import Asked
from bln_search.evaluation.tree.prefix_cache import Store
from bln_search.evaluation.tree.running_sums import Sums
from bln_search.evaluation.tree.segments import staged
from bln_search.evaluation.tree.space import find_space
from bln_search.evaluation.tree.traversal import Ids, Visit, Walk
from bln_search.evaluation.tree.trie import Digits, Trie, distinct, every_configuration, trie_of
from bln_search.evaluation.tree.verification import check_walk
from bln_search.norms.network_layers import evaluation_mode
from bln_search.norms.row_tensor import Populations

MOST_CONFIGURATIONS = 2**24
"""The largest space that is enumerated: its sums alone take half a gigabyte with two folds."""


class TreeEvaluator:
    """A network and the mini-batches by which its per-layer configurations are judged.

    batches: mini-batches, of one size as a rule. folds: for each of them the fold that it belongs to; by default all
    to one. space: a part of what can be chosen, with fewer options; by default all of it.

    space: what can be chosen. left_out: the options without a value, by choice, with their reasons.

    Raises ModelError for a network that cannot be cut at its normalization layers, DataError for no mini-batch.
    """

    most = MOST_CONFIGURATIONS

    def __init__(
        self,
        network: nn.Module,
        batches: Sequence[MiniBatch],
        populations: Populations,
        asked: Asked | None = None,
        *,
        folds: Sequence[int] | None = None,
        space: ConfigurationSpace | None = None,
    ) -> None:
        if not batches:
            raise DataError("there is nothing to evaluate: the data has no mini-batch")
        if folds is not None and len(folds) != len(batches):
            raise DataError(f"there are {len(batches)} mini-batches and folds for {len(folds)}: give one for each")
        self.network, self.populations, self.asked = network, populations, asked or Asked()
        folds = folds if folds is not None else [0] * len(batches)
        self._order = sorted(range(len(batches)), key=folds.__getitem__)
        self.batches = [batches[place] for place in self._order]
        self._folds = [folds[place] for place in self._order]
        example = batches[0][0]
        with evaluation_mode(network):
            self.staged = staged(network)
            self._sizes = find_sizes(self.staged, example)
        every, self.left_out = find_space(
            self.staged,
            populations,
            self.asked.estimate,
            len(example),
            scope=self.asked.scope,
            groups=self.asked.groups,
        )
        self.space = every if space is None else space
        self._limit = chunk_limit(self.asked.memory_limit, example.device)
        self._checked = False
        self._store = Store(self.asked.memory_limit)
        self._walk = Walk(
            self.staged,
            self.space,
            populations,
            self.asked.estimate,
            score=self.asked.score,
            sizes=self._sizes,
            limit=self._limit,
            most=self.asked.memory_limit,
        )

    @property
    def sizes(self) -> list[int]:
        """How many examples are judged in each mini-batch, in the order of the data."""
        return [len(self.batches[place][1]) for place in np.argsort(self._order)]

    @property
    def examples(self) -> int:
        """How many examples are judged."""
        return sum(len(targets) for _, targets in self.batches)

    def enumerate(self, *, sums: Sums | None = None, keep: Callable[[Sums], None] | None = None) -> Sums:
        """Mean loss and accuracy of every configuration, in the order of their indices.

        sums: what a call that was interrupted had added up; it goes on behind that. keep: called behind each group of
        mini-batches with the sums so far. Raises ModelError for more than MOST_CONFIGURATIONS, or where the walk does
        not agree with plain forward passes.
        """
        if self.space.size > MOST_CONFIGURATIONS:
            raise ModelError(
                f"there are {self.space.size:,} per-layer configurations, more than the {MOST_CONFIGURATIONS:,} that "
                "are enumerated: search them (beam, coordinate, tpe or racing), or tie layers together in groups"
            )
        self.check()
        trie = trie_of(every_configuration(self.space))
        total = sums if sums is not None else Sums.empty(max(self._folds) + 1, len(trie))
        total.total = len(self.batches)
        keep_freed_memory()
        for fold in sorted(set(self._folds)):
            start, stop = self._folds.index(fold), len(self._folds) - self._folds[::-1].index(fold)
            behind = max(start, total.done)
            for places in self._together(range(behind, stop)):
                added = _Added(len(trie), len(places), self.batches[0][0].device)
                self._go(trie, places, added)
                total.losses[fold] += added.losses.sum(1).cpu().numpy()
                total.correct[fold] += added.correct.sum(1).cpu().numpy()
                total.examples[fold] += sum(len(self.batches[place][1]) for place in places)
                total.done = places[-1] + 1
                if keep is not None:
                    keep(total)
        return total

    def check(self) -> None:
        """Compare a few configurations with plain forward passes, once. Raises ModelError where they differ."""
        if not self._checked:
            check_walk(self)
            self._checked = True

    def sums(self, digits: Digits, batches: Sequence[int]) -> tuple[NDArray[np.float64], NDArray[np.int64]]:
        """Sums of losses and of right answers of these configurations in each of these mini-batches.

        Both are (configurations, mini-batches), in the orders asked for. What configurations begin with in common with
        earlier ones is taken from there.
        """
        found, places = distinct(np.asarray(digits, np.uint8).reshape(-1, len(self.space.choices)))
        walked = np.argsort(self._order)
        losses = np.empty((len(found), len(batches)))
        correct = np.empty((len(found), len(batches)), np.int64)
        start = 0
        for together in self._together([int(walked[batch]) for batch in batches]):
            for part, rows in self._by_beginning(found, together):
                added = _Added(len(part), len(together), self.batches[0][0].device)
                self._go(trie_of(part), together, added, held=True)
                losses[rows, start : start + len(together)] = added.losses.cpu().numpy()
                correct[rows, start : start + len(together)] = added.correct.cpu().numpy()
            start += len(together)
        return losses[places], correct[places]

    def outcomes(self, digits: Digits | Sequence[Sequence[int]]) -> list[Outcomes]:
        """Per-example losses and correctness under each of these configurations, in the order of the data."""
        found, places = distinct(np.asarray(digits, np.uint8).reshape(-1, len(self.space.choices)))
        each = _Each(len(found), self.examples, next(self.network.parameters()).dtype)
        trie = trie_of(found)
        for together in self._together(range(len(self.batches))):
            self._go(trie, together, each)
            each.start += sum(len(self.batches[place][1]) for place in together)
        back = self._back()
        return [Outcomes(each.losses[place, back], each.correct[place, back]) for place in places]

    def again(self, network: nn.Module, batches: Sequence[MiniBatch], populations: Populations) -> Self:
        """The same question, asked of these."""
        return type(self)(network, batches, populations, self.asked)

    def _back(self) -> NDArray[np.int64]:
        """For each example in the order of the data, where it is walked."""
        sizes = np.array([len(targets) for _, targets in self.batches])
        starts = np.concatenate([[0], np.cumsum(sizes)[:-1]])
        walked = np.argsort(self._order)
        return np.concatenate([np.arange(starts[place], starts[place] + sizes[place]) for place in walked])

    @torch.no_grad()
    def _go(self, trie: Trie, places: Sequence[int], visit: Visit, *, held: bool = False) -> None:
        chosen = [self.batches[place] for place in places]
        (group,) = grouped(chosen, len(chosen))
        with evaluation_mode(self.network):
            self._walk.go(group, trie, visit, self._store.of(tuple(places)) if held else None)

    def _together(self, places: Sequence[int]) -> Iterator[list[int]]:
        """Neighbouring mini-batches of one shape that are walked together; one that was filled up goes alone."""
        most = max(1, self._limit // (self._sizes.path_bytes[1] * len(self.space.choices[0].options)))
        waiting: list[int] = []
        for place in places:
            inputs, targets = self.batches[place]
            alone = len(targets) < len(inputs)
            other = bool(waiting) and inputs.shape != self.batches[waiting[-1]][0].shape
            if waiting and (alone or other or len(waiting) == most or place != waiting[-1] + 1):
                yield waiting
                waiting = []
            waiting.append(place)
            if alone:
                yield waiting
                waiting = []
        if waiting:
            yield waiting

    def _by_beginning(self, digits: Digits, together: Sequence[int]) -> Iterator[tuple[Digits, NDArray[np.int64]]]:
        """Configurations with the longest beginning that is kept of each, those with the same one together."""
        held = self._store.of(tuple(together))
        parts: dict[tuple[int, ...], list[int]] = {}
        for place, row in enumerate(digits):
            beginning = tuple(int(digit) for digit in row)
            depth = next((depth for depth in range(len(row), 0, -1) if held.has(beginning[:depth])), 0)
            parts.setdefault(beginning[:depth], []).append(place)
        for rows in parts.values():
            yield digits[rows], np.asarray(rows)


class _Added:
    """Sums of losses and of right answers of each mini-batch of a group, (configurations, mini-batches)."""

    def __init__(self, configurations: int, batches: int, device: torch.device) -> None:
        self.losses = torch.zeros(configurations, batches, dtype=torch.float64, device=device)
        self.correct = torch.zeros(configurations, batches, dtype=torch.int64, device=device)

    def __call__(self, ids: Ids, losses: Tensor, correct: Tensor) -> None:
        """A chunk of configurations."""
        places = torch.from_numpy(ids).to(losses.device)
        self.losses[places] = losses.sum(-1, dtype=torch.float64).view(len(ids), -1)
        self.correct[places] = correct.sum(-1).view(len(ids), -1)


class _Each:
    """Losses and correctness of every example, in the order in which they are walked."""

    def __init__(self, configurations: int, examples: int, dtype: torch.dtype) -> None:
        shape = configurations, examples
        self.dtype = torch.float64 if dtype == torch.float64 else torch.float32
        self.losses: NDArray[Any] = torch.empty(shape, dtype=self.dtype).numpy()
        self.correct = np.empty(shape, bool)
        self.start = 0

    def __call__(self, ids: Ids, losses: Tensor, correct: Tensor) -> None:
        """A chunk of configurations."""
        losses, correct = losses.reshape(len(ids), -1).to(self.dtype), correct.reshape(len(ids), -1)
        span = slice(self.start, self.start + losses.shape[1])
        self.losses[ids, span] = losses.cpu().numpy()
        self.correct[ids, span] = correct.cpu().numpy()
