"""Depth-first traversal: one mini-batch (or a few) through a network under many per-layer configurations.

Activations that configurations share up to a layer are computed once. At a normalization layer every path is expanded
to the options that occur after it. Chunks of paths are processed one after the other, which bounds the memory: at any
time one chunk for each layer is alive.
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
from bln_search.evaluation.batches import BatchGroup
from bln_search.evaluation.scoring import Score, apply_score, cross_entropy
from bln_search.evaluation.tree.factored_cross_entropy import factored_cross_entropy
from bln_search.evaluation.tree.memory_plan import MemoryPlan
from bln_search.evaluation.tree.prefix_cache import CacheView
from bln_search.evaluation.tree.segments import SegmentedNetwork, is_examples
from bln_search.evaluation.tree.shape_values import resolve_shape_values, wrap_shape_values
from bln_search.evaluation.tree.space import layer_row
from bln_search.evaluation.tree.trie import Trie
from bln_search.norms.dense import DenseLinear
from bln_search.norms.row_tensor import (
    BatchLayout,
    EnumerationPlan,
    LazyRowTensor,
    Populations,
    RowBatchedTensor,
    tag_rows,
    untag,
)

Ids = NDArray[np.int64]
OnLosses = Callable[[Ids, Tensor, Tensor], None]
"""Called with ids of configurations (positions in the tree), their losses and their correctness. The last two axes are
mini-batch and example; the product of those before is the number of configurations."""


@dataclass(frozen=True)
class Paths:
    """The values that enter a segment, for nodes of the tree: ids of the nodes and tensors (nodes·G·N, ...)."""

    ids: Ids
    values: list[Any]

    def part(self, start: int, stop: int) -> Paths:
        """Return the nodes from `start` to before `stop`."""
        if start == 0 and stop >= len(self.ids):
            return self
        count = len(self.ids)

        def cut(value: Any) -> Any:
            if not is_examples(value):
                return value
            return value.view(count, -1, *value.shape[1:])[start:stop].flatten(0, 1)

        return Paths(self.ids[start:stop], [cut(value) for value in self.values])

    def copied(self) -> Paths:
        """Return a copy, for a segment that may change the values in place."""
        return Paths(self.ids, [value.clone() if is_examples(value) else value for value in self.values])

    def select(self, positions: Ids) -> Paths:
        """Return the nodes at these positions."""
        count = len(self.ids)

        def select_value(value: Any) -> Any:
            if not is_examples(value):
                return value
            by_node = value.view(count, -1, *value.shape[1:])
            return by_node[torch.from_numpy(positions).to(value.device)].flatten(0, 1)

        return Paths(self.ids[positions], [select_value(value) for value in self.values])


class TreeTraversal:
    """Traversal of the configurations of one network.

    Args:
        network: split at its normalization layers.
        space: the options of each choice.
        populations: population values of each layer under each estimate.
        estimate: the population estimate; None where there is none.
        score: per-example losses and correctness from outputs and targets.
        memory_plan: memory of the segments.
        chunk_bytes: bytes of a chunk of paths.
        path_bytes: bytes of all options of a single path together.
    """

    def __init__(
        self,
        network: SegmentedNetwork,
        space: ConfigurationSpace,
        populations: Populations,
        estimate: PopulationEstimate | None,
        *,
        score: Score,
        memory_plan: MemoryPlan,
        chunk_bytes: int,
        path_bytes: int,
    ) -> None:
        self.network, self.space = network, space
        self.populations, self.estimate = populations, estimate
        self.score, self.memory_plan = score, memory_plan
        self.chunk_bytes, self.path_bytes = chunk_bytes, path_bytes
        self._plans: dict[tuple[int, tuple[int, ...]], EnumerationPlan] = {}

    def run(self, group: BatchGroup, trie: Trie, on_losses: OnLosses, cache: CacheView | None = None) -> None:
        """Evaluate all configurations of a tree on a group of mini-batches.

        Args:
            group: the mini-batches.
            trie: the configurations.
            on_losses: called for each chunk of configurations.
            cache: activations after shared prefixes; None to use no cache.
        """
        targets = _BatchTargets(group, trie, cache)
        start = None if cache is None else cache.longest(trie)
        if start is not None:
            paths = Paths(np.zeros(1, np.int64), start.copied())
            self._visit_subtree(start.segment, start.depth, paths, targets, on_losses)
            return
        outputs = self.network.segments[0](group.inputs.clone())
        values = wrap_shape_values(outputs, self.memory_plan.scales_with_batch[0], targets.examples)
        self._visit_subtree(1, 0, Paths(np.zeros(1, np.int64), values), targets, on_losses)

    def _visit_subtree(
        self, segment: int, depth: int, paths: Paths, targets: _BatchTargets, on_losses: OnLosses
    ) -> None:
        """Evaluate the subtrees of nodes at `depth` (the number of choices made) from `segment` on."""
        if targets.cache is not None and len(paths.ids) == 1:
            targets.cache.put(segment, depth, targets.trie, int(paths.ids[0]), paths.values)
        choice = self.space.choice_of[self.network.layer_of[segment - 1]]
        if choice < depth:  # the layer is tied to an earlier one or used again: each path already has its option
            for part, digit in self._by_digit(paths, depth, choice, targets.trie):
                for chunk in self._chunks(part, segment, 1, targets.groups):
                    self._run_segment(segment, depth, depth, chunk, (digit,), targets, on_losses)
            return
        options = self._options_after(paths, depth, targets.trie)
        for chunk in self._chunks(paths, segment, len(options), targets.groups):
            rows = self._options_after(chunk, depth, targets.trie)
            step = max(1, self.path_bytes // (targets.groups * self.memory_plan.path_bytes[segment]))
            for start in range(0, len(rows), step):
                is_last = start + step >= len(rows)
                self._run_segment(
                    segment,
                    depth,
                    depth + 1,
                    chunk if is_last else chunk.copied(),
                    rows[start : start + step],
                    targets,
                    on_losses,
                )

    def _by_digit(self, paths: Paths, depth: int, choice: int, trie: Trie) -> Iterator[tuple[Paths, int]]:
        """Yield the paths of each option of an earlier choice, with that option."""
        digits = trie.digits[trie.first[depth - 1][paths.ids], choice]
        for digit in np.unique(digits):
            yield paths.select(np.flatnonzero(digits == digit)), int(digit)

    def _options_after(self, paths: Paths, depth: int, trie: Trie) -> tuple[int, ...]:
        """Return the options that occur as children of any of these nodes."""
        starts, stops = trie.children[depth][paths.ids], trie.children[depth][paths.ids + 1]
        if (stops - starts).max() == len(self.space.choices[depth].options):
            return tuple(range(len(self.space.choices[depth].options)))
        digits = [trie.nodes[depth][start:stop] for start, stop in zip(starts, stops, strict=True)]
        return tuple(int(digit) for digit in np.unique(np.concatenate(digits)))

    def _chunks(self, paths: Paths, segment: int, rows: int, groups: int) -> Iterator[Paths]:
        step = max(1, self.chunk_bytes // max(1, rows * groups * self.memory_plan.path_bytes[segment]))
        for start in range(0, len(paths.ids), step):
            yield paths.part(start, start + step)

    def _run_segment(
        self,
        segment: int,
        depth: int,
        next_depth: int,
        paths: Paths,
        rows: tuple[int, ...],
        targets: _BatchTargets,
        on_losses: OnLosses,
    ) -> None:
        """Run one segment for `paths` under each of the options `rows`, then visit their subtrees."""
        layout = BatchLayout(self._plan(segment, rows), len(paths.ids) * targets.groups, targets.size)
        examples = len(rows) * layout.examples
        values = [
            tag_rows(value, layout, 1) if is_examples(value) else value
            for value in resolve_shape_values(paths.values, examples)
        ]
        outputs = self.network.segments[segment](*values)
        ids, positions = paths.ids, None
        if next_depth > depth:
            num_options = len(self.space.choices[depth].options)
            ids, positions = _children(targets.trie, paths.ids, depth, rows, num_options)
        if segment == len(self.network.layer_of):
            scores = self._score(outputs[0], targets, len(rows) * len(paths.ids))
            on_losses(ids, *(targets.select(values, positions) for values in scores))
            return
        next_values = wrap_shape_values(outputs, self.memory_plan.scales_with_batch[segment], examples)
        next_paths = Paths(
            np.arange(len(rows) * len(paths.ids)), [_expand_rows(value, len(rows)) for value in next_values]
        )
        if positions is not None:
            next_paths = next_paths.select(positions)
        self._visit_subtree(segment + 1, next_depth, Paths(ids, next_paths.values), targets, on_losses)

    def _plan(self, segment: int, rows: tuple[int, ...]) -> EnumerationPlan:
        key = (segment, rows)
        if key not in self._plans:
            layer = self.network.layer_of[segment - 1]
            choice = self.space.choices[self.space.choice_of[layer]]
            position = choice.layers.index(layer)
            row_specs = tuple(layer_row(choice.options[row][position], self.estimate) for row in rows)
            self._plans[key] = EnumerationPlan(row_specs, self.populations)
        return self._plans[key]

    def _score(self, output: Any, targets: _BatchTargets, paths: int) -> tuple[Tensor, Tensor]:
        """Return losses and correctness, (rows or 1, paths, G, N)."""
        factored = output.factored if isinstance(output, LazyRowTensor) and targets.are_classes else None
        if self.score is cross_entropy and isinstance(factored, DenseLinear):
            logits = factored.class_major()
            scores = (
                None
                if logits is None
                else factored_cross_entropy(logits, targets.by_mini_batch(paths // output.copies))
            )
            if scores is not None:
                return targets.by_path(scores[0]), targets.by_path(scores[1])
        if not isinstance(output, Tensor):
            raise ModelError(f"the network returns {type(output).__name__}: wrap it so that it returns one tensor")
        outputs = untag(output) if isinstance(output, RowBatchedTensor) else output
        if outputs.shape[0] != paths * targets.examples:
            raise ModelError(
                f"the network's output has {outputs.shape[0]} entries on its first axis for "
                f"{paths * targets.examples} examples: the network must treat each example independently"
            )
        losses, correct = apply_score(self.score, outputs, targets.repeated(paths))
        shape = 1, paths, targets.groups, targets.size
        return losses.view(shape), correct.view(shape)


def _children(trie: Trie, ids: Ids, depth: int, rows: tuple[int, ...], num_options: int) -> tuple[Ids, Ids | None]:
    """Return the children of nodes by the options `rows`, in the order (row, node), and their positions in that order.

    The positions are None where every node has all options as children. num_options: number of options of the choice.
    """
    starts, stops = trie.children[depth][ids], trie.children[depth][ids + 1]
    if len(rows) == num_options and (stops - starts == num_options).all():
        return (starts[None] + np.arange(num_options)[:, None]).reshape(-1), None
    children = np.concatenate([np.arange(start, stop) for start, stop in zip(starts, stops, strict=True)])
    parents = np.repeat(np.arange(len(ids)), stops - starts)
    is_selected = np.isin(trie.nodes[depth][children], rows)
    children, parents = children[is_selected], parents[is_selected]
    positions = np.searchsorted(np.asarray(rows), trie.nodes[depth][children]) * len(ids) + parents
    order = np.argsort(positions)
    return children[order], None if len(children) == len(rows) * len(ids) else positions[order]


class _BatchTargets:
    """The targets of a group of mini-batches; filler examples of an incomplete mini-batch have none of their own."""

    def __init__(self, group: BatchGroup, trie: Trie, cache: CacheView | None) -> None:
        self.trie, self.cache = trie, cache
        self.groups, self.size, self.examples = group.groups, group.size, group.groups * group.size
        self.num_targets = len(group.targets)
        missing = self.examples - self.num_targets
        filler = group.targets[:1].expand(missing, *group.targets.shape[1:])
        self.targets = torch.cat([group.targets, filler]) if missing else group.targets
        is_integer = self.targets.ndim == 1 and not self.targets.is_floating_point()
        self.are_classes = is_integer and bool(self.targets.min() >= 0)

    def repeated(self, paths: int) -> Tensor:
        """Return the targets once for each path."""
        return self.targets.repeat(paths, *[1] * (self.targets.ndim - 1))

    def by_mini_batch(self, paths: int) -> Tensor:
        """Return the targets once for each path, (paths·G, N)."""
        return self.targets.view(self.groups, self.size).repeat(paths, 1)

    def by_path(self, values: Tensor) -> Tensor:
        """Return (rows, N, paths·G) as (rows, paths, G, N)."""
        return values.view(len(values), self.size, -1, self.groups).permute(0, 2, 3, 1)

    def select(self, values: Tensor, positions: Ids | None) -> Tensor:
        """Return the values of the paths at `positions` without filler examples: (paths, G, examples).

        Values (rows, paths, G, N) are returned unchanged where all paths and examples remain.
        """
        if positions is None and self.num_targets == self.examples:
            return values
        flat = values.reshape(-1, self.groups, self.size)
        flat = flat if self.num_targets == self.examples else flat.flatten(1)[:, None, : self.num_targets]
        return flat if positions is None else flat[torch.from_numpy(positions).to(flat.device)]


def _expand_rows(value: Any, copies: int) -> Any:
    """Return an output of a segment with one copy for each row."""
    if not isinstance(value, RowBatchedTensor):
        return value
    data = untag(value)
    if data.ndim == 0 or value.copies == copies:
        return data
    return data.unsqueeze(0).expand(copies, *data.shape).flatten(0, 1)
