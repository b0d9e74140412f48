"""Layers of other libraries keep their outputs when they are replaced."""

from __future__ import annotations

import copy
import warnings

import pytest
import torch
from torch import nn

from bln_search import BatchDependenceWarning, apply_configuration, convert, evaluate_configurations, search_layers
from bln_search.core.enums import Split
from bln_search.norms import BN, LN
from tests.norms.replacement import library_layers as library
from tests.norms.replacement.library_layers import drop_and_act

IMAGES, TOKENS, VOLUMES = (12, 6, 3, 3), (12, 5, 6), (12, 6, 2, 3, 3)
LAYERS = {
    "BatchNorm3d": (lambda: nn.BatchNorm3d(6, eps=1e-2), VOLUMES, BN),
    "BatchNorm3d without γ": (lambda: nn.BatchNorm3d(6, affine=False), VOLUMES, BN),
    "BatchNorm3d without running statistics": (lambda: nn.BatchNorm3d(6, track_running_stats=False), VOLUMES, BN),
    "SyncBatchNorm": (lambda: nn.SyncBatchNorm(6), IMAGES, BN),
    "LayerNorm over 5 axes": (lambda: nn.LayerNorm(6), (4, 2, 2, 3, 6), LN),
    "LayerNorm over 6 axes": (lambda: nn.LayerNorm(6), (4, 2, 2, 1, 3, 6), LN),
    "LayerNorm of (C, H, W)": (lambda: nn.LayerNorm(IMAGES[1:]), IMAGES, LN),
    "LayerNorm of (H, W) without γ": (lambda: nn.LayerNorm(IMAGES[2:], elementwise_affine=False), IMAGES, LN),
    "GroupNorm of one group": (lambda: nn.GroupNorm(1, 6, eps=1e-2), IMAGES, LN),
    "GroupNorm of one group, volumes": (lambda: nn.GroupNorm(1, 6), VOLUMES, LN),
    "GroupNorm of one group, (N, C, L)": (lambda: nn.GroupNorm(1, 5), TOKENS, LN),
    "GroupNorm of one group without γ": (lambda: nn.GroupNorm(1, 6, affine=False), IMAGES, LN),
    "timm BatchNormAct2d": (lambda: drop_and_act(library.BatchNormAct2d(6), act=True), IMAGES, BN),
    "timm BatchNormAct2d without act": (lambda: drop_and_act(library.BatchNormAct2d(6), act=False), IMAGES, BN),
    "timm SyncBatchNormAct": (lambda: drop_and_act(library.SyncBatchNormAct(6), act=True), IMAGES, BN),
    "timm SyncBatchNormAct without act": (lambda: library.SyncBatchNormAct(6), IMAGES, BN),
    "timm LayerNorm": (lambda: library.LayerNorm(6, eps=1e-3), TOKENS, LN),
    "timm LayerNorm2d": (lambda: library.LayerNorm2d(6), IMAGES, LN),
    "timm LayerNorm2dNoBias": (lambda: library.LayerNorm2dNoBias(6), IMAGES, LN),
    "timm LayerNormAct": (lambda: drop_and_act(library.LayerNormAct(6), act=True), TOKENS, LN),
    "timm LayerNormAct2d": (lambda: drop_and_act(library.LayerNormAct2d(6), act=True), IMAGES, LN),
    "torchvision LayerNorm2d": (lambda: library.TorchvisionLayerNorm2d(6), IMAGES, LN),
    "transformers, channels first": (lambda: library.ConvNextLayerNorm(6, "channels_first"), IMAGES, LN),
    "transformers, channels last": (lambda: library.ConvNextLayerNorm(6, "channels_last"), TOKENS, LN),
}


def make_network(name, dtype=torch.float64):
    """A network with the layer, random γ, β and running statistics, in evaluation mode; and inputs."""
    torch.manual_seed(0)
    make, shape, kind = LAYERS[name]
    layer = make()
    for value in [*layer.parameters(), *layer.buffers()]:
        if value.is_floating_point():
            value.data.uniform_(0.5, 2.0)
    network = nn.Sequential(layer, nn.Flatten(), nn.Linear(torch.Size(shape[1:]).numel(), 2)).to(dtype)
    return network.eval(), torch.randn(shape, dtype=dtype) + 1, kind


@pytest.mark.parametrize("name", LAYERS)
def test_outputs_stay_equal(name):
    network, x, kind = make_network(name)
    expected = network(x)
    converted = convert(copy.deepcopy(network), method="same", strict=True)
    (norm,) = (module for module in converted.modules() if isinstance(module, kind))
    torch.testing.assert_close(converted(x), expected, rtol=1e-12, atol=1e-12)
    assert not norm.training
    assert [parameter.requires_grad for parameter in norm.parameters()] == [
        getattr(network[0], attribute) is not None for attribute in ("weight", "bias")
    ]


@pytest.mark.parametrize("name", [name for name in LAYERS if "Sync" not in name])  # which trains on GPUs only
def test_outputs_in_training_mode_stay_equal(name):
    network, x, _ = make_network(name)
    for module in network.modules():
        module.p = 0.0  # no dropout: its order of random numbers depends on the strides of the input
    converted = convert(copy.deepcopy(network).train(), method="same")
    expected = network.train()(x)
    torch.testing.assert_close(converted(x), expected, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize(
    "name", ["BatchNorm3d", "LayerNorm of (C, H, W)", "timm BatchNormAct2d", "timm LayerNormAct2d", "timm LayerNorm2d"]
)
def test_one_pass_equals_plain_passes(name):
    network, x, _ = make_network(name)
    data = [(x[:6], torch.arange(6) % 2), (x[6:], torch.arange(6) % 2)]
    converted = convert(network, method="same")
    fused, plain = (evaluate_configurations(converted, data, data, one_pass=one_pass) for one_pass in (True, False))
    losses = [{str(row): row.row.metrics[Split.VALIDATION].loss.mean for row in ranked} for ranked in (fused, plain)]
    assert losses[0] == pytest.approx(losses[1], rel=1e-9)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16])
@pytest.mark.parametrize("name", ["timm BatchNormAct2d", "LayerNorm of (C, H, W)"])
def test_dtype_of_the_layer_is_kept(name, dtype):
    network, x, _ = make_network(name, dtype)
    expected = network(x)
    converted = convert(network, method="same")
    assert {parameter.dtype for parameter in converted.parameters()} == {dtype}
    torch.testing.assert_close(converted(x), expected, rtol=0.05, atol=0.05)


def test_layer_that_is_used_twice_stays_one_layer():
    shared = drop_and_act(library.BatchNormAct2d(6), act=True)
    converted = convert(nn.Sequential(shared, nn.Conv2d(6, 6, 1), shared).eval(), method="same")
    assert converted[0] is converted[2]


def test_shared_parameters_stay_shared():
    first, second = library.LayerNorm2d(6), library.LayerNorm2d(6)
    second.weight, second.bias = first.weight, first.bias
    converted = convert(nn.Sequential(first, second), method="same")
    assert converted[0] is not converted[1]
    assert converted[0].weight is converted[1].weight


def test_attributes_of_the_replaced_layer_can_be_read():
    layer = drop_and_act(library.BatchNormAct2d(6, eps=1e-3), act=True)
    converted = convert(nn.Sequential(layer), method="same")[0]
    assert (converted.num_features, float(converted.eps)) == (6, 1e-3)
    torch.testing.assert_close(converted.weight, layer.weight)
    assert converted.bias is converted.norm.bias
    assert converted.act is layer.act
    assert (converted.momentum, converted.affine, converted.track_running_stats) == (0.1, True, True)
    assert torch.equal(converted.running_var, layer.running_var)
    with pytest.raises(AttributeError, match="num_groups"):
        _ = converted.num_groups


def test_conversion_to_another_method_keeps_drop_and_act():
    layer = drop_and_act(library.BatchNormAct2d(6), act=True)
    converted = convert(nn.Sequential(layer), method="bln", batch_size=4).eval()
    assert (converted(torch.randn(IMAGES)) >= 0).all()
    assert not converted.state_dict()["0.norm.weight"].sub(1).any()


def test_layers_with_activation_and_merged_axes_are_searched_and_stored():
    act = drop_and_act(library.BatchNormAct2d(6), act=True)
    parts = nn.Conv2d(6, 6, 1), act, nn.LayerNorm(IMAGES[1:]), nn.Flatten(), nn.Linear(54, 2)
    network, x = nn.Sequential(*parts).eval(), torch.randn(IMAGES)
    converted = convert(copy.deepcopy(network), method="same")
    data = [(x[:6], torch.arange(6) % 2), (x[6:], torch.arange(6) % 2)]
    layered = search_layers(converted, data, data)  # a warning, if it cannot split the network, is an error here
    assert layered.best.layers == ("1.norm", "2.norm")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", BatchDependenceWarning)
        apply_configuration(converted, layered.best)
    again = convert(network, method="same")
    again.load_state_dict(converted.state_dict())
    torch.testing.assert_close(again.eval()(x), converted.eval()(x))
