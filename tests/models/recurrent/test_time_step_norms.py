"""Norms of all time steps share γ and β and have separate statistics; copies and checkpoints keep this."""

from __future__ import annotations

from copy import deepcopy
from functools import partial

import pytest
import torch
from torch import nn

from bln_search import apply_configuration, convert
from bln_search.core.checkpoints import FolderStore
from bln_search.core.configuration import InferenceConfiguration
from bln_search.core.enums import Correction, PopulationEstimate
from bln_search.core.errors import ModelError
from bln_search.evaluation import collect_moments_with_frozen_weights
from bln_search.evaluation.row_evaluator import try_copy_network_and_populations_in_double
from bln_search.models.recurrent import TimeStepNorms
from bln_search.norms import BLN, BN, make_norm
from bln_search.norms.network.layers import compute_populations_of_layers, get_norms_by_name
from bln_search.training.checkpoint import (
    copy_weights_into_network,
    read_checkpoint_weights_and_moments,
    write_checkpoint,
)

FEATURES, STEPS = 3, 4


class Steps(nn.Module):
    """Normalizes every step of (N, T, D) and does nothing else."""

    def __init__(self, norm, **options):
        super().__init__()
        self.norm = TimeStepNorms(norm, FEATURES, STEPS, **options)

    def forward(self, x):
        return torch.stack([self.norm(values, step) for step, values in enumerate(x.unbind(1))], 1)


def draw_batches(count=3, size=6):
    """Return sequences whose mean and deviation grow with the time step."""
    torch.manual_seed(0)
    step = torch.arange(STEPS).view(1, -1, 1)
    return [torch.randn(size, STEPS, FEATURES) * (1 + step) + 3 * step for _ in range(count)]


def randomize(network):
    with torch.no_grad():
        for parameter in network.parameters():
            parameter.normal_()
    return network


def assert_shared(network, *, layers=STEPS):
    norms = list(get_norms_by_name(network).values())
    assert len(norms) == layers
    for name in ("weight", "bias"):
        assert len({id(getattr(norm, name)) for norm in norms}) == 1
    assert [name.rpartition(".")[2] for name, _ in network.named_parameters()] == ["weight", "bias"]


@pytest.mark.parametrize("method", ["bn", "ln", "bln", "mbn", "brn"])
def test_all_steps_share_one_gain_and_one_bias(method):
    network = Steps(partial(make_norm, method))
    assert_shared(network)
    assert len(list(network.parameters())) == 2
    network(draw_batches()[0]).square().sum().backward()
    torch.optim.SGD(network.parameters(), lr=0.1).step()
    assert_shared(network)


def test_every_step_has_its_own_population():
    network, data = Steps(BN).eval(), draw_batches()
    moments = {PopulationEstimate.FROZEN: collect_moments_with_frozen_weights(network, data)}
    layers = get_norms_by_name(network)
    populations = compute_populations_of_layers(layers, moments, Correction.BESSEL, per_slot=False)
    for step, layer in enumerate(layers.values()):
        population = populations[layer][PopulationEstimate.FROZEN].batch
        expected = torch.stack([x[:, step].double().mean(0) for x in data]).mean(0)
        torch.testing.assert_close(population.mean.flatten(), expected)
        variance = torch.stack([x[:, step].double().var(0) for x in data]).mean(0)
        torch.testing.assert_close(population.deviation.flatten(), torch.sqrt(variance + layer.eps))


def test_a_state_dict_restores_parameters_and_populations():
    network, data = randomize(Steps(BLN)), draw_batches()
    configured = configure_by_population(network, data)
    restored = Steps(BLN)
    restored.load_state_dict(configured.state_dict())
    assert_shared(restored)
    assert torch.equal(restored.eval()(data[0]), configured.eval()(data[0]))


def configure_by_population(network, data, code="TTTT"):
    """Configure each layer by population values, as a ranked row does."""
    layers = get_norms_by_name(network)
    moments = {PopulationEstimate.FROZEN: collect_moments_with_frozen_weights(network, data)}
    populations = compute_populations_of_layers(layers, moments, Correction.BESSEL, per_slot=False)
    for layer in layers.values():
        layer.configure(InferenceConfiguration(code), populations[layer][PopulationEstimate.FROZEN])
    return network


def test_a_configuration_applies_to_all_steps_only():
    """Without data the order in which such a network calls its layers is unknown."""
    network = configure_by_population(Steps(BLN), draw_batches()).eval()
    apply_configuration(network, "FFFF")
    assert {str(layer.configuration) for layer in get_norms_by_name(network).values()} == {"FFFF"}
    with pytest.raises(ModelError, match="order"):
        apply_configuration(network, "TTTT.FFFF.TFTF.TTFF")
    assert {str(layer.configuration) for layer in get_norms_by_name(network).values()} == {"FFFF"}


def test_a_checkpoint_stores_shared_parameters_once(tmp_path):
    network, data = randomize(Steps(BLN)), draw_batches()
    moments = {PopulationEstimate.FROZEN: collect_moments_with_frozen_weights(network, data)}
    weights = {name: value.detach() for name, value in network.named_parameters()}
    name, sha256 = write_checkpoint(FolderStore(tmp_path), weights, moments, {})
    read_weights, read_moments = read_checkpoint_weights_and_moments(FolderStore(tmp_path), name, sha256)
    assert len(read_weights) == 2
    assert read_moments[PopulationEstimate.FROZEN].keys() == get_norms_by_name(network).keys()
    restored = Steps(BLN)
    copy_weights_into_network(restored, read_weights)
    assert_shared(restored)
    assert torch.equal(restored(data[0]), network(data[0]))


def test_copies_in_double_precision_share_parameters():
    network = randomize(Steps(BLN))
    copy, _ = try_copy_network_and_populations_in_double(network, {})
    assert_shared(copy)
    assert copy.norm.of_step[3].bias.dtype == torch.float64
    assert_shared(deepcopy(network))
    assert_shared(deepcopy(network).half().float())


def test_converted_layers_keep_sharing_their_parameters():
    network = randomize(Steps(nn.BatchNorm1d))
    x = draw_batches(1)[0]
    expected = network(x)
    converted = convert(network, method="same")
    assert_shared(converted)
    torch.testing.assert_close(converted.train()(x), expected, rtol=1e-4, atol=1e-4)


def test_norms_without_parameters_share_nothing():
    network = Steps(lambda features: nn.BatchNorm1d(features, affine=False))
    assert list(network.parameters()) == []
    assert network(draw_batches(1)[0]).shape == (6, STEPS, FEATURES)


def test_time_steps_are_counted_from_zero():
    with pytest.raises(ModelError, match="no step -1"):
        Steps(BN).norm(torch.randn(2, FEATURES), -1)


@pytest.mark.parametrize(
    ("steps", "gain", "message"),
    [
        (0, 1.0, "time step, not 0"),
        (2, 0.0, "initial gain .* not 0"),
        (2, float("nan"), "not nan"),
        (2, float("inf"), "not inf"),
    ],
)
def test_impossible_step_norms_are_an_error(steps, gain, message):
    with pytest.raises(ModelError, match=message):
        TimeStepNorms(BN, FEATURES, steps, gain=gain)


def test_another_rule_for_longer_sequences_is_an_error():
    with pytest.raises(ModelError, match="refuse or last_time_step, not 'first'"):
        Steps(BN, longer_sequences="first")
