"""Evaluation of a network in the rows of a table: plain forward passes of one row, fused passes of many."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from copy import deepcopy
from typing import Any

import torch
from torch import Tensor, nn

from bln_search.core.errors import ModelError
from bln_search.data.inputs import Inputs, convert_to_double, first_examples_if_sliceable, map_tensors
from bln_search.evaluation.batches import BatchGroup, MiniBatch
from bln_search.evaluation.chunking import ChunkSizes
from bln_search.evaluation.isolated_passes import IsolatedPasses, RandomState
from bln_search.evaluation.scoring import require_equal_weights_of_rows, require_same_weights, score_examples
from bln_search.norms.network.layer_calls import collect_called_layers
from bln_search.norms.network.layers import get_norms_by_name
from bln_search.norms.normalization_base import NormalizationBase
from bln_search.norms.row_batching.row_tensor import (
    BatchLayout,
    InferenceRow,
    Populations,
    RowBatchedTensor,
    RowBatchingError,
    RowBatchingPlan,
    remove_row_tag,
    tag_with_rows,
)
from bln_search.norms.statistics import configuration_of_layer_in_row, select_layer_population
from bln_search.tasks.cross_entropy import cross_entropy_and_correctness
from bln_search.tasks.score import Score, Scores

OutputObserver = Callable[[InferenceRow, Tensor, Tensor], None]
"""Called with a row, its outputs (n, ...) and the targets (n, ...) of further examples, in the order of the data."""


class RowEvaluator:
    """Evaluates a network in given rows. The network must be in evaluation mode.

    Args:
        network: the network.
        rows: the rows.
        populations: population values of each layer under each estimate.
        score: per-example losses and correctness from outputs and targets.
        chunking: numbers of mini-batches and rows that are evaluated together; None for one mini-batch and all rows.
        dtype: of the original, if `network` is its copy in double precision: inputs are converted to double precision,
            and outputs to `dtype` before they are scored. None for no conversion.
        expand_inputs: whether fused passes repeat the inputs for each row, not the input of the first normalization
            layer. The layers before are then evaluated once for each row, and every tensor has examples of all rows.
        is_fused: whether mini-batches are evaluated by fused passes of many rows, or by plain passes of one.
        random_state: of the global generators, in which each row begins; None for the present one.
    """

    def __init__(
        self,
        network: nn.Module,
        rows: Sequence[InferenceRow],
        populations: Populations,
        *,
        score: Score = cross_entropy_and_correctness,
        chunking: ChunkSizes | None = None,
        dtype: torch.dtype | None = None,
        expand_inputs: bool = False,
        is_fused: bool = True,
        random_state: RandomState | None = None,
    ) -> None:
        self.network, self.rows, self.populations = network, tuple(rows), populations
        self.score, self.dtype, self.expand_inputs, self.is_fused = score, dtype, expand_inputs, is_fused
        self.chunking = chunking or ChunkSizes(groups=1, rows=len(self.rows))
        self.passes = IsolatedPasses(network, random_state)
        self._plans: dict[tuple[int, ...], RowBatchingPlan] = {}

    def plain_outputs(self, row: int, inputs: Inputs, *, is_continued: bool = False) -> Tensor:
        """Return outputs (n, ...) of one forward pass in a row.

        It begins with the state of the network before the evaluation or, if it is continued, with the state in which
        the last continued pass of the row ended.
        """
        with (
            use_row_in_all_layers(self.rows[row], self.populations),
            self.passes.pass_of_row(row, is_continued=is_continued),  # restores the stream, which the row began anew
        ):
            return require_output_tensor(self.network(self._copy_inputs_for_network(inputs)))

    def plain_outputs_one_after_the_other(self, row: int, inputs: Sequence[Inputs]) -> list[Tensor]:
        """Return outputs (n, ...) of a row for several mini-batches, whose passes continue one another."""
        self.passes.forget_continued_passes(row)
        try:
            return [self.plain_outputs(row, x, is_continued=True) for x in inputs]
        finally:
            self.passes.forget_continued_passes(row)

    def plain_scores(self, row: int, batch: MiniBatch) -> Scores:
        """Return losses and correctness (n,) of a mini-batch by one forward pass in a row."""
        inputs, targets = batch
        outputs = self.plain_outputs(row, inputs)[: len(targets)]
        return self.score_outputs(outputs, targets)

    def score_outputs(self, outputs: Tensor, targets: Tensor) -> Scores:
        """Return losses and correctness (n,) of outputs (n, ...), converted to `dtype`."""
        outputs = outputs if self.dtype is None or not outputs.is_floating_point() else outputs.to(self.dtype)
        return score_examples(self.score, outputs, targets)

    def iter_fused_outputs(self, group: BatchGroup, rows: Sequence[int] | None = None) -> Iterator[Tensor]:
        """Yield outputs (rows, examples with a target, ...) of fused passes by chunks of rows; None for all rows."""
        selected = tuple(range(len(self.rows))) if rows is None else tuple(rows)
        for start in range(0, len(selected), self.chunking.rows):
            yield self._fused_outputs(group, self._enumeration_plan(selected[start : start + self.chunking.rows]))

    def iter_outputs(self, group: BatchGroup, rows: Sequence[int] | None = None) -> Iterator[Tensor]:
        """Yield outputs (rows, examples with a target, ...) of fused or plain passes by chunks of rows.

        A plain pass of a row continues that of the mini-batch before.

        Args:
            group: the mini-batches; one for plain passes.
            rows: indices of the rows; None for all.
        """
        if self.is_fused:
            yield from self.iter_fused_outputs(group, rows)
        else:
            for row in range(len(self.rows)) if rows is None else rows:
                yield self.plain_outputs(row, group.inputs, is_continued=True)[None, : len(group.targets)]

    def fused_scores(self, group: BatchGroup, rows: Sequence[int] | None = None) -> Scores:
        """Return losses and correctness (rows, examples with a target) by fused passes; None for all rows."""
        return self.score_output_chunks(self.iter_fused_outputs(group, rows), group.targets)

    def score_output_chunks(self, outputs: Iterable[Tensor], targets: Tensor) -> Scores:
        """Return losses and correctness (rows, n) of outputs (rows, n, ...) in chunks of rows."""
        chunks = [self._score_rows(chunk, targets) for chunk in outputs]
        weights = chunks[0].weights
        for chunk in chunks[1:]:
            require_same_weights(weights, chunk.weights)
        return Scores(
            torch.cat([chunk.losses for chunk in chunks]), torch.cat([chunk.correct for chunk in chunks]), weights
        )

    def try_copy_in_double_precision(self, inputs: Inputs) -> RowEvaluator | None:
        """Return an evaluator of a copy of the network in double precision.

        None where the network is in double precision already or cannot be copied or run in it. Outputs are scored in
        the precision of the original, which a user's score may expect.

        Args:
            inputs: of a mini-batch, to test the copy.
        """
        dtype = next(self.network.parameters()).dtype
        copy = (
            None
            if dtype == torch.float64
            else try_copy_network_and_populations_in_double(self.network, self.populations)
        )
        if copy is None:
            return None
        rows = self.chunking.rows if self.chunking.rows == len(self.rows) else max(1, self.chunking.rows // 2)
        chunking = ChunkSizes(groups=1, rows=rows)
        double = self._copy_with(*copy, chunking=chunking, dtype=dtype)
        try:
            with collect_called_layers(get_norms_by_name(copy[0]).values()) as called:
                double.plain_outputs(0, first_examples_if_sliceable(inputs, 2))
        except Exception:  # noqa: BLE001 - a network may not support double precision; it is then checked in its own
            return None
        return double if called else None  # a function of the user may call the original

    def with_network(self, network: nn.Module) -> RowEvaluator:
        """Return an evaluator of a copy of the network, its layers under the same names."""
        return self._copy_with(network, _map_populations_to_copy(self.network, network, self.populations))

    def with_chunk_sizes(self, chunking: ChunkSizes, *, expand_inputs: bool) -> RowEvaluator:
        """Return an evaluator with another chunking, which repeats the inputs for each row or not."""
        return self._copy_with(self.network, self.populations, chunking=chunking, expand_inputs=expand_inputs)

    def _copy_with(self, network: nn.Module, populations: Populations, **options: Any) -> RowEvaluator:
        kept = {name: getattr(self, name) for name in ("score", "chunking", "dtype", "expand_inputs", "is_fused")}
        return RowEvaluator(network, self.rows, populations, random_state=self.passes.random_state, **(kept | options))

    def _copy_inputs_for_network(self, inputs: Inputs) -> Inputs:
        return (inputs if self.dtype is None else convert_to_double(inputs)).clone()

    def _enumeration_plan(self, rows: tuple[int, ...]) -> RowBatchingPlan:
        if rows not in self._plans:
            self._plans[rows] = RowBatchingPlan(tuple(self.rows[row] for row in rows), self.populations)
        return self._plans[rows]

    def _fused_outputs(self, group: BatchGroup, plan: RowBatchingPlan) -> Tensor:
        layout = BatchLayout(plan, group.groups, group.size)
        copies = len(plan.rows) if self.expand_inputs else 1
        tagged = map_tensors(lambda x: _tag_and_repeat(x, layout, copies), self._copy_inputs_for_network(group.inputs))
        try:
            with self.passes.pass_of_row(None):
                outputs = require_output_tensor(self.network(tagged))
        except RowBatchingError as error:
            raise ModelError(f"{error}; evaluate with one_pass=False") from error
        outputs = remove_row_tag(outputs) if isinstance(outputs, RowBatchedTensor) else outputs
        expected = len(plan.rows) * layout.examples_per_row
        if outputs.shape[0] != expected:
            raise ModelError(
                f"the network's output has {outputs.shape[0]} entries on its first axis for {expected} examples: the "
                "network must treat each example independently; evaluate with one_pass=False"
            )
        shape = len(plan.rows), layout.examples_per_row, *outputs.shape[1:]
        return outputs.reshape(shape)[:, : len(group.targets)]

    def _score_rows(self, outputs: Tensor, targets: Tensor) -> Scores:
        rows, n = outputs.shape[:2]
        repeated = targets.repeat(rows, *[1] * (targets.ndim - 1))
        losses, correct, weights = self.score_outputs(outputs.flatten(0, 1), repeated)
        return Scores(losses.view(rows, n), correct.view(rows, n), require_equal_weights_of_rows(weights, rows))


def require_output_tensor(output: object) -> Tensor:
    """Return the output of a network. Raises ModelError unless it is a tensor that can have examples first."""
    if not isinstance(output, Tensor):
        raise ModelError(
            f"the network returns {type(output).__name__}: wrap it so that it returns one tensor, examples first"
        )
    if output.ndim == 0:
        raise ModelError(
            "the network returns a single number for a mini-batch: examples must stay on the first axis of its "
            "output, even if there is only one (squeeze() drops that axis)"
        )
    return output


@contextmanager
def use_row_in_all_layers(row: InferenceRow, populations: Populations) -> Iterator[None]:
    """Configure every layer by `row` in this context."""
    saved = {layer: layer.configured_state() for layer in populations}
    try:
        for layer, estimates in populations.items():
            configuration = configuration_of_layer_in_row(row.configuration, row.estimate, estimates)
            population = select_layer_population(configuration, row.estimate, estimates)
            layer.configure(configuration, population, row.blend)
        yield
    finally:
        for layer, state in saved.items():
            layer.restore_configured_state(state)


def try_copy_network_and_populations_in_double(
    network: nn.Module, populations: Populations
) -> tuple[nn.Module, Populations] | None:
    """Return a copy of the network and its populations in double precision; None where it cannot be copied."""
    try:
        copy = deepcopy(network).double()
    except Exception:  # noqa: BLE001 - a network may define its own deepcopy
        return None
    return copy, _map_populations_to_copy(network, copy, populations)


def _tag_and_repeat(x: Tensor, layout: BatchLayout, copies: int) -> Tensor:
    if not x.ndim:
        return x
    return tag_with_rows(x if copies == 1 else x.repeat(copies, *[1] * (x.ndim - 1)), layout, copies)


def _map_populations_to_copy(network: nn.Module, copy: nn.Module, populations: Populations) -> Populations:
    names: dict[NormalizationBase, str] = {layer: name for name, layer in get_norms_by_name(network).items()}
    layers = get_norms_by_name(copy)
    return {layers[names[layer]]: values for layer, values in populations.items()}
