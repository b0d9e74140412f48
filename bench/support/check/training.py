"""Small networks with batch normalization, their data, and how they are trained."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import cache

import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torch.utils.data import DataLoader, TensorDataset

from bln_search.data import load_data_set
from bln_search.settings import load_settings


@dataclass(frozen=True)
class Data:
    """Inputs and classes of training and validation."""

    inputs: Tensor
    classes: Tensor
    validation_inputs: Tensor
    validation_classes: Tensor

    def training_loader(self, batch_size: int = 32) -> DataLoader[tuple[Tensor, ...]]:
        """Training data in a fixed order, without an incomplete mini-batch."""
        return DataLoader(TensorDataset(self.inputs, self.classes), batch_size, drop_last=True)

    def validation_loader(
        self, change: Callable[[Tensor], Tensor] | None = None, batch_size: int = 64
    ) -> DataLoader[tuple[Tensor, ...]]:
        """Validation data, with a change of the inputs."""
        inputs = self.validation_inputs if change is None else change(self.validation_inputs)
        return DataLoader(TensorDataset(inputs, self.validation_classes), batch_size)


@cache
def load(name: str, training: int, validation: int) -> Data:
    """The first examples of a data set in a random order, scaled to mean 0 and deviation 1 of the training inputs."""
    settings = load_settings()
    data = load_data_set(name, settings.data_folder, settings.cache)
    order = torch.randperm(len(data.train_inputs), generator=torch.Generator().manual_seed(0))[: training + validation]
    inputs = torch.from_numpy(data.train_inputs[order.numpy()]).float() / data.scale
    classes = torch.from_numpy(data.train_class_indices[order.numpy()]).long()
    mean, deviation = inputs[:training].mean(), inputs[:training].std()
    inputs = (inputs - mean) / deviation
    return Data(inputs[:training], classes[:training], inputs[training:], classes[training:])


def make_mlp(widths: Iterable[int] = (64, 64), inputs: int = 64, dropout: float = 0.0, **norm: float) -> nn.Sequential:
    """Linear, BatchNorm and ReLU for each width, then a linear layer for ten classes."""
    layers: list[nn.Module] = [nn.Flatten()]
    for width in widths:
        layers += [nn.Linear(inputs, width), nn.BatchNorm1d(width, **norm), nn.ReLU()]  # type: ignore[arg-type]
        layers += [nn.Dropout(dropout)] if dropout else []
        inputs = width
    return nn.Sequential(*layers, nn.Linear(inputs, 10))


def make_lenet(channels: int = 1, size: int = 28) -> nn.Sequential:
    """Two convolutions and one hidden layer, each with BatchNorm."""
    side = ((size - 4) // 2 - 4) // 2
    return nn.Sequential(
        *(nn.Conv2d(channels, 8, 5), nn.BatchNorm2d(8), nn.ReLU(), nn.MaxPool2d(2)),
        *(nn.Conv2d(8, 16, 5), nn.BatchNorm2d(16), nn.ReLU(), nn.MaxPool2d(2)),
        *(nn.Flatten(), nn.Linear(16 * side * side, 64), nn.BatchNorm1d(64), nn.ReLU(), nn.Linear(64, 10)),
    )


class Block(nn.Module):
    """Two convolutions with BatchNorm and a shortcut."""

    def __init__(self, inputs: int, outputs: int, stride: int) -> None:
        super().__init__()
        self.conv1, self.bn1 = nn.Conv2d(inputs, outputs, 3, stride, 1, bias=False), nn.BatchNorm2d(outputs)
        self.conv2, self.bn2 = nn.Conv2d(outputs, outputs, 3, 1, 1, bias=False), nn.BatchNorm2d(outputs)
        self.shortcut = nn.Sequential()
        if stride > 1:
            self.shortcut = nn.Sequential(nn.Conv2d(inputs, outputs, 1, stride, bias=False), nn.BatchNorm2d(outputs))

    def forward(self, x: Tensor) -> Tensor:
        """Outputs of the block."""
        hidden = F.relu(self.bn1(self.conv1(x)))
        return F.relu(self.bn2(self.conv2(hidden)) + self.shortcut(x))


def make_resnet8(width: int = 8) -> nn.Sequential:
    """ResNet-8 for 32 × 32 (He et al. 2016), with fewer channels."""
    return nn.Sequential(
        *(nn.Conv2d(3, width, 3, 1, 1, bias=False), nn.BatchNorm2d(width), nn.ReLU()),
        *(Block(width, width, 1), Block(width, 2 * width, 2), Block(2 * width, 4 * width, 2)),
        *(nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(4 * width, 10)),
    )


def make_resnet18(width: int = 64) -> nn.Sequential:
    """ResNet-18 for 32 × 32: a convolution, and two blocks at each of four resolutions."""
    blocks: list[nn.Module] = [nn.Conv2d(3, width, 3, 1, 1, bias=False), nn.BatchNorm2d(width), nn.ReLU()]
    inputs = width
    for outputs, stride in ((width, 1), (2 * width, 2), (4 * width, 2), (8 * width, 2)):
        blocks += [Block(inputs, outputs, stride), Block(outputs, outputs, 1)]
        inputs = outputs
    return nn.Sequential(*blocks, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(inputs, 10))


class Transformer(nn.Module):
    """A transformer over the rows of 8 × 8 images with BatchNorm in place of LayerNorm."""

    def __init__(self, width: int = 32) -> None:
        super().__init__()
        self.embed = nn.Linear(8, width)
        self.places = nn.Parameter(torch.zeros(8, width))
        self.attention = nn.MultiheadAttention(width, 4, batch_first=True)
        self.norm1, self.norm2 = nn.BatchNorm1d(width), nn.BatchNorm1d(width)
        self.hidden = nn.Sequential(nn.Linear(width, 64), nn.ReLU(), nn.Linear(64, width))
        self.classify = nn.Linear(width, 10)

    def forward(self, x: Tensor) -> Tensor:
        """Logits."""
        rows = self.embed(x.reshape(len(x), 8, 8)) + self.places
        rows = self.norm1((rows + self.attention(rows, rows, rows, need_weights=False)[0]).transpose(1, 2)).transpose(
            1, 2
        )
        rows = self.norm2((rows + self.hidden(rows)).transpose(1, 2)).transpose(1, 2)
        logits: Tensor = self.classify(rows.mean(1))
        return logits


@torch.enable_grad()
def train(
    network: nn.Module,
    data: Data,
    *,
    epochs: int,
    batch_size: int = 32,
    rate: float = 0.05,
    seed: int = 0,
    frozen_statistics: bool = False,
    is_rate_constant: bool = False,
    after_step: Callable[[], None] | None = None,
) -> nn.Module:
    """Train with SGD and momentum, and return the network in evaluation mode.

    Args:
        frozen_statistics: Layers normalize with their stored statistics, which stay.
        is_rate_constant: Keep the learning rate; otherwise it falls linearly to zero, so that statistics settle.
        after_step: Called after each step.
    """
    generator = torch.Generator().manual_seed(seed)
    optimizer = torch.optim.SGD(network.parameters(), lr=rate, momentum=0.9)
    steps = epochs * (len(data.inputs) // batch_size)
    decay = torch.optim.lr_scheduler.LinearLR(optimizer, 1.0, 1.0 if is_rate_constant else 0.0, steps)
    for _ in range(epochs):
        network.train()
        if frozen_statistics:
            for module in list_norms(network):
                module.eval()
        for rows in torch.randperm(len(data.inputs), generator=generator).split(batch_size):  # type: ignore[no-untyped-call]
            if len(rows) < batch_size:
                continue
            loss = F.cross_entropy(network(data.inputs[rows]), data.classes[rows])
            optimizer.zero_grad()
            loss.backward()  # type: ignore[no-untyped-call]
            optimizer.step()
            decay.step()
            if after_step is not None:
                after_step()
    return network.eval()


def list_norms(network: nn.Module) -> list[nn.modules.batchnorm._BatchNorm]:
    """The BatchNorm layers of a network."""
    return [module for module in network.modules() if isinstance(module, nn.modules.batchnorm._BatchNorm)]
