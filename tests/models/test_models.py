"""The networks: shapes, initial weights, errors."""

from __future__ import annotations

from functools import partial

import pytest
import torch
from torch import nn

from bln_search.core.errors import ModelError
from bln_search.evaluation.timing import count_parameters
from bln_search.models import build_model
from bln_search.models.pooling import AveragePool2
from bln_search.models.residual import ResidualBlock
from bln_search.norms import BLN, BN, Normalization, make_norm
from tests.support.tiers import thinned


@pytest.mark.parametrize(
    ("name", "shape", "classes"),
    thinned(
        [
            ("lenet", (3, 32, 32), 10),
            ("lenet", (1, 28, 28), 7),
            ("mlp", (1, 8, 8), 10),
            ("resnet8", (1, 8, 8), 10),
            ("resnet20", (3, 33, 31), 7),
            ("resnet56", (3, 32, 32), 10),
            ("vgg16", (3, 32, 32), 10),
            ("nin", (3, 32, 32), 10),
        ],
        2,
    ),
)
def test_any_input_size_gives_one_logit_for_each_class(name, shape, classes):
    network = build_model(name, shape, classes, BLN, seed=0)
    assert network(torch.randn(4, *shape)).shape == (4, classes)


@pytest.mark.parametrize(
    ("options", "stage"),
    [
        ({}, ["Linear", "Tanh", "BLN"]),
        ({"activation": "relu"}, ["Linear", "ReLU", "BLN"]),
        ({"placement": "before"}, ["Linear", "BLN", "Tanh"]),
        ({"activation": "logistic"}, ["Linear", "Sigmoid", "BLN"]),
        ({"activation": "sloped_relu"}, ["Linear", "SlopedReLU", "BLN"]),
        ({"activation": "relu", "placement": "before"}, ["Linear", "BLN", "ReLU"]),
    ],
)
def test_an_mlp_has_norms_after_or_before_its_nonlinearity(options, stage):
    network = build_model("mlp", (1, 28, 28), 10, BLN, seed=0, options={"widths": [20, 30], **options})
    layers = [type(module).__name__ for module in network.modules() if not list(module.children())]
    assert layers == ["Flatten", *stage, *stage, "Linear"]
    hidden = [module for module in network.modules() if isinstance(module, nn.Linear)][:-1]
    assert all((module.bias is None) == (options.get("placement") == "before") for module in hidden)


@pytest.mark.parametrize("options", [{"activation": "sine"}, {"placement": "beside"}])
def test_unknown_mlp_options_are_an_error(options):
    with pytest.raises(ModelError, match=next(iter(options.values()))):
        build_model("mlp", (8,), 3, BLN, seed=0, options=options)


def test_lenet_has_the_layers_of_the_paper():
    network = build_model("lenet", (3, 32, 32), 10, BLN, seed=0)
    layers = [type(module).__name__ for module in network.modules() if not list(module.children())]
    stage = ["Conv2d", "Tanh", "AveragePool2", "BLN"]
    assert layers == [*stage, *stage, "Flatten", *["Linear", "Tanh", "BLN"] * 2, "Linear"]
    dense = [module for module in network.modules() if isinstance(module, nn.Linear)]
    assert [(layer.in_features, layer.out_features) for layer in dense] == [(576, 120), (120, 84), (84, 10)]


@pytest.mark.parametrize(("name", "layers", "weights"), [("resnet20", 20, 270_896), ("resnet56", 56, 851_504)])
def test_a_resnet_has_the_published_depth_and_size(name, layers, weights):
    """0.27 and 0.85 million (He et al. 2016, Table 6): convolutions, dense layer and γ, β of every norm."""
    network = build_model(name, (3, 32, 32), 10, partial(make_norm, "bn"), seed=0)
    weighted = [module for module in network.modules() if isinstance(module, nn.Conv2d | nn.Linear)]
    norms = [module for module in network.modules() if isinstance(module, Normalization)]
    assert len(weighted) == layers
    assert len(norms) == layers - 1
    norms_size = 2 * sum(norm.num_features for norm in norms)
    assert sum(count_parameters(layer) for layer in weighted) + norms_size == count_parameters(network)
    assert round(count_parameters(network), -2) == pytest.approx(weights, rel=0.01)


def test_a_shortcut_takes_every_second_pixel_without_weights():
    block = ResidualBlock(2, 3, 2, lambda _: nn.Identity())
    for parameter in block.parameters():
        nn.init.zeros_(parameter)
    x = torch.rand(1, 2, 4, 4)
    assert torch.equal(block(x)[:, :2], x[:, :, ::2, ::2])
    assert block(x)[:, 2].abs().max() == 0


@pytest.mark.parametrize(("name", "norms"), [("vgg16", 15), ("nin", 8)])
def test_plain_networks_have_a_norm_for_every_hidden_layer(name, norms):
    network = build_model(name, (3, 32, 32), 10, partial(make_norm, "mbn"), seed=0)
    assert sum(isinstance(module, Normalization) for module in network.modules()) == norms


def test_vgg_without_dense_norms_normalizes_its_convolutions_only():
    networks = [
        build_model("vgg16", (3, 32, 32), 10, BLN, seed=0, options=options) for options in ({}, {"dense_norms": False})
    ]
    layers = [type(module).__name__ for module in networks[1].modules() if not list(module.children())]
    assert layers.count("BLN") == layers.count("Conv2d") == 13
    assert layers[-6:] == ["Flatten", "Linear", "ReLU", "Linear", "ReLU", "Linear"]
    dense = [module for module in networks[1].modules() if isinstance(module, nn.Linear)]
    assert all(layer.bias is not None for layer in dense)
    for first, second in zip(*(network.features.parameters() for network in networks), strict=True):
        assert torch.equal(first, second)


def test_relu_networks_start_with_variance_two_over_fan():
    network = build_model("vgg16", (3, 32, 32), 10, BLN, seed=0)
    convolution = [module for module in network.modules() if isinstance(module, nn.Conv2d)][-1]
    assert convolution.weight.var().item() == pytest.approx(2 / (512 * 9), rel=0.01)


def test_initial_weights_depend_on_the_seed_not_on_the_norm():
    networks = [build_model("lenet", (3, 32, 32), 10, partial(make_norm, method), seed=3) for method in ("bn", "bln")]
    for bn_parameter, bln_parameter in zip(*(network.parameters() for network in networks), strict=True):
        torch.testing.assert_close(bn_parameter, bln_parameter, rtol=0, atol=0)
    other_network = build_model("lenet", (3, 32, 32), 10, BLN, seed=4)
    assert not torch.equal(next(other_network.parameters()), next(networks[0].parameters()))


def test_dense_layers_are_orthogonal_and_biases_zero():
    network = build_model("mlp", (1, 8, 8), 10, BLN, seed=0, options={"widths": (32,)})
    dense = next(module for module in network.modules() if isinstance(module, nn.Linear))
    torch.testing.assert_close(dense.weight @ dense.weight.T, torch.eye(32), atol=1e-5, rtol=0)
    assert dense.bias.abs().max() == 0


@pytest.mark.parametrize("shape", [(2, 3, 8, 8), (1, 1, 7, 9), (1, 2, 2, 3)])
def test_pooling_equals_torchs(shape):
    x = torch.randn(shape, dtype=torch.float64, requires_grad=True)
    torch.testing.assert_close(AveragePool2()(x), nn.functional.avg_pool2d(x, 2))
    assert torch.autograd.gradcheck(AveragePool2(), (x,))


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("resnet", (3, 32, 32), 10, BLN), "there is no model 'resnet'; choose one of "),
        (("resnet20", (64,), 10, BLN), "4×4 pixels"),
        (("vgg16", (3, 28, 28), 10, BLN), "32×32 pixels"),
        (("nin", (1, 4, 4), 10, BLN), "8×8 pixels"),
        (("lenet", (1, 8, 8), 10, BLN), "12×12 pixels"),
        (("lenet", (64,), 10, BLN), "model `mlp`"),
    ],
)
def test_an_impossible_network_is_an_error(arguments, message):
    with pytest.raises(ModelError, match=message):
        build_model(*arguments, seed=0)


def test_an_mlp_normalizes_its_logits_if_asked():
    options = {"widths": [12], "placement": "before", "output_norm": True}
    network = build_model("mlp", (1, 8, 8), 10, partial(make_norm, "bn"), seed=3, options=options)
    *_, linear, norm = network.layers
    assert isinstance(norm, BN)
    assert norm.num_features == 10
    assert linear.bias is None
    x = torch.randn(32, 1, 8, 8)
    torch.testing.assert_close(network(x).mean(0), torch.zeros(10), rtol=0, atol=1e-5)
    without = build_model(
        "mlp", (1, 8, 8), 10, partial(make_norm, "bn"), seed=3, options={**options, "output_norm": False}
    )
    assert torch.equal(without.layers[-1].weight, linear.weight), "the same first weights"
    plain = build_model("mlp", (1, 8, 8), 10, partial(make_norm, "none"), seed=3, options=options)
    torch.testing.assert_close(
        plain.eval()(x),
        build_model("mlp", (1, 8, 8), 10, partial(make_norm, "none"), seed=3, options={"widths": [12]}).eval()(x),
    )
