"""A small residual network for 32×32 images, and its training; both with plain torch."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional as F

WIDTHS = (16, 32, 64)
CLASSES = 10
TRAINING_BATCH = 50
LEARNING_RATE, MOMENTUM, WEIGHT_DECAY = 0.05, 0.9, 5e-4


class BasicBlock(nn.Module):
    """Two 3×3 convolutions with BatchNorm and a shortcut, as He et al. 2016.

    Where channels or resolution change, the shortcut is a 1×1 convolution with BatchNorm.
    """

    def __init__(self, in_channels: int, channels: int, stride: int) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(in_channels, channels, 3, stride, padding=1, bias=False)
        self.bn1 = nn.BatchNorm2d(channels)
        self.conv2 = nn.Conv2d(channels, channels, 3, padding=1, bias=False)
        self.bn2 = nn.BatchNorm2d(channels)
        self.downsample: nn.Module = nn.Identity()
        if stride != 1 or in_channels != channels:
            convolution = nn.Conv2d(in_channels, channels, 1, stride, bias=False)
            self.downsample = nn.Sequential(convolution, nn.BatchNorm2d(channels))

    def forward(self, x: Tensor) -> Tensor:
        """Activations (n, channels, h, w) of activations (n, in_channels, h·stride, w·stride)."""
        hidden = F.relu(self.bn1(self.conv1(x)))
        return F.relu(self.bn2(self.conv2(hidden)) + self.downsample(x))


class SmallResNet(nn.Module):
    """A convolution with BatchNorm, three basic blocks of 16, 32 and 64 channels, mean over positions, linear layer."""

    def __init__(self) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(3, WIDTHS[0], 3, padding=1, bias=False)
        self.bn1 = nn.BatchNorm2d(WIDTHS[0])
        inputs = (WIDTHS[0], *WIDTHS[:-1])
        blocks = [
            BasicBlock(before, width, 1 if width == WIDTHS[0] else 2)
            for before, width in zip(inputs, WIDTHS, strict=True)
        ]
        self.blocks = nn.Sequential(*blocks)
        self.fc = nn.Linear(WIDTHS[-1], CLASSES)

    def forward(self, x: Tensor) -> Tensor:
        """Logits (n, classes) of images (n, 3, h, w)."""
        logits: Tensor = self.fc(self.blocks(F.relu(self.bn1(self.conv1(x)))).mean((2, 3)))
        return logits


def train_network(inputs: Tensor, labels: Tensor, *, epochs: int, seed: int) -> SmallResNet:
    """Return a network, trained by SGD with momentum and a cosine schedule; images are flipped at random.

    Args:
        inputs: Standardized images (n, 3, h, w).
        labels: Classes (n,).
        epochs: Passes over the images.
        seed: Of weights, order and flips.
    """
    torch.manual_seed(seed)
    network = SmallResNet().to(inputs.device)
    steps = epochs * (len(inputs) // TRAINING_BATCH)
    optimizer = torch.optim.SGD(
        network.parameters(), lr=LEARNING_RATE, momentum=MOMENTUM, weight_decay=WEIGHT_DECAY, nesterov=True
    )
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, steps)
    network.train()
    for _ in range(epochs):
        for indices in torch.split(torch.randperm(len(inputs)), TRAINING_BATCH):
            if len(indices) < TRAINING_BATCH:
                continue
            is_flipped = torch.rand(TRAINING_BATCH, 1, 1, 1).to(inputs.device) < 0.5
            images = inputs[indices]
            loss = F.cross_entropy(network(torch.where(is_flipped, images.flip(3), images)), labels[indices])
            optimizer.zero_grad()
            loss.backward()  # type: ignore[no-untyped-call]
            optimizer.step()
            schedule.step()
    return network.eval()
