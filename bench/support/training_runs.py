"""Training runs on random mini-batches."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch import Tensor, nn

from bln_search.core.enums import Split
from bln_search.data.prepared import PreparedData
from bln_search.models import build_model
from bln_search.specs import ArmSpec, TrainingSpec
from bln_search.training import TrainingRun

CLASSES = 10


def make_training_run(
    model: str,
    shape: tuple[int, ...],
    norm: Callable[[int], nn.Module],
    spec: TrainingSpec,
    arm: ArmSpec,
    *,
    batches: int = 1,
    options: Mapping[str, Any] | None = None,
    seed: int = 0,
    device: str = "cpu",
) -> TrainingRun:
    """Return a training run in training mode.

    Args:
        model: Name of the network.
        shape: Shape of an image.
        norm: Makes a normalization layer for a number of features.
        spec: How it is trained.
        arm: Its method.
        batches: Number of random mini-batches, the same ones for each seed.
        options: Options of the network.
        seed: Seed of the weights.
        device: Device of network and data.
    """
    generator = torch.Generator().manual_seed(0)
    images = torch.randn(batches * spec.batch_size, *shape, generator=generator).to(device)
    labels = torch.randint(CLASSES, (len(images),), generator=generator).to(device)
    data = PreparedData(dict.fromkeys(Split, (images, labels)), shape, CLASSES)
    network = build_model(model, shape, CLASSES, norm, seed=seed, options=dict(options or {})).to(device)
    run = TrainingRun(network, data, spec, arm, seed=seed)
    run.network.train()
    return run


def take_steps(run: TrainingRun, steps: int = 1) -> None:
    """Take optimizer steps on the whole training data, which are one mini-batch."""
    inputs, targets = run.data.splits[Split.TRAIN]
    assert isinstance(inputs, Tensor)
    for _ in range(steps):
        run.take_optimizer_step(inputs, targets)
