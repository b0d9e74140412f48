"""ResNet-8 with BatchNorm for 32×32 images, and its training with plain torch."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from bln_search.models.residual import ResNet

CLASSES = 10
TRAINING_BATCH = 50
LEARNING_RATE, MOMENTUM, WEIGHT_DECAY = 0.05, 0.9, 5e-4


def train_network(inputs: Tensor, labels: Tensor, *, epochs: int, seed: int) -> nn.Module:
    """Return a network, trained by SGD with momentum and a cosine schedule; images are flipped at random.

    Args:
        inputs: Standardized images (n, 3, h, w).
        labels: Classes (n,).
        epochs: Passes over the images.
        seed: Of weights, order and flips.
    """
    torch.manual_seed(seed)
    network = ResNet(tuple(inputs.shape[1:]), CLASSES, nn.BatchNorm2d, blocks=1).to(inputs.device)
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
