"""Per-layer searches of some layers, while the others share a configuration or keep theirs."""

from __future__ import annotations

import copy

import numpy as np
import pytest
import torch
from torch import nn

import bln_search
from bln_search.core.configuration import InferenceConfiguration
from bln_search.core.errors import ModelError
from bln_search.norms.network.layers import evaluation_mode, get_norms_by_name
from tests.api.small_network import cut, losses

TRAIN = [(x.double(), y) for x, y in cut(0, 30)]
VALIDATION = [(x.double(), y) for x, y in cut(30, 50)]


class Residual(nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.norm1 = nn.Linear(7, 7), nn.BatchNorm1d(7)
        self.second, self.norm2 = nn.Linear(7, 7), nn.LayerNorm(7)
        self.last, self.norm3, self.out = nn.Linear(7, 6), nn.BatchNorm1d(6), nn.Linear(6, 4)

    def forward(self, x):
        y = x + torch.tanh(self.norm1(self.first(x)))
        return self.out(self.norm3(self.last(y + self.norm2(self.second(y)))))


class Images(nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.norm1 = nn.Conv2d(1, 3, 3, padding=1), nn.BatchNorm2d(3)
        self.second, self.norm2 = nn.Conv2d(3, 4, 3, padding=1), nn.BatchNorm2d(4)
        self.out = nn.Linear(4, 4)

    def forward(self, x):
        y = torch.relu(self.norm1(self.first(x.view(-1, 1, 1, 7))))
        return self.out(self.norm2(self.second(y)).relu().mean((2, 3)))


def sequential():
    norms = nn.BatchNorm1d(8), nn.LayerNorm(6), nn.BatchNorm1d(5)
    linears = nn.Linear(7, 8), nn.Linear(8, 6), nn.Linear(6, 5)
    parts = [part for linear, norm in zip(linears, norms, strict=True) for part in (linear, norm, nn.Tanh())]
    return nn.Sequential(*parts, nn.Linear(5, 4))


def trained(make):
    """A network in double precision whose BatchNorm layers have running statistics of the training data."""
    torch.manual_seed(2)
    network = make().double()
    with torch.no_grad():
        for parameter in network.parameters():
            parameter.add_(0.1 * torch.randn_like(parameter))
        for x, _ in TRAIN:
            network(x)
    return network.eval()


def plain_losses(network, layered):
    """The mean loss of every configuration, each applied to a copy of the network and evaluated by a plain loop."""
    space, losses = layered.record.space, []
    for index in range(space.num_configurations):
        copied = copy.deepcopy(network)
        bln_search.apply_configuration(
            copied, layered.with_populations(space.configuration_of_choice_digits(space.choice_digits_at_index(index)))
        )
        with torch.no_grad(), evaluation_mode(copied):
            parts = [nn.functional.cross_entropy(copied(x), y, reduction="none") for x, y in VALIDATION]
        losses.append(torch.cat(parts).mean().item())
    return losses


def codes(network):
    return {name: str(layer.configuration) for name, layer in get_norms_by_name(network).items()}


@pytest.mark.filterwarnings("ignore::bln_search.BatchDependenceWarning")
@pytest.mark.parametrize(
    ("make", "late"),
    [(sequential, ["4", "7"]), (Residual, ["norm2", "norm3"]), (Residual, ["norm1"]), (Images, ["norm2"])],
)
def test_kept_layers_equal_a_plain_loop_in_double(make, late):
    original = trained(make)
    network = bln_search.convert(copy.deepcopy(original), method="same")
    before = codes(network)
    groups = {name: [name] for name in late}
    layered = bln_search.search_layers(network, TRAIN, VALIDATION, groups=groups, others="as_is")
    assert layered.result.size == str(4 ** len(late))
    assert codes(network) == before
    with torch.no_grad():
        np.testing.assert_allclose(network(VALIDATION[0][0]), original(VALIDATION[0][0]), rtol=1e-12)
    expected = plain_losses(network, layered)
    np.testing.assert_allclose(layered.record.sums.mean_loss_per_configuration, expected, rtol=1e-12)
    bln_search.apply_configuration(network, layered.best)
    assert {name: code for name, code in codes(network).items() if name not in late} == {
        name: code for name, code in before.items() if name not in late
    }
    with torch.no_grad(), evaluation_mode(network):
        losses = [nn.functional.cross_entropy(network(x), y, reduction="none") for x, y in VALIDATION]
    assert torch.cat(losses).mean().item() == pytest.approx(min(expected), rel=1e-12)


@pytest.mark.filterwarnings("ignore::bln_search.BatchDependenceWarning")
@pytest.mark.parametrize("row", ["FFFF", "FTFT", "BBFF"])
def test_applied_configurations_of_bln_layers_are_kept(row):
    network = bln_search.convert(sequential(), batch_size=5).double()
    ranked = bln_search.evaluate_configurations(network, TRAIN, VALIDATION, blends=[0.25])
    bln_search.apply_configuration(network, ranked[row])
    for layer in get_norms_by_name(network).values():
        layer.drop_unused_populations()  # as an export does
    layered = bln_search.search_layers(network, TRAIN, VALIDATION, groups={"last": ["7"]}, others="as_is")
    assert {
        str(row).split(".")[0]
        for row in map(layered.record.space.configuration_of_choice_digits, [(0, 0, 0), (0, 0, 15)])
    } == {row}
    np.testing.assert_allclose(
        layered.record.sums.mean_loss_per_configuration, plain_losses(network, layered), rtol=1e-12
    )
    changed = copy.deepcopy(network)
    bln_search.apply_configuration(changed, "FFFF")
    np.testing.assert_allclose(
        plain_losses(changed, layered), layered.record.sums.mean_loss_per_configuration, rtol=1e-12
    )


@pytest.mark.filterwarnings("ignore::bln_search.BatchDependenceWarning")
def test_shared_layers_have_one_configuration():
    network = bln_search.convert(sequential(), batch_size=5).double()
    layered = bln_search.search_layers(network, TRAIN, VALIDATION, groups={"last": ["7"]}, others="shared")
    assert layered.result.size == "256"
    assert [choice.layers for choice in layered.result.choices] == [("1", "4"), ("7",)]
    np.testing.assert_allclose(
        layered.record.sums.mean_loss_per_configuration, plain_losses(network, layered), rtol=1e-12
    )


def count_batches(batches):
    """The batches, and how many of them were read."""
    read = []

    class Loader:
        def __iter__(self):
            for batch in batches:
                read.append(batch)
                yield batch

    return Loader(), read


def test_wrong_arguments_are_rejected_before_data_are_read():
    network = bln_search.convert(trained(sequential), method="same")
    missing = copy.deepcopy(network)
    for layer in get_norms_by_name(missing).values():
        layer.drop_unused_populations()
        layer.configuration = InferenceConfiguration("TTFF").restricted_to_statistics_of(layer.method)
        layer.population_batch_mean = layer.running_mean = None
    for model, options, error, message in [
        (network, {"others": "as_is"}, ValueError, "groups="),
        (network, {"others": "shared"}, ValueError, "groups="),
        (network, {"others": "as it is", "groups": {"last": ["7"]}}, ValueError, "free, shared, as_is"),
        (network, {"others": "as_is", "groups": {"last": ["9*"]}}, ModelError, r"'9\*' .* matches no"),
        (network, {"others": "as_is", "groups": {"a": ["7"], "b": ["*"]}}, ModelError, "matches the groups a and b"),
        (missing, {"others": "as_is", "groups": {"last": ["7"]}}, ModelError, "layer 1 .* no value of E_B"),
    ]:
        loader, read = count_batches(TRAIN)
        with pytest.raises(error, match=message):
            bln_search.search_layers(model, loader, VALIDATION, **options)
        assert not read


class TwoParts(nn.Module):
    def __init__(self):
        super().__init__()
        self.early = nn.Sequential(nn.Linear(7, 8), nn.BatchNorm1d(8), nn.Tanh(), nn.Linear(8, 6), nn.GroupNorm(2, 6))
        self.late = nn.Sequential(nn.Linear(6, 6), nn.BatchNorm1d(6), nn.ReLU(), nn.Linear(6, 4))

    def forward(self, x):
        return self.late(self.early(x))


@pytest.fixture
def network():
    """A trained network whose last part is converted, in double precision."""
    torch.manual_seed(3)
    model = TwoParts().double()
    with torch.no_grad():
        for x, _ in TRAIN:
            model(x)
    bln_search.convert(model.eval().late, method="same")
    return model


def plain_loss(model):
    with torch.no_grad(), evaluation_mode(model):
        parts = [nn.functional.cross_entropy(model(x), y, reduction="none") for x, y in VALIDATION]
    return torch.cat(parts).mean().item()


@pytest.mark.filterwarnings("ignore::bln_search.BatchDependenceWarning")
def test_every_row_of_a_converted_part_equals_a_plain_loop(network):
    running = network.early[1].running_mean.clone()
    ranked = bln_search.evaluate_configurations(network, TRAIN, VALIDATION)
    expected = {}
    for row in ranked:
        copied = copy.deepcopy(network)
        bln_search.apply_configuration(copied, row)
        expected[str(row)] = plain_loss(copied)
    assert len(expected) == 7
    assert losses(ranked) == pytest.approx(expected, rel=1e-12)
    assert torch.equal(network.early[1].running_mean, running)


@pytest.mark.filterwarnings("ignore::bln_search.BatchDependenceWarning")
def test_search_of_a_converted_part_equals_a_plain_loop(network):
    layered = bln_search.search_layers(network, TRAIN, VALIDATION)
    space = layered.record.space
    assert space.layers == ("late.1",)
    expected = []
    for index in range(space.num_configurations):
        copied = copy.deepcopy(network)
        bln_search.apply_configuration(
            copied, layered.with_populations(space.configuration_of_choice_digits(space.choice_digits_at_index(index)))
        )
        expected.append(plain_loss(copied))
    np.testing.assert_allclose(layered.record.sums.mean_loss_per_configuration, expected, rtol=1e-12)


@pytest.mark.filterwarnings("ignore::bln_search.BatchDependenceWarning")
def test_a_layer_that_keeps_moving_statistics_is_evaluated_in_the_order_of_the_data():
    network = bln_search.convert(sequential(), batch_size=5).double()
    ranked = bln_search.evaluate_configurations(network, TRAIN, VALIDATION, moving=[0.75])
    bln_search.apply_configuration(network, ranked["EEFE"])
    with pytest.warns(UserWarning, match=r"the layer 1 keeps moving statistics.*evaluated one by one"):
        layered = bln_search.search_layers(network, TRAIN, VALIDATION, groups={"last": ["7"]}, others="as_is")
    assert codes(network)["1"] == "EEFE"
    np.testing.assert_allclose(
        layered.record.sums.mean_loss_per_configuration, plain_losses(network, layered), rtol=1e-12
    )
