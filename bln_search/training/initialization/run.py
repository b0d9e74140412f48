"""The initialization of a training run: its first mini-batch, and mean and variance of its inputs."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from bln_search.core.enums import Split
from bln_search.core.errors import ModelError
from bln_search.data.input_shape import require_single_tensor_for_purpose
from bln_search.data.prepared import PreparedData
from bln_search.norms.analytic.moments import MeanVariance
from bln_search.specs.sections.initialization import ScalingStatistics
from bln_search.specs.sections.training import TrainingSpec
from bln_search.training.augmentation import Augmentation
from bln_search.training.initialization.network import scale_weights_and_set_norm_parameters
from bln_search.training.input_moments import measure_training_input_moments


def initialize_for_training_run(network: nn.Module, data: PreparedData, spec: TrainingSpec, *, seed: int) -> None:
    """Initialize `network` in place as `spec.initialization` says; without it, nothing changes.

    Args:
        network: with the weights that were drawn, on the device of `data`.
        data: prepared data set.
        spec: hyper-parameters.
        seed: of the training run.

    Raises:
        ModelError: the network cannot be initialized so; the message names the key to change.
    """
    initialization = spec.initialization
    if initialization is None:
        return
    batch, moments = get_first_training_batch_inputs(data, spec, seed), None
    if initialization.statistics is ScalingStatistics.AP2:
        moments = measure_training_input_moments(data, spec.augmentation)
    if moments is not None:
        moments = MeanVariance(*(part.to(batch.dtype) for part in moments))
    try:
        scale_weights_and_set_norm_parameters(network, batch, initialization, seed=seed, input_moments=moments)
    except ModelError as error:
        raise ModelError(f"training.initialization: {error}") from error


def get_first_training_batch_inputs(data: PreparedData, spec: TrainingSpec, seed: int) -> Tensor:
    """Return the inputs of the first mini-batch of a training run, augmented if configured."""
    generator = torch.Generator().manual_seed(seed)
    inputs = data.splits[Split.TRAIN][0]
    index = torch.randperm(len(inputs), generator=generator).to(inputs.device)[: spec.batch_size]
    if spec.augmentation is None:
        return require_single_tensor_for_purpose(inputs[index], "training.initialization")
    return Augmentation(spec.augmentation, data.input_shape, generator).read_augmented_images(inputs, index)
