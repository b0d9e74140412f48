"""Choice of the evaluator of per-layer configurations: tree traversal, or plain forward passes where that fails."""

from __future__ import annotations

import warnings
from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor, nn

from bln_search.core.errors import BlnSearchError, DataError
from bln_search.core.per_layer import ConfigurationSpace
from bln_search.data.inputs import describe_inputs
from bln_search.evaluation.batches import MiniBatch
from bln_search.evaluation.checks.independence import do_outputs_depend_on_earlier_passes
from bln_search.evaluation.tree.configuration_space import PerLayerEvaluatorOptions
from bln_search.evaluation.tree.graph.tracing import NotTraceableError
from bln_search.evaluation.tree.per_layer_evaluator import PerLayerEvaluator
from bln_search.evaluation.tree.plain_evaluator import PlainPerLayerEvaluator
from bln_search.evaluation.tree.tree_evaluator import TreePerLayerEvaluator
from bln_search.evaluation.tree.trie import Digits
from bln_search.norms.row_batching.row_tensor import Populations


def make_per_layer_evaluator(
    network: nn.Module,
    batches: Sequence[MiniBatch],
    populations: Populations,
    options: PerLayerEvaluatorOptions,
    *,
    folds: Sequence[int],
) -> PerLayerEvaluator:
    """Return a `TreePerLayerEvaluator`; where tree traversal fails, warn and return a `PlainPerLayerEvaluator`.

    Args:
        network: the network.
        batches: mini-batches on which its configurations are evaluated.
        populations: population values of each layer under each estimate.
        options: of the evaluator.
        folds: the fold of each mini-batch.

    Raises:
        ModelError: no evaluator supports the network.
        DataError: there is no mini-batch.
    """
    try:
        return _try_tree_evaluator(network, batches, populations, options, folds)
    except NotTraceableError as error:
        evaluator = PlainPerLayerEvaluator(network, batches, populations, options, folds=folds)
        evaluator.score_sums_by_batch(
            _digits_of_corner_configurations(evaluator.space)[:1], [0]
        )  # an error of the network itself comes first
        warnings.warn(
            f"{error}. Its per-layer configurations are evaluated one by one with plain forward passes, which takes "
            "longer",
            stacklevel=3,
        )
        return evaluator


def _try_tree_evaluator(
    network: nn.Module,
    batches: Sequence[MiniBatch],
    populations: Populations,
    options: PerLayerEvaluatorOptions,
    folds: Sequence[int],
) -> TreePerLayerEvaluator:
    """Return a `TreePerLayerEvaluator`; raise NotTraceableError where it fails on the first mini-batches."""
    evaluator: TreePerLayerEvaluator | None = None
    if not isinstance(batches[0][0] if batches else None, Tensor | None):
        raise NotTraceableError(
            f"mini-batches of several tensors, {describe_inputs(batches[0][0])}, cannot be evaluated layer by layer"
        )
    if batches and do_outputs_depend_on_earlier_passes(network, (batches[0][0], batches[min(1, len(batches) - 1)][0])):
        raise NotTraceableError(
            f"this {type(network).__name__} gives different outputs for the same mini-batch when it is called again, "
            "because it counts its calls, draws numbers or changes a buffer in evaluation mode"
        )
    try:
        evaluator = TreePerLayerEvaluator(network, batches, populations, options, folds=folds)
        _check_no_layer_has_moving_statistics(evaluator.space)
        evaluator.score_sums_by_batch(_digits_of_corner_configurations(evaluator.space), range(min(2, len(batches))))
    except (DataError, NotTraceableError, torch.OutOfMemoryError):
        raise
    except Exception as error:
        if evaluator is None and isinstance(error, BlnSearchError):
            raise
        raise NotTraceableError(
            f"this {type(network).__name__} cannot be evaluated layer by layer ({type(error).__name__}: {error})"
        ) from error
    return evaluator


def _check_no_layer_has_moving_statistics(space: ConfigurationSpace) -> None:
    """Raise NotTraceableError where a layer keeps source E: the tree is not evaluated in the order of the data."""
    for choice in space.choices:
        if any(configuration.is_moving for option in choice.options for configuration in option):
            raise NotTraceableError(
                f"the layer {choice.name} keeps moving statistics, so each mini-batch depends on those before it"
            )


def _digits_of_corner_configurations(space: ConfigurationSpace) -> Digits:
    """Return a few configurations that differ at the first layer and at later ones."""
    first, last = (
        np.zeros(len(space.num_options_per_choice), np.uint8),
        np.array(space.num_options_per_choice, np.uint8) - 1,
    )
    half = len(first) // 2
    mixed = [np.concatenate([head[:half], tail[half:]]) for head in (first, last) for tail in (first, last)]
    return np.stack(mixed).astype(np.uint8)
