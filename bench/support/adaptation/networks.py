"""ResNet-20 on CIFAR-10 for the bench of adaptation: trained once for each seed, kept in a folder."""

from __future__ import annotations

import argparse
import time
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from safetensors.torch import load_file, save_file
from torch import Tensor, nn
from torch.nn import functional as F

from bench.support.shifted_images import load_cifar10
from bln_search.data import DataSet
from bln_search.models.residual import ResNet

VALIDATION, TRAINING_BATCH, EPOCHS = 5_000, 128, 7
HIGHEST_RATE, MOMENTUM, DECAY, PADDING = 0.2, 0.9, 5e-4, 4


@dataclass(frozen=True)
class Split:
    """Training images of CIFAR-10 without those of validation, and the standardization by them.

    Attributes:
        data: The data set.
        training: Indices of the training images.
        validation: Indices of the validation images.
        mean: Of each channel, (1, 3, 1, 1).
        deviation: Of each channel, (1, 3, 1, 1).
    """

    data: DataSet
    training: NDArray[np.int64]
    validation: NDArray[np.int64]
    mean: NDArray[np.float64]
    deviation: NDArray[np.float64]

    def standardize(self, images: NDArray[np.floating]) -> Tensor:
        """Images (n, 3, 32, 32) with values from 0 to 1 as inputs of the network."""
        return torch.from_numpy(((images - self.mean) / self.deviation).astype(np.float32))


def load_split(folder: Path | None) -> Split:
    """Return CIFAR-10 with a fixed random validation set."""
    data = load_cifar10(folder)
    order = np.random.default_rng(0).permutation(len(data.train_inputs))
    training, validation = np.sort(order[VALIDATION:]), np.sort(order[:VALIDATION])
    images = data.train_inputs[training].astype(np.float64) / data.scale
    mean, deviation = (moment(axis=(0, 2, 3), keepdims=True) for moment in (images.mean, images.std))
    return Split(data, training, validation, mean, deviation)


def make_network(widths: tuple[int, ...] = (16, 32, 64), blocks: int = 3) -> nn.Module:
    """Return ResNet-20 with torch's batch normalization."""
    return ResNet((3, 32, 32), 10, nn.BatchNorm2d, widths, blocks=blocks)


def train_network(split: Split, seed: int, *, epochs: int, images: int | None = None) -> nn.Module:
    """Return a network trained by SGD with one cycle of the learning rate, random crops and flips.

    Args:
        split: The images.
        seed: Of weights, order and augmentation.
        epochs: Passes over the images.
        images: Number of training images; None for all.
    """
    torch.manual_seed(seed)
    chosen = split.training[:images]
    inputs = split.standardize(split.data.train_inputs[chosen] / split.data.scale)
    labels = torch.from_numpy(split.data.train_class_indices[chosen].copy())
    network = make_network()
    network.to(memory_format=torch.channels_last)  # type: ignore[call-overload]
    optimizer = torch.optim.SGD(network.parameters(), lr=0.1, momentum=MOMENTUM, weight_decay=DECAY, nesterov=True)
    steps = len(inputs) // TRAINING_BATCH
    schedule = torch.optim.lr_scheduler.OneCycleLR(
        optimizer, HIGHEST_RATE, total_steps=epochs * steps, pct_start=0.3, cycle_momentum=False
    )
    network.train()
    for epoch in range(epochs):
        start, total = time.perf_counter(), 0.0
        for indices in torch.split(torch.randperm(len(inputs)), TRAINING_BATCH)[:steps]:
            augmented = augment(inputs[indices]).contiguous(memory_format=torch.channels_last)
            loss = F.cross_entropy(network(augmented), labels[indices])
            optimizer.zero_grad()
            loss.backward()  # type: ignore[no-untyped-call]
            optimizer.step()
            schedule.step()
            total += loss.item()
        print(
            f"seed {seed}, epoch {epoch + 1}: loss {total / steps:.3f}, {time.perf_counter() - start:.0f} s", flush=True
        )
    return network.eval()


def augment(images: Tensor) -> Tensor:
    """Return images shifted by up to four pixels and flipped at random, each on its own."""
    n, _, height, width = images.shape
    padded = F.pad(images, (PADDING,) * 4)
    rows, columns = (torch.randint(0, 2 * PADDING + 1, (n, 1)) for _ in range(2))
    x = columns + torch.arange(width)
    x = torch.where(torch.rand(n, 1) < 0.5, x.flip(1), x)
    y = rows + torch.arange(height)
    return padded[torch.arange(n)[:, None, None], :, y[:, :, None], x[:, None, :]].permute(0, 3, 1, 2)


def load_or_train(
    folder: Path, split: Split, seed: int, *, epochs: int = EPOCHS, images: int | None = None
) -> nn.Module:
    """Return the network of a seed from its file, which is written after training."""
    path = folder / f"resnet20-{seed}-{epochs}-{images or 'all'}.safetensors"
    if not path.exists():
        network = train_network(split, seed, epochs=epochs, images=images)
        folder.mkdir(parents=True, exist_ok=True)
        partial = path.with_suffix(".partial")
        save_file({name: value.contiguous() for name, value in network.state_dict().items()}, partial)
        partial.rename(path)
    network = make_network()
    network.load_state_dict(load_file(path))
    return network.eval()


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--folder", type=Path, required=True)
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2])
    parser.add_argument("--threads", type=int, default=1)
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    for each in options.seeds:
        load_or_train(options.folder, load_split(None), each)
