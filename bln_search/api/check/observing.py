"""Collects what a check observed beside the losses of variants."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from torch import nn

from bln_search.api.check.dependence import measure_dependence
from bln_search.api.check.layers import find_layers_without_statistics, find_statistics_layers, read_layers
from bln_search.api.check.observations import Observations
from bln_search.api.check.variants import VariantMeasurements
from bln_search.api.check.wrappers import unwrap_network
from bln_search.core.errors import ModelError
from bln_search.evaluation.class_counts import ClassCounter
from bln_search.ranking.network_check import CheckedVariant, Variant
from bln_search.tasks.cross_entropy import cross_entropy_and_correctness

_ROUNDING = 1e-6
"""Median distance of the statistics of copies, in deviations, up to which they are equal."""


def observe(
    variants: VariantMeasurements,
    rows: Sequence[CheckedVariant],
    network: nn.Module,
    copies: Sequence[nn.Module],
    margin: float,
    *,
    is_average: bool,
) -> Observations:
    """What a check observed, from its measured variants and the network as it was given."""
    training, size = variants.training, variants.measured.batch_size
    at_training_size = 0 if training is None else training.batch_size
    depends, dependence = measure_dependence(variants)
    return Observations(
        layers=variants.readings,
        variants={row.variant: row for row in rows if row.batch_size == size},
        re_estimated={} if training is None else training.moments,
        of_validation=variants.of_validation,
        training_inputs=None if training is None else training.inputs.moments,
        validation_inputs=variants.validation_inputs.moments,
        training_batch_size=at_training_size,
        margin=margin,
        at_training_size=next(
            (row for row in rows if row.variant is Variant.MINI_BATCH and row.batch_size == at_training_size), None
        ),
        exchanged=variants.exchanged,
        other_epsilon=variants.other_epsilon,
        is_training=network.training,
        modules_in_training_mode=() if network.training else _list_other_modules_in_training_mode(network),
        layers_without_statistics=tuple(find_layers_without_statistics(network)),
        not_finite_parameters=tuple(
            name for name, values in network.named_parameters() if not bool(values.detach().isfinite().all())
        ),
        is_random=variants.is_random,
        keeps_state=variants.keeps_state,
        is_average=is_average,
        depends_on_batch=depends,
        dependence=dependence,
        chance=_compute_chance_loss(variants),
        copies=_find_layers_with_other_statistics(variants, copies),
    )


def _compute_chance_loss(variants: VariantMeasurements) -> float | None:
    """The cross-entropy of a constant prediction by class frequencies; None for another score."""
    if variants.measured.score is not cross_entropy_and_correctness:
        return None
    counter = ClassCounter()
    for _ in counter.iter_batches_and_count_targets(variants.measured.batches):
        pass
    baseline = counter.class_prior_baseline
    return None if baseline is None else baseline.loss


def check_copies(network: nn.Module, copies: Sequence[nn.Module]) -> None:
    """Raise ModelError unless these are networks with the layers and weights of `network`."""
    if isinstance(copies, nn.Module) or not all(isinstance(each, nn.Module) for each in copies):
        raise ModelError("copies is a list of networks, as those of other processes")
    own = dict(network.named_parameters())
    shapes = {name: values.shape for name, values in network.named_buffers()}
    for position, each in enumerate(copies):
        inner = unwrap_network(each)[0]
        others = dict(inner.named_parameters())
        if others.keys() != own.keys() or {name: x.shape for name, x in inner.named_buffers()} != shapes:
            raise ModelError(f"copies[{position}] has other layers than the network: give copies of it")
        if any(
            values.shape != own[name].shape or not torch.equal(values, own[name]) for name, values in others.items()
        ):
            raise ModelError(f"copies[{position}] has other weights than the network: give copies with equal weights")


def _list_other_modules_in_training_mode(network: nn.Module) -> tuple[tuple[str, str], ...]:
    """Names and classes of modules without parts in training mode, other than layers with statistics."""
    layers = find_statistics_layers(network)
    return tuple(
        (name, type(module).__name__)
        for name, module in network.named_modules()
        if module.training and name not in layers and not any(True for _ in module.children())
    )


def _find_layers_with_other_statistics(
    variants: VariantMeasurements, copies: Sequence[nn.Module]
) -> tuple[tuple[str, float], ...]:
    """Layers of which copies have other statistics, with the largest median distance."""
    distances: dict[str, float] = {}
    for each in copies:
        others = read_layers(find_statistics_layers(unwrap_network(each)[0]))
        for name, reading in others.items():
            distance = float(np.median(reading.stored.distance_to(variants.readings[name].stored)))
            distances[name] = max(distance, distances.get(name, 0.0))
    return tuple((name, distance) for name, distance in distances.items() if not distance <= _ROUNDING)
