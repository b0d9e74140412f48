"""Causes in the data: other preprocessing, another domain."""

from __future__ import annotations

import numpy as np

from bln_search.api.check.findings.making import make_finding
from bln_search.api.check.observations import Observations
from bln_search.ranking.network_check import Cause, Finding, Variant
from bln_search.reports.formatting import format_loss

_UNEXPLAINED_SHARE = 0.1
"""Part of the recoverable loss that another scale of the inputs may leave unexplained."""

_INPUT_DISTANCE = 0.15
"""Mean distance of the moments in the first layer, in deviations, from which inputs differ."""


def find_chance(seen: Observations) -> Finding | None:
    """Networks that predict no better than the class frequencies, whatever their statistics are."""
    losses = [row.loss for row in seen.variants.values() if row.loss is not None]
    if seen.chance is None or not losses or min(losses) < seen.chance:
        return None
    return make_finding(
        seen,
        Cause.NO_BETTER_THAN_CHANCE,
        f"No variant has a loss below {format_loss(seen.chance)}, that of a constant prediction by class frequencies.",
        "Check the weights, the order of the classes, and the labels: no statistics repair these.",
        has_effect=True,
    )


def find_other_preprocessing(seen: Observations) -> Finding | None:
    """Validation inputs with another scale or offset, which explains the loss."""
    training, validation = seen.training_inputs, seen.validation_inputs
    if training is None or validation is None or not _explains_the_loss(seen):
        return None
    means = [float(np.mean(moments.mean)) for moments in (training, validation)]
    deviations = [float(np.sqrt(np.mean(moments.variance))) for moments in (training, validation)]
    return make_finding(
        seen,
        Cause.OTHER_PREPROCESSING,
        f"Training inputs have mean {means[0]:.3f} and deviation {deviations[0]:.3f}, validation inputs {means[1]:.3f} "
        f"and {deviations[1]:.3f}.",
        "Prepare validation inputs as in training (scale to 0–1, subtract the mean, divide by the deviation).",
        variant=Variant.RESCALED_INPUTS,
    )


def find_other_domain(seen: Observations) -> Finding | None:
    """Validation inputs whose statistics in the layers differ from those of the training inputs."""
    if not seen.re_estimated or _explains_the_loss(seen) or not _do_inputs_differ(seen):
        return None
    variants = (Variant.RE_ESTIMATED_ON_TARGET, Variant.RE_ESTIMATED_ON_VALIDATION)
    variant = next((each for each in variants if _is_better_than_training_data(seen, each)), None)
    if variant is None:
        return None
    return make_finding(
        seen,
        Cause.OTHER_DOMAIN,
        "Statistics of these inputs fit them better than those of the training inputs: the data may come from "
        "another domain.",
        "Estimate the statistics from unlabelled inputs of the domain where the network is used.",
        variant=variant,
        code="model = bln_search.recalibrate(model, loader_of_that_domain)",
    )


def _is_better_than_training_data(seen: Observations, variant: Variant) -> bool:
    """Whether a variant helps, and twice as much as statistics estimated again from the training data."""
    gain = seen.gain(variant)
    return seen.helps(variant) and gain - seen.gain(Variant.RE_ESTIMATED) > max(seen.margin, 0.5 * gain)


def _explains_the_loss(seen: Observations) -> bool:
    """Whether inputs with the scale of training lose nearly all of what statistics of these inputs would recover."""
    rest = seen.gain(Variant.RE_ESTIMATED_ON_VALIDATION) - seen.gain(Variant.RESCALED_INPUTS)
    return seen.helps(Variant.RESCALED_INPUTS) and rest <= max(
        seen.margin, _UNEXPLAINED_SHARE * seen.gain(Variant.RE_ESTIMATED_ON_VALIDATION)
    )


def _do_inputs_differ(seen: Observations) -> bool:
    """Whether the inputs of the first layer that was reached have other moments than in training.

    Later layers differ by the size of mini-batches too.
    """
    first = next((name for name in seen.re_estimated if name in seen.of_validation), None)
    if first is None:
        return False
    distances = seen.of_validation[first].distance_to(seen.re_estimated[first])
    return float(np.mean(distances)) > _INPUT_DISTANCE
