"""`convert(method="same")` keeps what a layer has besides its forward pass."""

from __future__ import annotations

import copy
import pickle
from types import MethodType

import pytest
import torch
from torch import nn
from torch.nn.utils import parametrize, prune
from torch.optim.swa_utils import AveragedModel, update_bn

import bln_search
from bln_search.core.errors import ModelError
from bln_search.norms import Normalization

NORMS = {
    "batch norm": (lambda: nn.BatchNorm1d(8, momentum=0.3), (6, 8)),
    "batch norm without parameters": (lambda: nn.BatchNorm1d(8, affine=False, momentum=None), (6, 8)),
    "batch norm without statistics": (lambda: nn.BatchNorm1d(8, track_running_stats=False), (6, 8)),
    "batch norm of images": (lambda: nn.BatchNorm2d(8), (6, 8, 3, 3)),
    "instance norm": (lambda: nn.InstanceNorm2d(8, affine=True, track_running_stats=True), (6, 8, 3, 3)),
    "layer norm": (lambda: nn.LayerNorm(8), (6, 8)),
    "layer norm without bias": (lambda: nn.LayerNorm(8, bias=False), (6, 8)),
    "layer norm over several axes": (lambda: nn.LayerNorm([8, 3, 3]), (6, 8, 3, 3)),
    "group norm": (lambda: nn.GroupNorm(1, 8), (6, 8, 3, 3)),
}
READABLE = (
    *("num_features", "normalized_shape", "num_groups", "num_channels", "eps", "momentum", "affine"),
    *("elementwise_affine", "track_running_stats", "running_mean", "running_var", "num_batches_tracked"),
)


def make_layers(name):
    """Return a layer after two training steps, its conversion, and the shape of its inputs."""
    torch.manual_seed(0)
    make, shape = NORMS[name]
    layer = make()
    for parameter in layer.parameters():
        nn.init.uniform_(parameter, 0.5, 1.5)
    for _ in range(2):
        layer(torch.randn(shape) * 2 + 1)
    return layer, bln_search.convert(copy.deepcopy(layer), method="same"), shape


@pytest.mark.parametrize("name", NORMS)
def test_attributes_of_the_replaced_layer_can_be_read(name):
    layer, converted, _ = make_layers(name)
    for attribute in READABLE:
        if hasattr(layer, attribute):
            expected, actual = getattr(layer, attribute), getattr(converted, attribute)
            if isinstance(expected, torch.Tensor):
                assert torch.equal(expected, actual)
            else:
                assert actual == expected if attribute != "eps" else float(actual) == expected
    if layer.weight is not None:
        assert torch.equal(converted.weight, layer.weight)


@pytest.mark.parametrize("name", [name for name in NORMS if "several" not in name])
def test_a_converted_layer_is_an_instance_of_the_class_it_replaces(name):
    layer, converted, _ = make_layers(name)
    assert isinstance(converted, type(layer))
    assert isinstance(converted, Normalization)


@pytest.mark.parametrize("name", NORMS)
@pytest.mark.parametrize("make_copy", [copy.deepcopy, copy.copy, lambda layer: pickle.loads(pickle.dumps(layer))])
def test_copies_compute_the_same(name, make_copy):
    _, converted, shape = make_layers(name)
    copied, x = make_copy(converted), torch.randn(shape)
    assert type(copied) is type(converted)
    assert copied.state_dict().keys() == converted.state_dict().keys()
    for training in (False, True):
        copied.train(training), converted.train(training)
        assert torch.equal(copied(x), converted(x))


@pytest.mark.parametrize("name", NORMS)
def test_training_and_evaluation_equal_torch(name):
    layer, converted, shape = make_layers(name)
    layer, converted = layer.double(), converted.double()
    keys = list(converted.state_dict())
    for mode in (True, True, False, True, False):
        x = (torch.randn(shape) * 3 - 1).double()
        torch.testing.assert_close(converted.train(mode)(x), layer.train(mode)(x))
        assert list(converted.state_dict()) == keys


@pytest.mark.parametrize("name", NORMS)
@pytest.mark.parametrize("strict", [True, False])
def test_a_state_of_the_original_layer_is_loaded(name, strict):
    layer, _, shape = make_layers(name)
    torch.manual_seed(1)
    network = nn.Sequential(bln_search.convert(NORMS[name][0](), method="same"))
    network.load_state_dict(nn.Sequential(layer).state_dict(), strict=strict)
    x = torch.randn(shape)
    torch.testing.assert_close(network.eval()(x), layer.eval()(x))
    torch.testing.assert_close(network.train()(x), layer.train()(x))
    torch.testing.assert_close(network.eval()(x), layer.eval()(x))


@pytest.mark.parametrize("norm", [nn.BatchNorm1d(8), nn.LayerNorm(8), nn.LayerNorm([8])])
def test_a_state_of_another_method_is_an_error_with_the_remedy(norm):
    network = nn.Sequential(nn.Linear(4, 8), norm)
    state = copy.deepcopy(network.state_dict())
    converted = bln_search.convert(network, batch_size=4)
    with pytest.raises(RuntimeError, match="1 as it was before the conversion to bln: load it into the network first"):
        converted.load_state_dict(state)


@pytest.mark.parametrize(
    "layer", [nn.BatchNorm1d(8), nn.BatchNorm2d(8), nn.InstanceNorm2d(8, track_running_stats=True)]
)
def test_a_state_of_an_earlier_version_is_loaded(layer):
    x = torch.randn(6, 8, 3, 3) if isinstance(layer, nn.BatchNorm2d | nn.InstanceNorm2d) else torch.randn(6, 8)
    layer(x * 2 + 1)
    converted = bln_search.convert(copy.deepcopy(layer), method="same").eval()
    state = converted.state_dict()
    running = torch.stack([state.pop("running_mean"), state.pop("running_var")])
    del state["num_batches_tracked"]
    kind = "batch" if converted.has_batch_statistics else "feature"
    state |= {
        "running": running,
        f"population_{kind}_mean": running[:1],
        f"population_{kind}_deviation": (running[1:] + layer.eps).sqrt(),
    }
    again = bln_search.convert(type(layer)(8, track_running_stats=True), method="same").eval()
    again.load_state_dict(state)
    torch.testing.assert_close(again(x), layer.eval()(x))
    assert again.reproduces_replaced_layer_outputs


class FrozenBatchNorm(nn.BatchNorm1d):
    def train(self, mode=True):
        return super().train(False)


class Frozen(nn.Sequential):
    def train(self, mode=True):
        super().train(mode)
        for module in self.modules():
            if isinstance(module, nn.BatchNorm1d):
                module.eval()
        return self


def freeze_instance(layer):
    layer.train = MethodType(lambda self, mode=True: self, layer.eval())
    return layer


@pytest.mark.parametrize(
    "make",
    [
        lambda: nn.Sequential(nn.Linear(6, 8), FrozenBatchNorm(8)),
        lambda: Frozen(nn.Linear(6, 8), nn.BatchNorm1d(8)),
        lambda: nn.Sequential(nn.Linear(6, 8), freeze_instance(nn.BatchNorm1d(8))),
    ],
)
def test_a_layer_that_stays_in_evaluation_mode_stays_so(make):
    torch.manual_seed(0)
    network = make()
    network[1].running_mean.add_(1)
    converted = bln_search.convert(copy.deepcopy(network), method="same")
    x = torch.randn(40, 6)
    torch.testing.assert_close(converted.train()(x), network.train()(x))
    assert torch.equal(converted[1].running_mean, network[1].running_mean)


class Plus1(nn.Module):
    def forward(self, weight):
        return weight + 1


class Square(nn.Module):
    def forward(self, weight):
        return weight.square()

    def right_inverse(self, weight):
        return weight.sqrt()


def parametrize_once(layer):
    parametrize.register_parametrization(layer, "weight", Plus1(), unsafe=True)


def parametrize_twice(layer):
    parametrize.register_parametrization(layer, "weight", Square())
    parametrize.register_parametrization(layer, "bias", Plus1(), unsafe=True)
    parametrize.register_parametrization(layer, "weight", Plus1(), unsafe=True)


def prune_randomly(layer):
    prune.random_unstructured(layer, "weight", amount=0.5)


def prune_both(layer):
    prune.l1_unstructured(layer, "weight", amount=0.5)
    prune.random_unstructured(layer, "bias", amount=0.25)


@pytest.mark.parametrize("change", [parametrize_once, parametrize_twice, prune_randomly, prune_both])
@pytest.mark.parametrize("norm", [nn.BatchNorm1d, nn.LayerNorm])
def test_computed_parameters_are_trained_as_before(norm, change):
    torch.manual_seed(0)
    outputs = []
    for method in (None, "same"):
        torch.manual_seed(0)
        network = nn.Sequential(nn.Linear(6, 8), norm(8), nn.Linear(8, 3))
        nn.init.uniform_(network[1].weight, 0.5, 1.5)
        change(network[1])
        if method is not None:
            bln_search.convert(network, method=method)
        optimizer = torch.optim.SGD(network.parameters(), 0.1)
        for _ in range(3):
            optimizer.zero_grad()
            nn.functional.cross_entropy(network(torch.randn(20, 6)), torch.randint(3, (20,))).backward()
            optimizer.step()
        outputs.append((sorted(name for name, _ in network.named_parameters()), network.eval()(torch.ones(2, 6))))
    assert outputs[0][0] == outputs[1][0]
    torch.testing.assert_close(outputs[1][1], outputs[0][1])


@pytest.mark.parametrize("change", [parametrize_once, prune_randomly, prune_both])
def test_computed_parameters_are_not_converted_to_another_method(change):
    network = nn.Sequential(nn.Linear(6, 8), nn.BatchNorm1d(8))
    change(network[1])
    with pytest.raises(ModelError, match=r"layer 1 .* its γ or β is computed from other parameters"):
        bln_search.convert(network, batch_size=4)


@pytest.mark.parametrize("method", ["same", "bln"])
@pytest.mark.parametrize("norm", [lambda: nn.BatchNorm2d(8), lambda: nn.LayerNorm([8, 3, 3]), lambda: nn.LayerNorm(3)])
def test_hooks_of_the_layer_are_called_and_removed_by_their_handles(norm, method):
    network, calls = nn.Sequential(norm()), []
    handles = [
        network[0].register_forward_hook(lambda *_: calls.append("forward")),
        network[0].register_forward_pre_hook(lambda *_, **__: calls.append("before"), with_kwargs=True),
        network[0].register_full_backward_hook(lambda *_: calls.append("backward")),
    ]
    converted, x = bln_search.convert(network, method=method), torch.randn(6, 8, 3, 3, requires_grad=True)
    converted(x).sum().backward()
    assert calls == ["before", "forward", "backward"]
    for handle in handles:
        handle.remove()
    converted(x).sum().backward()
    assert len(calls) == 3


@pytest.mark.parametrize("use_buffers", [False, True])
def test_averaged_weights_and_their_statistics_equal_torch(use_buffers):
    torch.manual_seed(0)
    network = nn.Sequential(nn.Linear(6, 8), nn.BatchNorm1d(8), nn.ReLU(), nn.Linear(8, 3))
    loader = [(torch.randn(20, 6) * 3 + 2, torch.randint(3, (20,))) for _ in range(6)]
    outputs = []
    for trained in (network, bln_search.convert(copy.deepcopy(network), method="same")):
        averaged = AveragedModel(trained, use_buffers=use_buffers)
        optimizer = torch.optim.SGD(trained.train().parameters(), 0.1)
        for x, y in loader:
            optimizer.zero_grad()
            nn.functional.cross_entropy(trained(x), y).backward()
            optimizer.step()
            averaged.update_parameters(trained)
        outputs.append([averaged.eval()(loader[0][0])])
        update_bn(loader, averaged)
        outputs[-1].append(averaged.eval()(loader[0][0]))
        assert averaged.module[1].momentum == 0.1
    for expected, actual in zip(*outputs, strict=True):
        torch.testing.assert_close(actual, expected)
    assert not torch.allclose(*outputs[0])
    ranked = bln_search.evaluate_configurations(averaged.module.eval(), loader, loader)
    with torch.no_grad():
        losses = [nn.functional.cross_entropy(averaged(x), y) for x, y in loader]
    assert ranked.as_is.row.metrics["validation"].loss.mean == pytest.approx(
        torch.stack(losses).mean().item(), rel=1e-5
    )


class ScaledBatchNorm(nn.BatchNorm1d):
    """A subclass with a method, an attribute and a module of its own, and the forward pass of torch."""

    def __init__(self, features):
        super().__init__(features)
        self.scale = 3.0
        self.extra = nn.Linear(2, 2)

    def scaled(self):
        return self.scale * self.running_mean


class ReadingNorms(nn.Module):
    """A network that computes with the attributes of its layers."""

    def __init__(self):
        super().__init__()
        self.batch_norm, self.layer_norm = ScaledBatchNorm(8), nn.LayerNorm([4, 2])

    def forward(self, x):
        x = self.batch_norm(x) + self.batch_norm.extra(x[:, :2]).sum(1, keepdim=True) + self.batch_norm.scaled()
        norm = self.layer_norm
        return nn.functional.layer_norm(x.view(-1, 4, 2), norm.normalized_shape, norm.weight, norm.bias, norm.eps)


@pytest.mark.parametrize("make_copy", [copy.deepcopy, lambda layer: pickle.loads(pickle.dumps(layer)), lambda x: x])
def test_methods_attributes_and_modules_of_a_subclass_stay(make_copy):
    torch.manual_seed(0)
    network, x = ReadingNorms(), torch.randn(20, 8)
    network(x * 2 + 1)
    converted = make_copy(bln_search.convert(copy.deepcopy(network), method="same"))
    for mode in (True, False):
        torch.testing.assert_close(converted.train(mode)(x), network.train(mode)(x))
    assert {name for name, _ in network.named_parameters()} <= {
        name.replace("norm.norm", "norm") for name, _ in converted.named_parameters()
    }
