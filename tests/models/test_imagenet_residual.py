"""ResNet-18, -34 and -50 have the published sizes, and compute what the same network of plain functions computes."""

from __future__ import annotations

from functools import partial

import pytest
import torch
from torch import nn
from torch.nn import functional as F

from bln_search.core.errors import ModelError
from bln_search.core.method import Method
from bln_search.evaluation.timing import count_parameters
from bln_search.models import build_model
from bln_search.models.imagenet_residual import BasicBlock, BottleneckBlock
from bln_search.norms import BN, make_norm
from tests.support.tiers import latin, thinned

PUBLISHED = {"resnet18": 11_689_512, "resnet34": 21_797_672, "resnet50": 25_557_032}
WEIGHTED_LAYERS = {"resnet18": 18, "resnet34": 34, "resnet50": 50}
PROJECTIONS = {"resnet18": 3, "resnet34": 3, "resnet50": 4}


@pytest.mark.parametrize("name", PUBLISHED)
def test_network_has_the_published_depth_and_size(name):
    with torch.device("meta"):
        network = build_model(name, (3, 224, 224), 1000, partial(make_norm, "bn"), seed=0)
    assert count_parameters(network) == PUBLISHED[name]
    weighted = [module for module in network.modules() if isinstance(module, nn.Conv2d | nn.Linear)]
    assert len(weighted) == WEIGHTED_LAYERS[name] + PROJECTIONS[name]
    assert sum(isinstance(module, BN) for module in network.modules()) == len(weighted) - 1


@pytest.mark.parametrize(("method", "name"), thinned(latin(list(Method), ["resnet18", "resnet50"]), 3))
def test_network_has_one_logit_for_each_class_with_every_method(name, method):
    network = build_model(name, (1, 33, 40), 7, partial(make_norm, method), seed=0)
    assert network(torch.randn(2, 1, 33, 40)).shape == (2, 7)


def plain_outputs(state, block, x):
    """Outputs by functions of torch, with batch statistics in every norm; names and order of the weights of `block`."""

    def convolve(x, name, stride=1, padding=0):
        return F.conv2d(x, state[f"{name}.weight"], None, stride, padding)

    def normalize(x, name):
        return F.batch_norm(x, None, None, state[f"{name}.weight"], state[f"{name}.bias"], training=True, eps=1e-5)

    counts = (2, 2, 2, 2) if block is BasicBlock else (3, 4, 6, 3)
    x = F.max_pool2d(F.relu(normalize(convolve(x, "stem", 2, 3), "stem_norm")), 3, 2, 1)
    position = 0
    for stage, count in enumerate(counts):
        for index in range(count):
            name, stride = f"blocks.{position}", 2 if stage and not index else 1
            if block is BasicBlock:
                hidden = F.relu(normalize(convolve(x, f"{name}.first", stride, 1), f"{name}.first_norm"))
                hidden = normalize(convolve(hidden, f"{name}.second", 1, 1), f"{name}.second_norm")
            else:
                hidden = F.relu(normalize(convolve(x, f"{name}.first"), f"{name}.first_norm"))
                hidden = F.relu(normalize(convolve(hidden, f"{name}.second", stride, 1), f"{name}.second_norm"))
                hidden = normalize(convolve(hidden, f"{name}.third"), f"{name}.third_norm")
            if f"{name}.shortcut.convolution.weight" in state:
                x = normalize(convolve(x, f"{name}.shortcut.convolution", stride), f"{name}.shortcut.norm")
            x = F.relu(hidden + x)
            position += 1
    return F.linear(x.mean((2, 3)), state["classifier.weight"], state["classifier.bias"])


@pytest.mark.parametrize(("name", "block"), [("resnet18", BasicBlock), ("resnet50", BottleneckBlock)])
def test_outputs_equal_those_of_plain_functions(name, block):
    network = build_model(name, (3, 32, 32), 5, partial(make_norm, "bn", epsilon=1e-5), seed=1).double()
    state = {key: value.detach() for key, value in network.named_parameters()}
    x = torch.randn(6, 3, 32, 32, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    with torch.no_grad():
        torch.testing.assert_close(network.train()(x), plain_outputs(state, block, x), rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("name", PUBLISHED)
def test_outputs_equal_torchvisions_with_its_weights(name):
    models = pytest.importorskip("torchvision.models")
    torch.manual_seed(0)
    theirs = getattr(models, name)(weights=None).double().train()
    ours = build_model(name, (3, 64, 64), 1000, partial(make_norm, "bn", epsilon=1e-5), seed=0).double().train()
    with torch.no_grad():
        for own, value in zip(ours.parameters(), theirs.parameters(), strict=True):  # both in the order of the layers
            own.copy_(value)
        x = torch.randn(4, 3, 64, 64, dtype=torch.float64)
        torch.testing.assert_close(ours(x), theirs(x), rtol=1e-8, atol=1e-8)


@pytest.mark.parametrize("shape", [(64,), (3, 28, 28)])
def test_inputs_other_than_large_images_are_an_error(shape):
    with pytest.raises(ModelError, match=r"resnet34 takes images .* at least 32×32 pixels"):
        build_model("resnet34", shape, 10, BN, seed=0)
