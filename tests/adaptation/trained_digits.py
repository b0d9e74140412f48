"""A small convolutional network, trained on the digits of scikit-learn in about a second."""

from __future__ import annotations

from functools import cache

import torch
from sklearn.datasets import load_digits
from torch import nn
from torch.nn import functional as F

import bln_search
from bln_search.core.configuration import InferenceConfiguration
from bln_search.norms.network.copying import copy_network
from bln_search.norms.network.layers import get_norms_by_name

CLASSES, TRAINING = 10, 1000


@cache
def load_digits_data():
    """Inputs (n, 1, 8, 8) and classes (n,) for training, and the others."""
    digits = load_digits()
    inputs = torch.tensor(digits.images, dtype=torch.float32)[:, None] / 8 - 0.6
    targets = torch.tensor(digits.target)
    order = torch.randperm(len(targets), generator=torch.Generator().manual_seed(0))
    inputs, targets = inputs[order], targets[order]
    return (inputs[:TRAINING], targets[:TRAINING]), (inputs[TRAINING:], targets[TRAINING:])


@cache
def _train():
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        network = nn.Sequential(
            *(nn.Conv2d(1, 8, 3, padding=1, bias=False), nn.BatchNorm2d(8), nn.ReLU()),
            *(nn.Conv2d(8, 16, 3, stride=2, padding=1, bias=False), nn.BatchNorm2d(16), nn.ReLU()),
            *(nn.Flatten(), nn.Linear(256, CLASSES)),
        )
        (inputs, targets), _ = load_digits_data()
        optimizer = torch.optim.Adam(network.parameters(), 0.01)
        for _ in range(6):
            for i in torch.randperm(TRAINING).split(50):
                optimizer.zero_grad()
                F.cross_entropy(network(inputs[i]), targets[i]).backward()
                optimizer.step()
    return bln_search.convert(network.eval(), method="same").eval()


def make_trained_network(letter="T"):
    """A copy of the network in evaluation mode, with statistics from one source."""
    network = copy_network(_train())
    for layer in get_norms_by_name(network).values():
        layer.configure(InferenceConfiguration(letter * 2 + "--"))
    return network
