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
from torch import Tensor

from bln_search.core.errors import ModelError
from bln_search.core.per_layer import ConfigurationSpace
from bln_search.data.inputs import require_single_tensor
from bln_search.evaluation.batches import BatchGroup
from bln_search.evaluation.scoring import score_examples
from bln_search.evaluation.tree.configuration_space import make_inference_row
from bln_search.evaluation.tree.factored_cross_entropy import try_compute_factored_cross_entropy
from bln_search.evaluation.tree.graph.segments import SegmentedNetwork, is_example_tensor
from bln_search.evaluation.tree.graph.shape_values import resolve_shape_values, wrap_shape_values
from bln_search.evaluation.tree.last_layers import find_last_layers
from bln_search.evaluation.tree.node_activations import BatchTargets, Ids, NodeActivations
from bln_search.evaluation.tree.prefix_cache import GroupCacheView
from bln_search.evaluation.tree.segment_memory import MemoryOfAllSegments
from bln_search.evaluation.tree.trie import ConfigurationTrie
from bln_search.norms.row_batching.compiled.availability import are_kernels_used
from bln_search.norms.row_batching.dense_sum import DenseNormOutput
from bln_search.norms.row_batching.row_tensor import (
    BatchLayout,
    LazyRowTensor,
    Populations,
    RowBatchedTensor,
    RowBatchingPlan,
    remove_row_tag,
    tag_with_rows,
)
from bln_search.tasks.cross_entropy import cross_entropy_and_correctness
from bln_search.tasks.score import Score

FEWEST_SCORES = 2**20
"""Configurations times examples from which on a kernel is used: a process loads it once, in about a second."""

OnLosses = Callable[[Ids, Tensor, Tensor], None]
"""Called with ids of configurations (positions in the tree), their losses and their correctness. The last two axes are
mini-batch and example; the product of those before is the number of configurations."""


@dataclass(frozen=True)
class _TraversalContext:
    """What all steps of a traversal share: the targets, the configurations, the result function and the cache.

    `uses_kernel` is whether a kernel may compute the last two layers.
    """

    targets: BatchTargets
    trie: ConfigurationTrie
    on_losses: OnLosses
    cache: GroupCacheView | None
    uses_kernel: bool


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
        estimate: str | None,
        *,
        score: Score,
        memory_plan: MemoryOfAllSegments,
        chunk_bytes: int,
        path_bytes: int,
    ) -> None:
        self.network, self.space = network, space
        self.populations, self.estimate = populations, estimate
        self.score, self.memory_plan = score, memory_plan
        self.chunk_bytes, self.path_bytes = chunk_bytes, path_bytes
        self._plans: dict[tuple[int, tuple[int, ...]], RowBatchingPlan] = {}
        self._last_layers = find_last_layers(network)

    def traverse_and_report_losses(
        self,
        group: BatchGroup,
        trie: ConfigurationTrie,
        on_losses: OnLosses,
        cache: GroupCacheView | None = None,
        *,
        accepts_sums: bool = False,
    ) -> None:
        """Evaluate all configurations of a tree on a group of mini-batches.

        Args:
            group: the mini-batches.
            trie: the configurations.
            on_losses: called for each chunk of configurations.
            cache: activations after shared prefixes; None to use no cache.
            accepts_sums: whether `on_losses` may be called with sums over the examples of each mini-batch, the last
                axis of length one.
        """
        targets = BatchTargets(group)
        is_large = len(trie) * targets.examples >= FEWEST_SCORES
        has_classes = targets.are_classes and targets.has_no_fillers
        uses_kernel = are_kernels_used() and accepts_sums and cache is None and is_large and has_classes
        context = _TraversalContext(targets, trie, on_losses, cache, uses_kernel)
        start = None if cache is None else cache.find_activations_of_longest_prefix(trie)
        if start is not None:
            paths = NodeActivations(np.zeros(1, np.int64), start.copy_values())
            self._visit_subtree(start.segment, start.depth, paths, context)
            return
        outputs = self.network.segments[0](require_single_tensor(group.inputs).clone())
        values = wrap_shape_values(outputs, self.memory_plan.scales_with_batch[0], context.targets.examples)
        self._visit_subtree(1, 0, NodeActivations(np.zeros(1, np.int64), values), context)

    def _visit_subtree(self, segment: int, depth: int, paths: NodeActivations, context: _TraversalContext) -> None:
        """Evaluate the subtrees of nodes at `depth` (the number of choices made) from `segment` on."""
        trie, groups = context.trie, context.targets.groups
        if context.cache is not None and len(paths.ids) == 1:
            context.cache.put_node(segment, depth, trie, int(paths.ids[0]), paths.values)
        choice = self.space.choice_index_per_layer[self.network.layer_of[segment - 1]]
        if choice < depth:  # the layer is tied to an earlier one or used again: each path already has its option
            for digit_paths, digit in self._split_paths_by_option(paths, depth, choice, trie):
                for chunk in self._split_into_chunks(digit_paths, segment, 1, groups):
                    self._run_segment(segment, depth, depth, chunk, (digit,), context)
            return
        options = self._options_of_children(paths, depth, trie)
        for chunk in self._split_into_chunks(paths, segment, len(options), groups):
            rows = self._options_of_children(chunk, depth, trie)
            step = max(1, self.path_bytes // (groups * self.memory_plan.path_bytes[segment]))
            for start in range(0, len(rows), step):
                is_last = start + step >= len(rows)
                chunk_paths = chunk if is_last else chunk.copy()
                self._run_segment(segment, depth, depth + 1, chunk_paths, rows[start : start + step], context)

    def _split_paths_by_option(
        self, paths: NodeActivations, depth: int, choice: int, trie: ConfigurationTrie
    ) -> Iterator[tuple[NodeActivations, int]]:
        digits = trie.digits[trie.first_configuration_of_nodes[depth - 1][paths.ids], choice]
        for digit in np.unique(digits):
            yield paths.select_nodes(np.flatnonzero(digits == digit)), int(digit)

    def _options_of_children(self, paths: NodeActivations, depth: int, trie: ConfigurationTrie) -> tuple[int, ...]:
        starts, stops = trie.children[depth][paths.ids], trie.children[depth][paths.ids + 1]
        if (stops - starts).max() == len(self.space.choices[depth].options):
            return tuple(range(len(self.space.choices[depth].options)))
        digits = [trie.nodes[depth][start:stop] for start, stop in zip(starts, stops, strict=True)]
        return tuple(int(digit) for digit in np.unique(np.concatenate(digits)))

    def _split_into_chunks(
        self, paths: NodeActivations, segment: int, rows: int, groups: int
    ) -> Iterator[NodeActivations]:
        step = max(1, self.chunk_bytes // max(1, rows * groups * self.memory_plan.path_bytes[segment]))
        for start in range(0, len(paths.ids), step):
            yield paths.slice_nodes(start, start + step)

    def _run_segment(
        self,
        segment: int,
        depth: int,
        next_depth: int,
        paths: NodeActivations,
        rows: tuple[int, ...],
        context: _TraversalContext,
    ) -> None:
        """Run one segment for `paths` under each of the options `rows`, then visit their subtrees."""
        targets = context.targets
        layout = BatchLayout(self._enumeration_plan(segment, rows), len(paths.ids) * targets.groups, targets.size)
        uses_kernel = context.uses_kernel and segment == len(self.network.layer_of) - 1 and next_depth > depth
        if uses_kernel and self._try_last_layers(segment, depth, paths, rows, layout, context):
            return
        examples = len(rows) * layout.examples_per_row
        values = [
            tag_with_rows(value, layout, 1) if is_example_tensor(value) else value
            for value in resolve_shape_values(paths.values, examples)
        ]
        outputs = self.network.segments[segment](*values)
        ids, positions = paths.ids, None
        if next_depth > depth:
            num_options = len(self.space.choices[depth].options)
            ids, positions = _children_by_options(context.trie, paths.ids, depth, rows, num_options)
        if segment == len(self.network.layer_of):
            scores = self._score_outputs(outputs[0], targets, len(rows) * len(paths.ids))
            context.on_losses(ids, *(targets.drop_fillers_and_select_paths(values, positions) for values in scores))
            return
        next_values = wrap_shape_values(outputs, self.memory_plan.scales_with_batch[segment], examples)
        next_paths = NodeActivations(
            np.arange(len(rows) * len(paths.ids)), [_expand_output_to_rows(value, len(rows)) for value in next_values]
        )
        if positions is not None:
            next_paths = next_paths.select_nodes(positions)
        self._visit_subtree(segment + 1, next_depth, NodeActivations(ids, next_paths.values), context)

    def _try_last_layers(
        self,
        segment: int,
        depth: int,
        paths: NodeActivations,
        rows: tuple[int, ...],
        layout: BatchLayout,
        context: _TraversalContext,
    ) -> bool:
        """Compute the last two segments by a kernel, if each node has all options of both layers as children."""
        if self._last_layers is None or self.score is not cross_entropy_and_correctness or len(paths.values) != 1:
            return False
        num_options, num_last_options = (len(choice.options) for choice in self.space.choices[depth : depth + 2])
        nodes, positions = _children_by_options(context.trie, paths.ids, depth, rows, num_options)
        last_rows = tuple(range(num_last_options))
        ids, last_positions = _children_by_options(context.trie, nodes, depth + 1, last_rows, num_last_options)
        if positions is not None or last_positions is not None:
            return False
        targets = context.targets
        scores = self._last_layers.try_sum_scores(
            paths.values[0], layout, self._enumeration_plan(segment + 1, last_rows), targets.targets
        )
        if scores is None:
            return False
        context.on_losses(ids, *(values.view(-1, targets.groups, 1) for values in scores))
        return True

    def _enumeration_plan(self, segment: int, rows: tuple[int, ...]) -> RowBatchingPlan:
        key = (segment, rows)
        if key not in self._plans:
            layer = self.network.layer_of[segment - 1]
            choice = self.space.choices[self.space.choice_index_per_layer[layer]]
            position = choice.layers.index(layer)
            blend = self.network.layers[layer].blend
            row_specs = tuple(make_inference_row(choice.options[row][position], self.estimate, blend) for row in rows)
            self._plans[key] = RowBatchingPlan(row_specs, self.populations)
        return self._plans[key]

    def _score_outputs(self, output: Any, targets: BatchTargets, paths: int) -> tuple[Tensor, Tensor]:
        """Return losses and correctness, (rows or 1, paths, G, N)."""
        factored = output.unchanged_sum if isinstance(output, LazyRowTensor) and targets.are_classes else None
        if self.score is cross_entropy_and_correctness and isinstance(factored, DenseNormOutput):
            logits = factored.try_class_major_logits_as_sums()
            scores = (
                None
                if logits is None
                else try_compute_factored_cross_entropy(
                    logits, targets.repeat_for_paths_by_mini_batch(paths // output.copies)
                )
            )
            if scores is not None:
                return targets.reshape_scores_by_path(scores[0]), targets.reshape_scores_by_path(scores[1])
        if not isinstance(output, Tensor):
            raise ModelError(f"the network returns {type(output).__name__}: wrap it so that it returns one tensor")
        outputs = remove_row_tag(output) if isinstance(output, RowBatchedTensor) else output
        if outputs.shape[0] != paths * targets.examples:
            raise ModelError(
                f"the network's output has {outputs.shape[0]} entries on its first axis for "
                f"{paths * targets.examples} examples: the network must treat each example independently"
            )
        losses, correct, _ = score_examples(self.score, outputs, targets.repeat_for_paths(paths))
        shape = 1, paths, targets.groups, targets.size
        return losses.view(shape), correct.view(shape)


def _children_by_options(
    trie: ConfigurationTrie, ids: Ids, depth: int, rows: tuple[int, ...], num_options: int
) -> tuple[Ids, Ids | None]:
    """Return the children of nodes by the options `rows`, in the order (row, node), and their positions in that order.

    The positions are None where every node has all options as children.

    Args:
        trie: the configurations.
        ids: of the nodes.
        depth: of the nodes.
        rows: options of the choice at this depth.
        num_options: number of all options of this choice.
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


def _expand_output_to_rows(value: Any, copies: int) -> Any:
    if not isinstance(value, RowBatchedTensor):
        return value
    data = remove_row_tag(value)
    if data.ndim == 0 or value.copies == copies:
        return data
    return data.unsqueeze(0).expand(copies, *data.shape).flatten(0, 1)
