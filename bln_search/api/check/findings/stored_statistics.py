"""Causes in the statistics that layers store."""

from __future__ import annotations

import math

import numpy as np

from bln_search.api.check.findings.making import RECALIBRATE, SMALL_BATCH, make_finding, name_layers, sentence_start
from bln_search.api.check.layers import Moments
from bln_search.api.check.observations import Observations
from bln_search.ranking.network_check import Cause, Finding, Variant
from bln_search.reports.formatting import format_loss

_INITIAL_SHARE = 0.01
"""Share of the initial values in a moving average, above which its updates are few."""

_CONSTANT_VARIANCE = 1e-10
"""Variance below which a channel is called constant, relative to the median variance of its layer."""

_STALE_DISTANCE = 0.05
"""Median distance of stored from re-estimated statistics, in deviations, that is named as evidence."""


def find_not_finite(seen: Observations) -> Finding | None:
    """Stored statistics or parameters that are NaN, infinite or negative variances."""
    layers = [name for name, layer in seen.layers.items() if not layer.stored.are_finite]
    if seen.not_finite_parameters:
        return make_finding(
            seen,
            Cause.NOT_FINITE,
            f"The parameter {seen.not_finite_parameters[0]} has values that are NaN or infinite.",
            "Load an earlier checkpoint: weights cannot be estimated again.",
            layers=layers,
            has_effect=True,
        )
    if not layers:
        return None
    channels = sum(
        int((~np.isfinite(stored.mean) | ~np.isfinite(stored.variance) | (stored.variance < 0)).sum())
        for stored in (seen.layers[name].stored for name in layers)
    )
    return make_finding(
        seen,
        Cause.NOT_FINITE,
        f"{channels} channels of {name_layers(layers)} store a mean or variance that is NaN, infinite or negative.",
        "Estimate the statistics again, and look for mini-batches with such values in training.",
        variant=seen.re_estimated_variant,
        code=RECALIBRATE,
        layers=layers,
        has_effect=True,
    )


def find_exchanged(seen: Observations) -> Finding | None:
    """Layers that store each other's statistics."""
    if not seen.exchanged:
        return None
    layers = [name for pair in seen.exchanged for name in pair]
    first, second = seen.exchanged[0]
    return make_finding(
        seen,
        Cause.EXCHANGED_STATISTICS,
        f"{first} stores the statistics that fit {second}, and the other way round.",
        "Load the state dict with its own names; a mapping of names exchanged these layers.",
        variant=Variant.EXCHANGED_STATISTICS,
        layers=layers,
    )


def find_changed_epsilon(seen: Observations) -> Finding | None:
    """Layers whose ε is not that of their class."""
    if not seen.other_epsilon or not seen.helps(Variant.DEFAULT_EPSILON):
        return None  # a network may be trained with it
    name, default = next(iter(seen.other_epsilon.items()))
    return make_finding(
        seen,
        Cause.CHANGED_EPSILON,
        f"ε is {seen.layers[name].epsilon:g} in {name_layers(list(seen.other_epsilon))}, and {default:g} by default.",
        "Use the ε of training: it is no part of the state dict, and a network that is built again may have another.",
        variant=Variant.DEFAULT_EPSILON,
        code=f"for m in model.modules():\n    if hasattr(m, 'running_var'):\n        m.eps = {default:g}",
        layers=seen.other_epsilon,
    )


def find_momentum_zero(seen: Observations) -> Finding | None:
    """Layers whose statistics never move."""
    layers = [name for name, layer in seen.layers.items() if layer.has_momentum and layer.momentum == 0]
    if not layers:
        return None
    return make_finding(
        seen,
        Cause.MOMENTUM_ZERO,
        f"The momentum of {name_layers(layers)} is 0: training does not update the statistics.",
        "Estimate the statistics again, and train with a momentum above 0.",
        variant=seen.re_estimated_variant,
        code=RECALIBRATE,
        layers=layers,
    )


def find_momentum_one(seen: Observations) -> Finding | None:
    """Layers that store the statistics of the last mini-batch."""
    layers = [name for name, layer in seen.layers.items() if layer.has_momentum and layer.momentum == 1]
    if not layers:
        return None
    return make_finding(
        seen,
        Cause.MOMENTUM_ONE,
        f"The momentum of {name_layers(layers)} is 1: training stores the statistics of the last mini-batch alone.",
        "Estimate the statistics again over the training data, and train with a smaller momentum.",
        variant=seen.re_estimated_variant,
        code=RECALIBRATE,
        layers=layers,
    )


def find_few_updates(seen: Observations) -> Finding | None:
    """Layers whose moving average still contains its initial values."""
    layers = {}
    for name, layer in seen.layers.items():
        estimated = seen.estimated.get(name)
        if layer.updates is None or not layer.has_momentum or estimated is None:
            continue
        share = 1.0 if layer.updates == 0 else _initial_share(layer.momentum, layer.updates)
        if share > _INITIAL_SHARE and _looks_like_mixture(layer.stored, estimated, share):
            layers[name] = share
    if not layers:
        return None
    name, share = max(layers.items(), key=lambda item: item[1])
    updates = seen.layers[name].updates
    return make_finding(
        seen,
        Cause.FEW_UPDATES,
        f"{sentence_start(name_layers(list(layers)))}: updated too rarely, layer {name} {updates} times. {share:.0%}"
        " of its statistics are the initial values 0 and 1. Averages of weights (EMA, SWA) without their buffers are "
        "such a case.",
        "Estimate the statistics again.",
        variant=seen.re_estimated_variant,
        code=RECALIBRATE,
        layers=layers,
    )


def find_stale(seen: Observations) -> Finding | None:
    """Statistics that do not belong to the weights: the network with statistics estimated again is better."""
    variant = seen.re_estimated_variant
    if not seen.helps(variant):
        return None
    distances = seen.distances_to_training_data
    farthest = max(distances, key=lambda name: distances[name] if math.isfinite(distances[name]) else math.inf)
    moved = [name for name, distance in distances.items() if not distance <= _STALE_DISTANCE] or [farthest]
    if seen.is_average:
        reason = "The weights are an average, and the statistics belong to none of its networks."
    elif all(layer.has_momentum and layer.momentum is None for layer in seen.layers.values()):
        reason = "They are means over all of training (momentum=None), in which the weights changed."
    else:
        reason = (
            "The weights may have changed after their last updates: by averaging (EMA, SWA), merging, fine-tuning, "
            "pruning, quantization, or a large learning rate at the end of training."
        )
    return make_finding(
        seen,
        Cause.STALE_STATISTICS,
        f"The stored statistics differ from those of the training data with the present weights in {len(moved)} of "
        f"{len(distances)} layers, most in {farthest} (median {distances[farthest]:.2f} deviations). {reason}",
        "Estimate the statistics again with the training data (as update_bn and precise BN do).",
        variant=variant,
        code=RECALIBRATE,
        layers=moved,
    )


def find_small_training_batches(seen: Observations) -> Finding | None:
    """Networks that were trained with so few examples that their statistics differ from those of the population."""
    row = seen.at_training_size
    if not 0 < seen.training_batch_size <= SMALL_BATCH:
        return None
    is_better_alike = row is not None and row.is_better(seen.margin)
    helps = is_better_alike or seen.helps(Variant.MINI_BATCH)
    return make_finding(
        seen,
        Cause.SMALL_TRAINING_BATCHES,
        f"The training data come in mini-batches of {seen.training_batch_size}. Statistics of so few examples differ "
        "from those of the population, with which no output was trained."
        + (f" With mini-batches of that size the loss is {format_loss(row.loss)}." if row and row.loss else ""),
        "Train with larger mini-batches, with gradient accumulation and frozen statistics, or with LayerNorm or "
        "GroupNorm; until then use mini-batch statistics where they are better.",
        variant=Variant.MINI_BATCH if seen.helps(Variant.MINI_BATCH) else None,
        has_effect=helps and not seen.helps(Variant.RE_ESTIMATED),
    )


def find_better_mini_batch(seen: Observations) -> Finding | None:
    """Mini-batch statistics that are better where no other cause was found."""
    if not seen.helps(Variant.MINI_BATCH):
        return None
    return make_finding(
        seen,
        Cause.MINI_BATCH_IS_BETTER,
        "The network is better with statistics of the mini-batch than with stored ones, also when these are estimated "
        "again.",
        "Use mini-batch statistics if mini-batches are as large and as mixed as these; the outputs then depend on "
        "batch-mates.",
        variant=Variant.MINI_BATCH,
        code="for m in model.modules():\n    if hasattr(m, 'running_var'):\n        m.train()",
    )


def find_constant_channels(seen: Observations) -> Finding | None:
    """Channels whose stored variance is nearly zero."""
    channels = {}
    for name, layer in seen.layers.items():
        variance = layer.stored.variance
        typical = float(np.median(variance)) if variance.size else 0.0
        count = int((variance <= _CONSTANT_VARIANCE * max(typical, 1.0)).sum()) if layer.stored.are_finite else 0
        if count:
            channels[name] = count
    if not channels:
        return None
    return make_finding(
        seen,
        Cause.CONSTANT_CHANNELS,
        f"{sum(channels.values())} channels of {name_layers(list(channels))} have a variance near zero: they are the "
        "same for every example, and a small change of their input is multiplied by up to 1/√ε.",
        "Remove these channels, or set their weights to zero, before the network is quantized or gets other data.",
        variant=Variant.RE_ESTIMATED if seen.helps(Variant.RE_ESTIMATED) else None,
        layers=channels,
        has_effect=False,
    )


def find_unused(seen: Observations) -> Finding | None:
    """Layers that neither the training nor the validation data reach."""
    reached = {*seen.re_estimated, *seen.of_validation}
    layers = [name for name in seen.layers if name not in reached]
    if not layers:
        return None
    return make_finding(
        seen,
        Cause.UNUSED_LAYERS,
        f"No mini-batch reaches {name_layers(layers)}: their statistics have no effect on these data.",
        "Nothing, unless other inputs use this branch; its statistics are then those of its last training.",
        layers=layers,
    )


def _looks_like_mixture(stored: Moments, estimated: Moments, share: float) -> bool:
    """Whether statistics are nearer to a mixture with the initial values 0 and 1 than to the estimated ones."""
    mixture = Moments((1 - share) * estimated.mean, share + (1 - share) * estimated.variance)
    return float(np.median(stored.distance_to(mixture))) < float(np.median(stored.distance_to(estimated)))


def _initial_share(momentum: float | None, updates: int) -> float:
    """Share of the initial values in a moving average; a cumulative average (None) keeps none."""
    if momentum is None or not 0 < momentum < 1:
        return 0.0
    return float((1 - momentum) ** updates)
