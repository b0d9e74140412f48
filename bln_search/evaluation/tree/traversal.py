"""The depth-first walk: one mini-batch (or a few) through a network under many per-layer configurations.

What configurations have in common up to a layer is computed once. At a normalization layer every path fans out into
the options that are wanted behind it; chunks of paths go on one after the other, so that what is alive at one time is
bounded: a chunk for each layer.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from bln_search.core.enums import PopulationEstimate
from bln_search.core.errors import ModelError
from bln_search.core.per_layer import ConfigurationSpace
from bln_search.evaluation.batches import Group
from bln_search.evaluation.scoring import Score, cross_entropy, scores_of
from bln_search.evaluation.tree.leaf import paired_cross_entropy
from bln_search.evaluation.tree.memory_plan import Sizes
from bln_search.evaluation.tree.prefix_cache import Held
from bln_search.evaluation.tree.segments import StagedNetwork, is_examples
from bln_search.evaluation.tree.shape_values import at, per_example
from bln_search.evaluation.tree.space import row_of
from bln_search.evaluation.tree.trie import Trie
from bln_search.norms.dense import DenseLinear
from bln_search.norms.row_tensor import Arrangement, EnumerationPlan, Examples, Pending, Populations, mark, plain

Ids = NDArray[np.int64]
Visit = Callable[[Ids, Tensor, Tensor], None]
"""Called with configurations (by their place in the tree) and their losses and correctness: axes of configurations that
make up as many, then mini-batch and example."""


@dataclass(frozen=True)
class Paths:
    """Values alive in front of a stage, for a number of nodes of the tree: tensors (nodes·G·N, ...)."""

    ids: Ids
    values: list[Any]

    def part(self, start: int, stop: int) -> Paths:
        """Those nodes only."""
        if start == 0 and stop >= len(self.ids):
            return self
        count = len(self.ids)

        def cut(value: Any) -> Any:
            if not is_examples(value):
                return value
            return value.view(count, -1, *value.shape[1:])[start:stop].flatten(0, 1)

        return Paths(self.ids[start:stop], [cut(value) for value in self.values])

    def copied(self) -> Paths:
        """The same, for a stage that may change it in place."""
        return Paths(self.ids, [value.clone() if is_examples(value) else value for value in self.values])

    def chosen(self, places: Ids) -> Paths:
        """The nodes at these places."""
        count = len(self.ids)

        def take(value: Any) -> Any:
            if not is_examples(value):
                return value
            kept = value.view(count, -1, *value.shape[1:])
            return kept[torch.from_numpy(places).to(value.device)].flatten(0, 1)

        return Paths(self.ids[places], [take(value) for value in self.values])


class Walk:
    """One network under configurations of its space.

    sizes: of its stages. limit: bytes of a chunk of paths; most: bytes that the options of a single path may take
    together.
    """

    def __init__(
        self,
        network: StagedNetwork,
        space: ConfigurationSpace,
        populations: Populations,
        estimate: PopulationEstimate | None,
        *,
        score: Score,
        sizes: Sizes,
        limit: int,
        most: int,
    ) -> None:
        self.network, self.space = network, space
        self.populations, self.estimate = populations, estimate
        self.score, self.sizes, self.limit, self.most = score, sizes, limit, most
        self._plans: dict[tuple[int, tuple[int, ...]], EnumerationPlan] = {}

    def go(self, group: Group, trie: Trie, visit: Visit, held: Held | None = None) -> None:
        """All configurations of a tree over a group of mini-batches. held: what is alive behind common beginnings."""
        company = _Company(group, trie, held)
        start = None if held is None else held.longest(trie)
        if start is not None:
            self._descend(start.stage, start.depth, Paths(np.zeros(1, np.int64), start.copied()), company, visit)
            return
        values = self.network.stages[0](group.inputs.clone())
        alive = per_example(values, self.sizes.growing[0], company.examples)
        self._descend(1, 0, Paths(np.zeros(1, np.int64), alive), company, visit)

    def _descend(self, stage: int, depth: int, paths: Paths, company: _Company, visit: Visit) -> None:
        """Nodes of that depth (so many choices are made) through the stages from this one on."""
        if company.held is not None and len(paths.ids) == 1:
            company.held.keep(stage, depth, company.trie, int(paths.ids[0]), paths.values)
        choice = self.space.choice_of[self.network.layer_of[stage - 1]]
        if choice < depth:  # tied to a layer before it, or that layer again: every path has its option already
            for part, digit in self._by_digit(paths, depth, choice, company.trie):
                for chunk in self._chunks(part, stage, 1, company.groups):
                    self._through(stage, depth, depth, chunk, (digit,), company, visit)
            return
        for chunk in self._chunks(paths, stage, len(self._wanted(paths, depth, company.trie)), company.groups):
            wanted = self._wanted(chunk, depth, company.trie)
            together = max(1, self.most // (company.groups * self.sizes.path_bytes[stage]))
            for start in range(0, len(wanted), together):
                rest = start + together < len(wanted)
                rows = wanted[start : start + together]
                self._through(stage, depth, depth + 1, chunk.copied() if rest else chunk, rows, company, visit)

    def _by_digit(self, paths: Paths, depth: int, choice: int, trie: Trie) -> Iterator[tuple[Paths, int]]:
        """Paths that took the same option at an earlier choice, with that option."""
        digits = trie.digits[trie.first[depth - 1][paths.ids], choice]
        for digit in np.unique(digits):
            yield paths.chosen(np.flatnonzero(digits == digit)), int(digit)

    def _wanted(self, paths: Paths, depth: int, trie: Trie) -> tuple[int, ...]:
        """The options that any of these nodes has behind it."""
        starts, stops = trie.children[depth][paths.ids], trie.children[depth][paths.ids + 1]
        if (stops - starts).max() == len(self.space.choices[depth].options):
            return tuple(range(len(self.space.choices[depth].options)))
        digits = [trie.nodes[depth][a:b] for a, b in zip(starts, stops, strict=True)]
        return tuple(int(digit) for digit in np.unique(np.concatenate(digits)))

    def _chunks(self, paths: Paths, stage: int, rows: int, groups: int) -> Iterator[Paths]:
        step = max(1, self.limit // max(1, rows * groups * self.sizes.path_bytes[stage]))
        for start in range(0, len(paths.ids), step):
            yield paths.part(start, start + step)

    def _through(
        self,
        stage: int,
        depth: int,
        below: int,
        paths: Paths,
        rows: tuple[int, ...],
        company: _Company,
        visit: Visit,
    ) -> None:
        arrangement = Arrangement(self._plan(stage, rows), len(paths.ids) * company.groups, company.size)
        behind = len(rows) * arrangement.examples
        values = [mark(value, arrangement, 1) if is_examples(value) else value for value in at(paths.values, behind)]
        outputs = self.network.stages[stage](*values)
        ids, places = paths.ids, None
        if below > depth:
            options = len(self.space.choices[depth].options)
            ids, places = _children(company.trie, paths.ids, depth, rows, options)
        if stage == len(self.network.layer_of):
            scored = self._scored(outputs[0], company, len(rows) * len(paths.ids))
            visit(ids, *(company.kept(values, places) for values in scored))
            return
        alive = per_example(outputs, self.sizes.growing[stage], behind)
        following = Paths(np.arange(len(rows) * len(paths.ids)), [_fanned(value, len(rows)) for value in alive])
        if places is not None:
            following = following.chosen(places)
        self._descend(stage + 1, below, Paths(ids, following.values), company, visit)

    def _plan(self, stage: int, rows: tuple[int, ...]) -> EnumerationPlan:
        key = (stage, rows)
        if key not in self._plans:
            layer = self.network.layer_of[stage - 1]
            choice = self.space.choices[self.space.choice_of[layer]]
            place = choice.layers.index(layer)
            words = tuple(row_of(choice.options[row][place], self.estimate) for row in rows)
            self._plans[key] = EnumerationPlan(words, self.populations)
        return self._plans[key]

    def _scored(self, output: Any, company: _Company, paths: int) -> tuple[Tensor, Tensor]:
        """Losses and correctness, (rows or 1, paths, G, N)."""
        factored = output.factored if isinstance(output, Pending) and company.are_classes else None
        if self.score is cross_entropy and isinstance(factored, DenseLinear):
            parts = factored.by_class()
            scored = (
                None if parts is None else paired_cross_entropy(parts, company.by_mini_batch(paths // output.copies))
            )
            if scored is not None:
                return company.by_path(scored[0]), company.by_path(scored[1])
        if not isinstance(output, Tensor):
            raise ModelError(f"the network returns {type(output).__name__}: wrap it so that it returns one tensor")
        outputs = plain(output) if isinstance(output, Examples) else output
        if outputs.shape[0] != paths * company.examples:
            raise ModelError(
                f"the network's output has {outputs.shape[0]} entries on its first axis where "
                f"{paths * company.examples} examples were under way: it must answer each example by itself"
            )
        losses, correct = scores_of(self.score, outputs, company.repeated(paths))
        shape = 1, paths, company.groups, company.size
        return losses.view(shape), correct.view(shape)


def _children(trie: Trie, ids: Ids, depth: int, rows: tuple[int, ...], options: int) -> tuple[Ids, Ids | None]:
    """The nodes behind these by one of the options, in the order (row, node), and where they stand there.

    None for where they stand if every node has all of them. options: how many the choice has.
    """
    starts, stops = trie.children[depth][ids], trie.children[depth][ids + 1]
    if len(rows) == options and (stops - starts == options).all():
        return (starts[None] + np.arange(options)[:, None]).reshape(-1), None
    children = np.concatenate([np.arange(a, b) for a, b in zip(starts, stops, strict=True)])
    parents = np.repeat(np.arange(len(ids)), stops - starts)
    kept = np.isin(trie.nodes[depth][children], rows)
    children, parents = children[kept], parents[kept]
    places = np.searchsorted(np.asarray(rows), trie.nodes[depth][children]) * len(ids) + parents
    order = np.argsort(places)
    return children[order], None if len(children) == len(rows) * len(ids) else places[order]


class _Company:
    """The targets of a group; where an incomplete mini-batch was filled up, what fills it does not count."""

    def __init__(self, group: Group, trie: Trie, held: Held | None) -> None:
        self.trie, self.held = trie, held
        self.groups, self.size, self.examples = group.groups, group.size, group.groups * group.size
        self.n = len(group.targets)
        missing = self.examples - self.n
        filler = group.targets[:1].expand(missing, *group.targets.shape[1:])
        self.targets = torch.cat([group.targets, filler]) if missing else group.targets
        whole = self.targets.ndim == 1 and not self.targets.is_floating_point()
        self.are_classes = whole and bool(self.targets.min() >= 0)

    def repeated(self, paths: int) -> Tensor:
        """The targets once for each path."""
        return self.targets.repeat(paths, *[1] * (self.targets.ndim - 1))

    def by_mini_batch(self, paths: int) -> Tensor:
        """The targets once for each path, (paths·G, N)."""
        return self.targets.view(self.groups, self.size).repeat(paths, 1)

    def by_path(self, values: Tensor) -> Tensor:
        """(rows, N, paths·G) as (rows, paths, G, N)."""
        return values.view(len(values), self.size, -1, self.groups).permute(0, 2, 3, 1)

    def kept(self, values: Tensor, places: Ids | None) -> Tensor:
        """Without the paths that are not at these places and the examples that do not count: (paths, G, examples).

        Where all of them stay, (rows, paths, G, N) is left as it is.
        """
        if places is None and self.n == self.examples:
            return values
        flat = values.reshape(-1, self.groups, self.size)
        flat = flat if self.n == self.examples else flat.flatten(1)[:, None, : self.n]
        return flat if places is None else flat[torch.from_numpy(places).to(flat.device)]


def _fanned(value: Any, copies: int) -> Any:
    """A value behind a stage with its copies, one for each row."""
    if not isinstance(value, Examples):
        return value
    data = plain(value)
    if data.ndim == 0 or value.copies == copies or not isinstance(value, Examples):
        return data
    return data.unsqueeze(0).expand(copies, *data.shape).flatten(0, 1)
