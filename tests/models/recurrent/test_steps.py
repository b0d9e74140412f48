"""One γ and β over all time steps, statistics of every step by themselves, and nothing that shared parameters break."""

from __future__ import annotations

from copy import deepcopy
from functools import partial

import pytest
import torch
from torch import nn

from bln_search import apply_configuration, convert
from bln_search.core.checkpoints import Folder
from bln_search.core.configuration import InferenceConfiguration
from bln_search.core.enums import Correction, PopulationEstimate
from bln_search.core.errors import ModelError
from bln_search.evaluation import collect_frozen_moments
from bln_search.evaluation.row_evaluator import in_double_precision
from bln_search.models.recurrent import StepNorms
from bln_search.norms import BLN, BN, LN, make_norm
from bln_search.norms.network_layers import find_norms, network_populations
from bln_search.training.checkpoint import load_weights, read_checkpoint, write_checkpoint

FEATURES, STEPS = 3, 4


class Steps(nn.Module):
    """Every step of (N, T, D) normalized and nothing else."""

    def __init__(self, norm, **options):
        super().__init__()
        self.norm = StepNorms(norm, FEATURES, STEPS, **options)

    def forward(self, x):
        return torch.stack([self.norm(one, step) for step, one in enumerate(x.unbind(1))], 1)


def batches(count=3, size=6):
    """Sequences whose steps lie apart: the mean grows with the step, and so does the spread."""
    torch.manual_seed(0)
    step = torch.arange(STEPS).view(1, -1, 1)
    return [torch.randn(size, STEPS, FEATURES) * (1 + step) + 3 * step for _ in range(count)]


def drawn(network):
    with torch.no_grad():
        for parameter in network.parameters():
            parameter.normal_()
    return network


def assert_shared(network, *, layers=STEPS):
    norms = list(find_norms(network).values())
    assert len(norms) == layers
    for name in ("weight", "bias"):
        assert len({id(getattr(norm, name)) for norm in norms}) == 1
    assert [name.rpartition(".")[2] for name, _ in network.named_parameters()] == ["weight", "bias"]


@pytest.mark.parametrize("method", ["bn", "ln", "bln", "mbn", "brn"])
def test_all_steps_share_one_gain_and_one_bias(method):
    network = Steps(partial(make_norm, method))
    assert_shared(network)
    assert len(list(network.parameters())) == 2
    network(batches()[0]).square().sum().backward()
    torch.optim.SGD(network.parameters(), lr=0.1).step()
    assert_shared(network)


@pytest.mark.parametrize("gain", [1.0, 0.1])
def test_gains_start_at_the_given_value_and_biases_at_zero(gain):
    network = Steps(BN, gain=gain)
    for layer in find_norms(network).values():
        assert layer.weight.tolist() == pytest.approx([gain] * FEATURES)
        assert layer.bias.tolist() == [0.0] * FEATURES


def test_the_default_gain_is_one():
    assert Steps(LN).norm.of_step[2].weight.tolist() == [1.0] * FEATURES


def test_every_step_has_its_own_population():
    network, data = Steps(BN).eval(), batches()
    gathered = {PopulationEstimate.FROZEN: collect_frozen_moments(network, data)}
    layers = find_norms(network)
    populations = network_populations(layers, gathered, Correction.BESSEL, per_slot=False)
    for step, layer in enumerate(layers.values()):
        found = populations[layer][PopulationEstimate.FROZEN].batch
        expected = torch.stack([x[:, step].double().mean(0) for x in data]).mean(0)
        torch.testing.assert_close(found.mean.flatten(), expected)
        variance = torch.stack([x[:, step].double().var(0) for x in data]).mean(0)
        torch.testing.assert_close(found.deviation.flatten(), torch.sqrt(variance + layer.eps))


def test_a_state_dict_restores_parameters_and_populations():
    network, data = drawn(Steps(BLN)), batches()
    configured = configured_by_population(network, data)
    again = Steps(BLN)
    again.load_state_dict(configured.state_dict())
    assert_shared(again)
    assert torch.equal(again.eval()(data[0]), configured.eval()(data[0]))


def configured_by_population(network, data, word="TTTT"):
    """Population values put into each layer, as a ranked row does it."""
    layers = find_norms(network)
    gathered = {PopulationEstimate.FROZEN: collect_frozen_moments(network, data)}
    populations = network_populations(layers, gathered, Correction.BESSEL, per_slot=False)
    for layer in layers.values():
        layer.configure(InferenceConfiguration(word), populations[layer][PopulationEstimate.FROZEN])
    return network


def test_a_configuration_applies_to_all_steps_only():
    """The order in which such a network reaches its layers is not known without data."""
    network = configured_by_population(Steps(BLN), batches()).eval()
    apply_configuration(network, "FFFF")
    assert {str(layer.configuration) for layer in find_norms(network).values()} == {"FFFF"}
    with pytest.raises(ModelError, match="in which order"):
        apply_configuration(network, "TTTT.FFFF.TFTF.TTFF")
    assert {str(layer.configuration) for layer in find_norms(network).values()} == {"FFFF"}


def test_a_checkpoint_stores_shared_parameters_once(tmp_path):
    network, data = drawn(Steps(BLN)), batches()
    gathered = {PopulationEstimate.FROZEN: collect_frozen_moments(network, data)}
    weights = {name: value.detach() for name, value in network.named_parameters()}
    name, sha256 = write_checkpoint(Folder(tmp_path), weights, gathered, {})
    read, moments = read_checkpoint(Folder(tmp_path), name, sha256)
    assert len(read) == 2
    assert moments[PopulationEstimate.FROZEN].keys() == find_norms(network).keys()
    again = Steps(BLN)
    load_weights(again, read)
    assert_shared(again)
    assert torch.equal(again(data[0]), network(data[0]))


def test_copies_in_double_precision_share_parameters():
    network = drawn(Steps(BLN))
    copied, _ = in_double_precision(network, {})
    assert_shared(copied)
    assert copied.norm.of_step[3].bias.dtype == torch.float64
    assert_shared(deepcopy(network))
    assert_shared(deepcopy(network).half().float())


def test_converted_layers_keep_sharing_their_parameters():
    network = drawn(Steps(nn.BatchNorm1d))
    x = batches(1)[0]
    expected = network(x)
    converted = convert(network, method="same")
    assert_shared(converted)
    torch.testing.assert_close(converted.train()(x), expected, rtol=1e-4, atol=1e-4)


def test_norms_without_parameters_share_nothing():
    network = Steps(lambda features: nn.BatchNorm1d(features, affine=False))
    assert list(network.parameters()) == []
    assert network(batches(1)[0]).shape == (6, STEPS, FEATURES)


@pytest.mark.parametrize("step", [STEPS, -1])
def test_a_time_step_without_a_norm_is_an_error(step):
    with pytest.raises(ModelError, match=f"for 4 .* step {step + 1}:"):
        Steps(BN).norm(torch.randn(2, FEATURES), step)


@pytest.mark.parametrize(
    ("steps", "gain", "message"),
    [
        (0, 1.0, "at least one time step, not 0"),
        (2, 0.0, "initial gain .* not 0"),
        (2, float("nan"), "not nan"),
        (2, float("inf"), "not inf"),
    ],
)
def test_impossible_step_norms_are_an_error(steps, gain, message):
    with pytest.raises(ModelError, match=message):
        StepNorms(BN, FEATURES, steps, gain=gain)
