"""Recurrent networks compute the same on GPU and CPU. Skipped where there is no GPU."""

from __future__ import annotations

import pytest
import torch
from torch.nn import functional as F

from bln_search.models import build_model
from bln_search.models.recurrent import LSTM
from bln_search.norms import BLN
from bln_search.training.seeding import reproducible_torch
from bln_search.training.sparse_adam import SparseRowAdam

pytestmark = pytest.mark.skipif(not torch.cuda.is_available(), reason="there is no GPU")


def test_an_lstm_and_its_gradients_equal_those_on_cpu():
    results = []
    for device in ("cpu", "cuda"):
        torch.manual_seed(0)
        layer, x = LSTM(5, 7).double(), torch.randn(4, 6, 5, dtype=torch.float64)
        layer, x = layer.to(device), x.to(device)
        hidden = layer(x)
        hidden.square().sum().backward()
        results.append([hidden.detach().cpu(), *(parameter.grad.cpu() for parameter in layer.parameters())])
    for on_cpu, on_gpu in zip(*results, strict=True):
        torch.testing.assert_close(on_gpu, on_cpu, rtol=0, atol=1e-10)


def train_parameters(device):
    with reproducible_torch(0, threads=1):
        generator = torch.Generator().manual_seed(0)
        network = build_model("lstm", (6,), 2, BLN, seed=0, vocabulary=200, options={"widths": [8], "embedding": 4})
        network = network.to(device).train()
        optimizer = SparseRowAdam(network, 0.01)
        for _ in range(90):
            x = torch.randint(0, 200, (5, 6), generator=generator).to(device)
            optimizer.zero_grad()
            F.cross_entropy(network(x), x[:, 0] % 2).backward()
            optimizer.step()
    return [parameter.detach().cpu() for parameter in network.parameters()]


def test_the_same_seed_trains_the_same_network_twice():
    for first, second in zip(train_parameters("cuda"), train_parameters("cuda"), strict=True):
        assert torch.equal(first, second)
