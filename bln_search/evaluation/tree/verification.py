"""Comparison of per-layer losses with those of plain forward passes, one configuration at a time."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress

import numpy as np
import torch
from torch import Tensor

from bln_search.core.errors import ModelError
from bln_search.core.per_layer import ConfigurationSpace, PerLayerConfiguration
from bln_search.data.inputs import convert_to_double, require_single_tensor
from bln_search.evaluation.batches import MiniBatch
from bln_search.evaluation.checks.numerical_comparison import loss_distance_in_tolerances
from bln_search.evaluation.isolated_passes import restored_network
from bln_search.evaluation.row_evaluator import try_copy_network_and_populations_in_double
from bln_search.evaluation.scoring import score_examples
from bln_search.evaluation.tree.configuration_space import make_inference_row
from bln_search.evaluation.tree.graph.segments import SegmentedNetwork
from bln_search.evaluation.tree.per_layer_evaluator import PerLayerEvaluator
from bln_search.norms.network.layers import evaluation_mode
from bln_search.norms.row_batching.row_tensor import Populations
from bln_search.norms.statistics import select_layer_population

_DRAWN_CONFIGURATIONS = 3
_DOUBLE_TOLERANCE = 1e-8
_SINGLE_TOLERANCE = 2e-3
"""Allowed difference of losses relative to 1 + |loss|, in double precision and in single or lower precision."""


@contextmanager
def use_per_layer_configuration(
    network: SegmentedNetwork,
    configuration: PerLayerConfiguration,
    populations: Populations,
    estimate: str | None,
) -> Iterator[None]:
    """Configure each layer by `configuration` in this context."""
    saved = {layer: layer.configured_state() for layer in network.layers}
    try:
        for layer, code in zip(network.layers, configuration.configurations, strict=True):
            row = make_inference_row(code, estimate, layer.blend)
            layer.configure(code, select_layer_population(code, row.estimate, populations.get(layer, {})))
        yield
    finally:
        for layer, state in saved.items():
            layer.restore_configured_state(state)


@torch.no_grad()
def compute_plain_pass_losses_of_configuration(
    evaluator: PerLayerEvaluator, configuration: PerLayerConfiguration, batches: Iterable[MiniBatch]
) -> Tensor:
    """Return per-example losses of one configuration by plain forward passes."""
    network, options = evaluator.network, evaluator.options
    with (
        restored_network(network),
        evaluation_mode(network),
        use_per_layer_configuration(evaluator.segmented, configuration, evaluator.populations, options.estimate),
    ):
        return torch.cat([score_examples(options.score, network(x.clone())[: len(y)], y).losses for x, y in batches])


def check_sample_against_plain_passes(evaluator: PerLayerEvaluator) -> None:
    """Compare some configurations with plain forward passes of the first two mini-batches.

    Where they differ in single precision, a copy in double precision decides: rounding errors grow in a network whose
    mini-batches have almost no variance.

    Raises:
        ModelError: the losses differ in double precision too.
    """
    batches = evaluator.batches[:2]
    difference = _find_difference(
        evaluator.make_evaluator_with_same_options(evaluator.network, batches, evaluator.populations)
    )
    if difference is None:
        return
    is_double = require_single_tensor(batches[0][0]).dtype == torch.float64
    precise = (
        None if is_double else try_copy_network_and_populations_in_double(evaluator.network, evaluator.populations)
    )
    if precise is not None:
        with suppress(Exception):  # a network may fail in double precision; the single-precision difference then counts
            double_batches = [(convert_to_double(inputs), targets) for inputs, targets in batches]
            if (
                _find_difference(evaluator.make_evaluator_with_same_options(precise[0], double_batches, precise[1]))
                is None
            ):
                return
    raise ModelError(difference)


def _choose_digits_to_check(space: ConfigurationSpace) -> list[tuple[int, ...]]:
    generator = np.random.default_rng(0)
    drawn = [
        tuple(int(generator.integers(radix)) for radix in space.num_options_per_choice)
        for _ in range(_DRAWN_CONFIGURATIONS)
    ]
    ends = [tuple(0 for _ in space.num_options_per_choice), tuple(radix - 1 for radix in space.num_options_per_choice)]
    return list(dict.fromkeys([*ends, *drawn]))


def _find_difference(evaluator: PerLayerEvaluator) -> str | None:
    """Return how the evaluator's losses differ from those of plain forward passes; None where they agree."""
    digits = _choose_digits_to_check(evaluator.space)
    for row, outcomes in zip(digits, evaluator.evaluate_per_example(digits), strict=True):
        plain = compute_plain_pass_losses_of_configuration(
            evaluator, evaluator.space.configuration_of_choice_digits(row), evaluator.batches
        ).cpu()
        losses = torch.from_numpy(outcomes.losses)
        tolerance = _DOUBLE_TOLERANCE if plain.dtype == torch.float64 else _SINGLE_TOLERANCE
        if loss_distance_in_tolerances(losses, plain, tolerance) > 1:
            largest = (losses.double() - plain.double()).abs().nan_to_num(0.0, torch.inf).max()
            return (
                f"with configuration {evaluator.space.configuration_of_choice_digits(row)} losses of the tree "
                f"traversal differ from those of plain forward passes "
                f"by up to {float(largest):.3g}: a layer of this network does not treat "
                "examples independently"
            )
    return None
