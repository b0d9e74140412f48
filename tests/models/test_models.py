"""The networks: shapes, first weights, clear errors."""

from __future__ import annotations

from functools import partial

import pytest
import torch
from torch import nn

from bln_search.core.errors import ModelError
from bln_search.models import build_model
from bln_search.models.pooling import AveragePool2
from bln_search.norms import BLN, make_norm


@pytest.mark.parametrize(
    ("name", "shape", "classes"), [("lenet", (3, 32, 32), 10), ("lenet", (1, 28, 28), 7), ("mlp", (1, 8, 8), 10)]
)
def test_any_input_size_gives_one_logit_a_class(name, shape, classes):
    network = build_model(name, shape, classes, BLN, seed=0)
    assert network(torch.randn(4, *shape)).shape == (4, classes)


def test_lenet_is_the_papers():
    network = build_model("lenet", (3, 32, 32), 10, BLN, seed=0)
    layers = [type(module).__name__ for module in network.modules() if not list(module.children())]
    stage = ["Conv2d", "Tanh", "AveragePool2", "BLN"]
    assert layers == [*stage, *stage, "Flatten", *["Linear", "Tanh", "BLN"] * 2, "Linear"]
    linear = [m for m in network.modules() if isinstance(m, nn.Linear)]
    assert [(m.in_features, m.out_features) for m in linear] == [(576, 120), (120, 84), (84, 10)]


def test_the_first_weights_are_the_seeds_whatever_the_norm():
    networks = [build_model("lenet", (3, 32, 32), 10, partial(make_norm, m), seed=3) for m in ("bn", "bln")]
    for a, b in zip(*(network.parameters() for network in networks), strict=True):
        torch.testing.assert_close(a, b, rtol=0, atol=0)
    other = build_model("lenet", (3, 32, 32), 10, BLN, seed=4)
    assert not torch.equal(next(other.parameters()), next(networks[0].parameters()))


def test_dense_layers_are_orthogonal_and_biases_zero():
    network = build_model("mlp", (1, 8, 8), 10, BLN, seed=0, options={"widths": (32,)})
    dense = next(m for m in network.modules() if isinstance(m, nn.Linear))
    torch.testing.assert_close(dense.weight @ dense.weight.T, torch.eye(32), atol=1e-5, rtol=0)
    assert dense.bias.abs().max() == 0


@pytest.mark.parametrize("shape", [(2, 3, 8, 8), (1, 1, 7, 9), (1, 2, 2, 3)])
def test_pooling_is_torchs(shape):
    x = torch.randn(shape, dtype=torch.float64, requires_grad=True)
    torch.testing.assert_close(AveragePool2()(x), nn.functional.avg_pool2d(x, 2))
    assert torch.autograd.gradcheck(AveragePool2(), (x,))


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("resnet", (3, 32, 32), 10, BLN), "choose one of lenet, mlp"),
        (("lenet", (1, 8, 8), 10, BLN), "at least 12×12 pixels"),
        (("lenet", (64,), 10, BLN), "use the model `mlp`"),
    ],
)
def test_a_network_that_cannot_be_built_says_why(arguments, message):
    with pytest.raises(ModelError, match=message):
        build_model(*arguments, seed=0)
