"""Normalization layers of one's own, and of installed packages, can be registered."""

from __future__ import annotations

from importlib.metadata import EntryPoint

import pytest
import torch
from torch import nn

from bln_search import convert, register_norm_layer
from bln_search.core.errors import ModelError
from bln_search.core.registry import NORM_LAYER_REPLACERS
from bln_search.norms import LN
from bln_search.norms.replacement import NormWithActivation, registry


class ChannelsFirst(nn.Module):
    """Layer normalization over axis 1 with a gain, then tanh, under names of its own."""

    def __init__(self, width):
        super().__init__()
        self.width, self.gain, self.small = width, nn.Parameter(torch.rand(width)), 1e-3

    def forward(self, x):
        mean, variance = x.mean(1, keepdim=True), x.var(1, keepdim=True, unbiased=False)
        return torch.tanh((x - mean) / torch.sqrt(variance + self.small) * self.gain.view(-1, 1, 1))


class AnotherName(ChannelsFirst):
    """A subclass with the same forward pass."""


class Doubled(ChannelsFirst):
    """A subclass with another one."""

    def forward(self, x):
        return 2 * super().forward(x)


def replace_channels_first(layer, factory):
    if layer.width == 1:
        raise ModelError("one channel is always zero")
    norm = factory.make("ln", layer.width, epsilon=layer.small, weight=layer.gain, bias=None, feature_axis=1)
    return NormWithActivation(norm, act=nn.Tanh())


PATH = f"{__name__}.ChannelsFirst"


@pytest.fixture(autouse=True)
def registered(monkeypatch):
    """An empty registry for each test."""
    monkeypatch.setattr(registry, "_REGISTERED", {})
    return registry._REGISTERED


@pytest.fixture(params=["class", "path", "plugin"])
def known(request, monkeypatch):
    """The layer, registered in each way."""
    if request.param == "plugin":
        point = EntryPoint(PATH, f"{__name__}:replace_channels_first", "bln_search.norm_layers")
        monkeypatch.setitem(NORM_LAYER_REPLACERS.plugins, PATH, point)
    else:
        register_norm_layer(ChannelsFirst if request.param == "class" else PATH, replace_channels_first)


@pytest.mark.usefixtures("known")
@pytest.mark.parametrize("kind", [ChannelsFirst, AnotherName])
def test_registered_layer_keeps_its_outputs(kind):
    network, x = nn.Sequential(kind(4)).double(), torch.randn(5, 4, 3, 3, dtype=torch.float64)
    expected = network(x)
    converted = convert(network, method="same", strict=True)
    assert isinstance(converted[0].norm, LN)
    assert not converted[0].norm.bias.requires_grad
    torch.testing.assert_close(converted(x), expected, rtol=1e-12, atol=1e-12)


@pytest.mark.usefixtures("known")
@pytest.mark.parametrize(
    ("layer", "reason"), [(Doubled(4), "its forward pass is not"), (ChannelsFirst(1), "one chann")]
)
def test_reason_is_given_for_a_layer_that_cannot_be_replaced(layer, reason):
    network = nn.Sequential(nn.LayerNorm(4), layer)
    with pytest.raises(ModelError, match=f"layer 1 is a .*: {reason}"):
        convert(network, method="same", strict=True)
    assert isinstance(network[0], nn.LayerNorm), "untouched"
    with pytest.warns(UserWarning, match=f"stay as they are: 1 × .* \\({reason}"):
        convert(network, method="same")


def fail(layer, factory):
    raise RuntimeError("wrong width")


@pytest.mark.parametrize(
    ("function", "message"),
    [
        (fail, "registered for .*ChannelsFirst failed: RuntimeError: wrong width"),
        (lambda layer, factory: nn.Identity(), "ChannelsFirst returned Identity: it must return a layer of its"),
        (lambda layer, factory: None, "ChannelsFirst returned NoneType: it must return a layer of its"),
    ],
)
def test_wrong_function_is_an_error_that_changes_nothing(function, message):
    register_norm_layer(ChannelsFirst, function)
    network = nn.Sequential(nn.LayerNorm(4), ChannelsFirst(4))
    with pytest.raises(ModelError, match=message):
        convert(network, method="same")
    assert isinstance(network[0], nn.LayerNorm)


def test_plugin_that_cannot_be_loaded_is_an_error(monkeypatch):
    point = EntryPoint(PATH, "missing_package:replace", "bln_search.norm_layers")
    monkeypatch.setitem(NORM_LAYER_REPLACERS.plugins, PATH, point)
    with pytest.raises(ModelError, match=r"registered for .*ChannelsFirst failed: ModuleNotFoundError"):
        convert(nn.Sequential(ChannelsFirst(4)), method="same")


@pytest.mark.parametrize(
    ("layer_class", "function", "message"),
    [
        (nn.BatchNorm2d, replace_channels_first, r"convert replaces torch\.nn\.BatchNorm2d without registration"),
        ("timm.layers.norm.LayerNorm", replace_channels_first, r"convert replaces timm\.layers\.norm\.LayerNorm"),
        (nn.Linear(2, 2), replace_channels_first, "takes a class of modules or its path"),
        ("ChannelsFirst", replace_channels_first, "takes a class of modules or its path"),
        (int, replace_channels_first, "takes a class of modules or its path"),
        (ChannelsFirst, "bn", "is not a function of a layer and a NormFactory: 'bn'"),
    ],
)
def test_wrong_registration_is_an_error(layer_class, function, message):
    with pytest.raises(ModelError, match=message):
        register_norm_layer(layer_class, function)


def test_last_registration_of_a_class_counts():
    register_norm_layer(ChannelsFirst, fail)
    register_norm_layer(ChannelsFirst, replace_channels_first)
    assert isinstance(convert(nn.Sequential(ChannelsFirst(4)), method="same")[0], NormWithActivation)
