"""Scores of all options of the last two normalization layers by a compiled kernel.

It is used where the network ends with norm, linear, activation function, norm, linear. The function is tanh or ReLU,
both layers normalize (N, D) with both pairs of statistics, and the loss is the softmax cross-entropy.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, fx, nn

from bln_search.evaluation.tree.graph.segments import Segment, SegmentedNetwork
from bln_search.norms import Normalization
from bln_search.norms.row_batching.compiled.availability import (
    can_kernels_read,
    flat_array,
    make_index_pair_array,
)
from bln_search.norms.row_batching.dense_sum import DenseNormOutput
from bln_search.norms.row_batching.parallel import run_in_threads
from bln_search.norms.row_batching.row_sources import (
    EstimateOrBatch,
    LayerSourcesByRow,
    PairSourcesByRow,
    resolve_layer_sources_by_row,
)
from bln_search.norms.row_batching.row_tensor import BatchLayout, LazyRowTensor, RowBatchingPlan, tag_with_rows
from bln_search.norms.statistics import PopulationPair

_LANES = 16
_CLASS_BLOCK = 5
_MOST_CLASSES = 128
_SMALLEST_BATCH = 9
"""Smaller mini-batches leave most of a vector empty."""


@dataclass(frozen=True)
class LastLayers:
    """The modules at the end of a network: norm, linear, tanh or ReLU, last norm, last linear."""

    norm: Normalization
    linear: nn.Linear
    activation: nn.Tanh | nn.ReLU
    last_norm: Normalization
    last_linear: nn.Linear

    def try_sum_scores(
        self, x: Tensor, layout: BatchLayout, last_plan: RowBatchingPlan, targets: Tensor
    ) -> tuple[Tensor, Tensor] | None:
        """Return sums of losses and numbers of correct answers of each mini-batch.

        Both are (options of the last layer, options of the one before, paths, G). They are None where the kernel is not
        applicable, and where an exponential is not finite.

        Args:
            x: input of the first of the two layers, (paths·G·N, D).
            layout: options of that layer, and mini-batches of all paths.
            last_plan: options of the last layer.
            targets: classes, (G, N).
        """
        output = self.linear(self.norm(tag_with_rows(x, layout, 1)))
        factored = output.unchanged_sum if isinstance(output, LazyRowTensor) else None
        parameters = (self.last_norm.weight, self.last_norm.bias, self.last_linear.weight)
        if not isinstance(factored, DenseNormOutput) or factored.sources.feature is None:
            return None
        if factored.sources.batch is None or int(targets.max()) >= len(self.last_linear.weight):
            return None
        if layout.size < _SMALLEST_BATCH or len(self.last_linear.weight) > _MOST_CLASSES:
            return None
        like = x.new_empty(1, layout.size, len(self.linear.weight))
        last = _LastNormConstants.try_resolve(self.last_norm, self.last_linear, last_plan, like)
        if last is None or not can_kernels_read(like, *parameters):
            return None
        terms = factored.to_row_outputs_as_sums()
        assert terms.feature is not None
        batch = torch.stack([term.expand_as(terms.feature[0]) for term in terms.batch])
        is_tanh = isinstance(self.activation, nn.Tanh)
        return last.sum_scores(batch, terms.feature.contiguous(), is_tanh, make_index_pair_array(terms.rows), targets)


def find_last_layers(network: SegmentedNetwork) -> LastLayers | None:
    """Return the last layers of a network; None where it does not end in this way."""
    if len(network.segments) < 3 or len(set(network.layer_of)) != len(network.layer_of):
        return None
    before, last = (_modules_in_sequence(segment) for segment in network.segments[-2:])
    match before, last:
        case (
            [Normalization() as norm, nn.Linear() as linear, nn.Tanh() | nn.ReLU() as activation],
            [Normalization() as last_norm, nn.Linear() as last_linear],
        ) if not any(map(_is_changed, (*before, *last))):
            return LastLayers(norm, linear, activation, last_norm, last_linear)
    return None


def _is_changed(module: nn.Module) -> bool:
    """Return whether a module has hooks, or is of a subclass of one of torch's layers."""
    is_subclass = not isinstance(module, Normalization) and type(module) not in (nn.Linear, nn.Tanh, nn.ReLU)
    return is_subclass or bool(module._forward_hooks or module._forward_pre_hooks)


def _modules_in_sequence(segment: Segment) -> list[nn.Module]:
    """Return the modules that a segment calls one after the other; an empty list where it does anything else."""
    if not isinstance(segment, fx.GraphModule):
        return []
    modules, value = dict(segment.named_modules()), None
    called: list[nn.Module] = []
    for node in segment.graph.nodes:
        if node.op == "placeholder" and value is None:
            value = node
        elif node.op == "call_module" and node.args == (value,) and not node.kwargs:
            called.append(modules[str(node.target)])
            value = node
        elif node.op != "output" or node.args != ((value,),):
            return []
    return called


@dataclass(frozen=True)
class _LastNormConstants:
    """What the kernel needs of the last two modules.

    Attributes:
        weights: (D, 2, columns), W and W·diag(r) of the population.
        weight_sums: W·1.
        constant: wβ + b.
        population_mean: of the units.
        scalars: w_B, w_F, ε, mean and deviation of features of the population.
        around_selected_mean: whether a deviation is computed around the selected mean.
        rows: variants of each option.
        classes: their number.
    """

    weights: Tensor
    weight_sums: Tensor
    constant: Tensor
    population_mean: Tensor
    scalars: tuple[float, float, float, float, float]
    around_selected_mean: bool
    rows: NDArray[np.int64]
    classes: int

    @staticmethod
    def try_resolve(
        norm: Normalization, linear: nn.Linear, plan: RowBatchingPlan, like: Tensor
    ) -> _LastNormConstants | None:
        """Resolve the constants; None where a row mixes values, or a population has several slots.

        Args:
            norm: the last normalization layer.
            linear: the linear layer after it.
            plan: options of the layer.
            like: an input of the layer, (1, N, D).
        """
        sources: LayerSourcesByRow | None = plan.layer_sources.get(norm)
        if sources is None:
            sources = plan.layer_sources[norm] = resolve_layer_sources_by_row(norm, plan, like.flatten(0, 1))
        if sources.batch is None or sources.feature is None or norm.formula_variant.unbiased:
            return None
        batch, feature = _single_population(sources.batch), _single_population(sources.feature)
        if batch is None or feature is None or batch.deviation is None or feature.deviation is None:
            return None
        units = like.shape[2]
        if batch.mean.numel() != units or feature.mean.numel() != 1:
            return None
        if not bool(batch.mean.isfinite().all()) or not bool(feature.mean.isfinite().all()):
            return None
        batch_weight, feature_weight = norm.branch_weights(norm.batch_size or like.shape[1])
        weight = linear.weight * norm.weight
        classes = len(weight)
        columns = -(-(classes + _CLASS_BLOCK - 1) // _LANES) * _LANES
        weights = like.new_zeros(units, 2, columns)
        weights[:, 0, :classes] = weight.t()
        weights[:, 1, :classes] = (weight * (batch_weight / batch.deviation.reshape(-1))).t()
        constant = torch.nn.functional.linear(norm.bias, linear.weight, linear.bias)
        return _LastNormConstants(
            weights=weights,
            weight_sums=_pad(weight.sum(1), columns),
            constant=_pad(constant, columns),
            population_mean=batch.mean.reshape(-1).contiguous(),
            scalars=(
                batch_weight,
                feature_weight,
                norm.formula_variant.epsilon,
                float(feature.mean.reshape(-1)[0]),
                float(feature.deviation.reshape(-1)[0]),
            ),
            around_selected_mean=norm.formula_variant.around_selected_mean,
            rows=make_index_pair_array(
                tuple(
                    (_variant_of(*pair), _variant_of(*other))
                    for pair, other in zip(sources.batch.sources, sources.feature.sources, strict=True)
                )
            ),
            classes=classes,
        )

    def sum_scores(
        self,
        batch: Tensor,
        feature: Tensor,
        is_tanh: bool,  # noqa: FBT001 - of the kernel
        rows: NDArray[np.int64],
        targets: Tensor,
    ) -> tuple[Tensor, Tensor] | None:
        """Run the kernel; None where an exponential is not finite."""
        from bln_search.norms.row_batching.compiled.dense_tail import (  # noqa: PLC0415 - loads the compiler
            add_scores_of_last_layers,
        )

        _, tiles, size, units = feature.shape
        losses = torch.zeros(len(self.rows), len(rows), tiles, dtype=torch.float64)
        correct = torch.zeros(len(self.rows), len(rows), tiles, dtype=torch.int64)
        terms = flat_array(batch), flat_array(feature), is_tanh, rows, flat_array(targets.long().contiguous())
        constants = map(flat_array, (self.weights, self.weight_sums, self.constant, self.population_mean))
        options = self.scalars, self.around_selected_mean, self.rows
        arguments = (*terms, *constants, *options, (tiles, size, units, self.classes, self.weights.shape[2]))
        sums = flat_array(losses), flat_array(correct)
        run_in_threads(lambda start, stop: add_scores_of_last_layers(*arguments, start, stop, *sums), tiles)
        return (losses, correct) if bool(losses.isfinite().all()) else None


def _single_population(pair: PairSourcesByRow) -> PopulationPair | None:
    """Return the only population of a pair; None where rows mix values or use several populations."""
    names = {source.name for sources in pair.sources for source in sources if source is not None}
    if len(names) != 1 or pair.mixed_means or pair.mixed_deviations:
        return None
    return pair.populations[names.pop()]


def _variant_of(mean: EstimateOrBatch, deviation: EstimateOrBatch) -> int:
    return 2 * (mean is not None) + (deviation is not None)


def _pad(values: Tensor, length: int) -> Tensor:
    """Append zeros."""
    padded = values.new_zeros(length)
    padded[: len(values)] = values
    return padded
