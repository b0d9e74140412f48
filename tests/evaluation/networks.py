"""Networks of many kinds with normalization layers, to compare the one pass with plain forward passes."""

from __future__ import annotations

import torch
from torch import nn
from torch.nn import functional as F

from bln_search.models import MLP, LeNet


class Residual(nn.Module):
    """Skips around the first normalization layer and around later ones."""

    def __init__(self, norm):
        super().__init__()
        self.stem = nn.Conv2d(3, 8, 3, padding=1)
        self.first = nn.Sequential(norm(8), nn.ReLU(), nn.Conv2d(8, 8, 3, padding=1))
        self.second = nn.Sequential(norm(8), nn.ReLU(), nn.Conv2d(8, 8, 3, padding=1))
        self.head = nn.Linear(8, 10)

    def forward(self, x):
        x = self.stem(x)
        x = x + self.first(x)
        x = x + self.second(x)
        return self.head(x.mean((2, 3)))


class InPlace(Residual):
    """`Residual` with in-place operations."""

    def forward(self, x):
        x = self.stem(x)
        y = self.first(x)
        y += x
        y = F.relu_(y)
        second = self.second(y)
        second += y
        return self.head(second.mean((2, 3)))


class Concatenating(nn.Module):
    """Concatenates values from before and after the first normalization layer."""

    def __init__(self, norm):
        super().__init__()
        self.stem = nn.Conv2d(3, 4, 3, stride=2)
        self.norm = norm(4)
        self.mix = nn.Conv2d(8, 4, 1)
        self.head = nn.Linear(4, 10)

    def forward(self, x):
        x = self.stem(x)
        x = self.mix(torch.cat([x, self.norm(x)], dim=1))
        return self.head(torch.stack([x, x]).mean(0).amax((2, 3)))


class Convolutions(nn.Module):
    """Every kind of convolution directly after a normalization layer."""

    def __init__(self, norm):
        super().__init__()
        self.norms = nn.ModuleList([norm(4) for _ in range(4)])
        self.stem = nn.Conv2d(3, 4, 1)
        self.padded = nn.Conv2d(4, 4, 3, padding=2, stride=2, dilation=2, bias=False)
        self.grouped = nn.Conv2d(4, 4, 3, groups=2, padding="same")
        self.circular = nn.Conv2d(4, 4, 3, padding=1, padding_mode="circular")
        self.last = nn.Identity()
        self.head = nn.Linear(4, 10)

    def forward(self, x):
        x = self.stem(x)
        for norm, layer in zip(self.norms, (self.padded, self.grouped, self.circular, self.last), strict=True):
            x = layer(norm(x))
        return self.head(x.mean((2, 3)))


class FirstGrouped(nn.Module):
    """The layer `first` follows the first normalization layer; it may be applicable term by term or not."""

    def __init__(self, norm, first):
        super().__init__()
        self.stem, self.norm, self.first = nn.Conv2d(3, 4, 1), norm(4), first

    def forward(self, x):
        return self.first(self.norm(self.stem(x))).flatten(1)[:, :10]


class Transformer(nn.Module):
    """Attention over positions, normalization before each part, (N, T, D)."""

    def __init__(self, norm):
        super().__init__()
        self.embed = nn.Linear(3, 8)
        self.position = nn.Parameter(torch.randn(16, 8))
        self.first, self.second = norm(8), norm(8)
        self.query, self.key, self.value = nn.Linear(8, 8), nn.Linear(8, 8), nn.Linear(8, 8)
        self.mlp = nn.Sequential(nn.Linear(8, 16), nn.GELU(), nn.Linear(16, 8))
        self.head = nn.Linear(8, 10)

    def forward(self, x):
        x = self.embed(x.flatten(2).transpose(1, 2)[:, :16]) + self.position
        y = self.first(x)
        x = x + F.scaled_dot_product_attention(self.query(y), self.key(y), self.value(y))
        x = x + self.mlp(self.second(x))
        return self.head(x[:, 0])


class Shared(nn.Module):
    """Calls one normalization layer twice, and one directly after another."""

    def __init__(self, norm):
        super().__init__()
        self.stem = nn.Linear(3 * 8 * 8, 12)
        self.norm, self.other = norm(12), norm(12)
        self.middle = nn.Linear(12, 12)
        self.head = nn.Linear(12, 10)

    def forward(self, x):
        x = self.norm(torch.tanh(self.stem(x.flatten(1))))
        x = self.other(self.norm(torch.tanh(self.middle(x))))
        return self.head(x)


class Dropping(nn.Module):
    """Dropout and a torch BatchNorm in evaluation mode, chunk and split, a dictionary of intermediate values."""

    def __init__(self, norm):
        super().__init__()
        self.stem = nn.Sequential(nn.Conv2d(3, 8, 3), nn.BatchNorm2d(8), nn.Dropout(0.5))
        self.norm = norm(8)
        self.head = nn.Linear(8, 10)

    def forward(self, x):
        parts = {"a": self.norm(self.stem(x))}
        first_half, second_half = parts["a"].chunk(2, dim=1)
        best = torch.max(torch.cat([second_half, first_half], 1).flatten(2), dim=2).values
        return self.head(torch.where(best > 0, best, 0.1 * best))


NETWORKS = {
    "lenet": lambda norm: LeNet((3, 12, 12), 10, norm),
    "mlp": lambda norm: MLP((3, 8, 8), 10, norm, widths=(12, 7)),
    "residual": Residual,
    "in place": InPlace,
    "concatenating": Concatenating,
    "convolutions": Convolutions,
    "grouped first": lambda norm: FirstGrouped(norm, nn.Conv2d(4, 4, 3, groups=2)),
    "same padding first": lambda norm: FirstGrouped(norm, nn.Conv2d(4, 4, 3, padding="same")),
    "flatten and linear first": lambda norm: FirstGrouped(
        norm, nn.Sequential(nn.Flatten(), nn.Linear(4 * 8 * 8, 10, bias=False))
    ),
    "linear over positions first": lambda norm: FirstGrouped(norm, nn.Linear(8, 5)),
    "partly flattened first": lambda norm: FirstGrouped(norm, nn.Sequential(nn.Flatten(2), nn.Linear(64, 5))),
    "nonlinearity first": lambda norm: FirstGrouped(norm, nn.Tanh()),
    "transformer": Transformer,
    "shared": Shared,
    "dropping": Dropping,
}


def input_size(name):
    """Return the height and width of the images that a network takes."""
    return 12 if name == "lenet" else 8
