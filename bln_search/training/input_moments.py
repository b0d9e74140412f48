"""Mean and variance of the training inputs, from which the method `ap2` propagates."""

from __future__ import annotations

import torch
from torch import nn

from bln_search.core.enums import Split
from bln_search.data.input_shape import require_single_tensor_for_purpose
from bln_search.data.lazy_images import LazyImages
from bln_search.data.prepared import PreparedData
from bln_search.models.analytic import set_ap2_input_moments
from bln_search.norms.analytic.layer import NormalizationFromWeights
from bln_search.norms.analytic.moments import MeanVariance
from bln_search.specs.sections.training import AugmentationSpec, TrainingSpec
from bln_search.training.augmentation import Augmentation

_MOST_EXAMPLES = 10_000


def measure_training_input_moments(
    data: PreparedData, augmentation: AugmentationSpec | None = None
) -> MeanVariance | None:
    """Return mean and variance of every input value over training examples, after augmentation.

    They are measured on up to 10,000 training examples, evenly spaced, with random numbers of their own. None for
    images that are decoded when they are read.

    Args:
        data: prepared data set.
        augmentation: of the examples; None for the examples as they are.
    """
    inputs = data.splits[Split.TRAIN][0]
    if isinstance(inputs, LazyImages):
        return None
    sample = require_single_tensor_for_purpose(
        inputs[:: -(-len(inputs) // _MOST_EXAMPLES)], "the propagation of moments"
    )
    if augmentation is not None:
        sample = Augmentation(augmentation, data.input_shape, torch.Generator().manual_seed(0))(sample)
    sample = sample.double()
    return MeanVariance(sample.mean(0), sample.var(0, correction=0))


def set_measured_input_moments(network: nn.Module, data: PreparedData, spec: TrainingSpec) -> None:
    """Give the layers of method `ap2` the measured moments of the inputs; other networks are not changed.

    Args:
        network: bound to its layers.
        data: prepared data set.
        spec: with the augmentation.
    """
    if any(isinstance(module, NormalizationFromWeights) and module.reads_input_moments for module in network.modules()):
        moments = measure_training_input_moments(data, spec.augmentation)
        if moments is not None:
            set_ap2_input_moments(network, *moments)
