"""A layer counts as called where the network calls its `forward`, which skips hooks."""

from __future__ import annotations

import copy

import pytest
import torch
from torch import nn

import bln_search
from bln_search.norms import make_norm
from bln_search.norms.network.layer_calls import collect_called_layers

pytestmark = pytest.mark.filterwarnings("ignore:no mini-batch of")
CALLS = {
    "by the operator": lambda norm, x: norm(x),
    "by the method": lambda norm, x: norm.forward(x),
    "by the class": lambda norm, x: type(norm).forward(norm, x),
}


class Choosing(nn.Module):
    """Chooses one of two layers by the size of the inputs."""

    def __init__(self, norms, call):
        super().__init__()
        self.first, self.norms, self.last = nn.Linear(6, 8), nn.ModuleList(norms), nn.Linear(8, 3)
        self.call = call

    def forward(self, x):
        norm = self.norms[1 if x[:, 0].mean() > 5 else 0]
        return self.last(self.call(norm, self.first(x)))


def make_network(call, make=nn.BatchNorm1d, **options):
    torch.manual_seed(0)
    return Choosing([make(8, **options), make(8, **options)], CALLS[call]).eval()


SMALL = [(torch.randn(10, 6), torch.randint(0, 3, (10,))) for _ in range(4)]
LARGE = [(x + 9, y) for x, y in SMALL]


@pytest.mark.parametrize("call", CALLS)
@pytest.mark.parametrize("one_pass", [True, False])
def test_rows_are_undefined_where_a_layer_has_no_population(call, one_pass):
    network = bln_search.convert(make_network(call), method="same")
    ranked = bln_search.evaluate_configurations(network, SMALL, LARGE, one_pass=one_pass)
    undefined = {str(row) for row in ranked if "validation" not in row.row.metrics}
    assert undefined == {"TT-- (frozen)", "TF-- (frozen)", "FT-- (frozen)"}


METHODS = ("bn", "ln", "bln", "mbn", "brn", "none")
DTYPES = (torch.float16, torch.bfloat16, torch.float32)


@pytest.mark.parametrize(
    ("call", "method", "dtype", "training"),
    [
        (call, method, DTYPES[(i + j) % 3], (i + j) % 2 == 0)
        for i, method in enumerate(METHODS)
        for j, call in enumerate(CALLS)
    ],
)
def test_every_layer_is_seen_but_no_copy(call, method, dtype, training):
    network = make_network(call, lambda d: make_norm(method, d, batch_size=10)).to(dtype).train(training)
    small, large = SMALL[0][0].to(dtype), LARGE[0][0].to(dtype)
    with collect_called_layers(network.norms) as called, collect_called_layers(network.norms[1:]) as second:
        copy.deepcopy(network)(small)
        assert not called
        network(large)
        network(small)
        network(large)
    network(small)
    assert list(called) == [network.norms[1], network.norms[0]]
    assert list(second) == [network.norms[1]]
    assert all("observe_call" not in vars(layer) for layer in network.norms)


@pytest.mark.parametrize("call", CALLS)
def test_per_layer_search_has_the_layers(call):
    network = bln_search.convert(make_network(call), method="same")
    with pytest.warns(UserWarning, match="one by one"):
        layered = bln_search.search_layers(network, [*SMALL, *LARGE], [*SMALL, *LARGE])
    assert layered.best.layers == ("norms.0", "norms.1")
