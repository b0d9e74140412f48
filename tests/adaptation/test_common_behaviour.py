"""What every method of adaptation promises."""

from __future__ import annotations

import pytest
import torch
from torch import nn

import bln_search
from bln_search.adaptation.arms import make_adaptation
from bln_search.core.blend import PopulationWeight
from bln_search.core.configuration import InferenceConfiguration
from bln_search.core.errors import ModelError
from bln_search.core.registry import ADAPTATIONS
from bln_search.data.inputs import make_structured_inputs
from bln_search.norms.network.layers import get_norms_by_name
from tests.adaptation.networks import make_mini_batches, make_mlp, use_configuration

METHODS = tuple(ADAPTATIONS.built_in)
WITH_MEMORY = ("note", "rotta")
FROM_POPULATION = (*WITH_MEMORY, "chooser")


class TakesMapping(nn.Module):
    """A network whose examples have two inputs."""

    def __init__(self):
        super().__init__()
        self.layers = use_configuration(make_mlp(), "T")

    def forward(self, inputs):
        return self.layers(inputs["first"] + inputs["second"])


def make_converted_network(letter):
    """A network of torch with running statistics, one layer without γ and β, and dropout."""
    torch.manual_seed(0)
    network = nn.Sequential(
        *(nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4), nn.ReLU(), nn.Conv2d(4, 6, 3), nn.BatchNorm2d(6, affine=False)),
        *(nn.ReLU(), nn.Dropout(0.5), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(6, 3)),
    )
    for _ in range(5):
        network(torch.randn(16, 3, 9, 9))
    converted = bln_search.convert(network.eval(), method="same")
    for layer in get_norms_by_name(converted).values():
        layer.configure(InferenceConfiguration(f"{letter}{letter}--"))
    return converted


@pytest.mark.parametrize("name", METHODS)
def test_converted_networks_of_torch_are_adapted_without_the_global_generator(name):
    info = ADAPTATIONS.load_info(name)
    options = {"augmentations": 1} if name == "cotta" else {}
    if name in WITH_MEMORY:
        options["update_interval"] = 4
    method = make_adaptation(make_converted_network(info.default_configuration), name, options)
    batches = [x.float() for x in make_mini_batches((3, 7, 7), sizes=(4, 4, 4))]
    state = torch.get_rng_state()
    first = [method.predict(x) for x in batches]
    method.reset()
    assert all(torch.equal(method.predict(x), logits) for x, logits in zip(batches, first, strict=True))
    assert torch.equal(torch.get_rng_state(), state)
    assert all(logits.dtype is torch.float32 and not logits.requires_grad for logits in first)


@pytest.mark.parametrize("name", [name for name in METHODS if name not in FROM_POPULATION])
def test_reset_begins_a_stream_of_moving_statistics_anew(name):
    network = use_configuration(make_mlp(), "T")
    network[1].configure(InferenceConfiguration("EE--"), None, PopulationWeight(0.9))
    method = make_adaptation(network, name, {})
    x = make_mini_batches()[0]
    first, second = method.predict(x), method.predict(x)
    assert (first - second).abs().max() > 1e-3
    method.reset()
    if ADAPTATIONS.load_info(name).reads_outputs_only:
        bln_search.reset_stream(network)  # as their shared pass does
    assert torch.equal(method.predict(x), first)


@pytest.mark.parametrize("name", WITH_MEMORY)
def test_memories_keep_inputs_in_a_structure(name):
    method = make_adaptation(TakesMapping(), name, {"update_interval": 6, "learning_rate": 0.1})
    plain = make_adaptation(use_configuration(make_mlp(), "T"), name, {"update_interval": 6, "learning_rate": 0.1})
    for x in make_mini_batches():
        inputs = make_structured_inputs({"first": x / 2, "second": x / 2})
        torch.testing.assert_close(method.predict(inputs), plain.predict(x))
    with pytest.raises(ModelError, match=f"{name} keeps single examples in a memory"):
        method.predict(make_structured_inputs({"first": x[:2], "second": x}))
