"""Instance normalization equals a NumPy loop under every configuration, in a pass of its own and in the one pass."""

from __future__ import annotations

import copy

import numpy as np
import pytest
import torch
from torch import nn

import bln_search
from bln_search.core.configuration import all_configurations
from bln_search.core.enums import Split
from bln_search.core.errors import ModelError
from bln_search.core.method import Method
from bln_search.norms.instance import InstanceNorm
from tests.support.tiers import latin, thinned

EPSILON = 1e-2
SHAPES = {1: (6, 4, 9), 2: (6, 4, 3, 5), 3: (6, 4, 2, 3, 2)}
KINDS = {1: nn.InstanceNorm1d, 2: nn.InstanceNorm2d, 3: nn.InstanceNorm3d}


def make_layer(dimensions, affine=True, **options):
    """A trained layer of torch with random parameters, in double precision and evaluation mode; and inputs."""
    torch.manual_seed(dimensions)
    layer = KINDS[dimensions](4, eps=EPSILON, affine=affine, track_running_stats=True, **options).double()
    if affine:
        nn.init.uniform_(layer.weight, 0.5, 2.0)
        nn.init.normal_(layer.bias)
    for _ in range(4):
        layer(2 * torch.randn(SHAPES[dimensions], dtype=torch.float64) + 1)
    return layer.eval(), 3 * torch.randn(SHAPES[dimensions], dtype=torch.float64) - 1


def loop(x, code, mean, variance, gamma, beta):
    """γ·(x − E)/√(Var + ε) + β by loops over examples and channels; `code` names the sources of E and Var."""
    out = np.empty_like(x)
    for n in range(x.shape[0]):
        for c in range(x.shape[1]):
            values = x[n, c].reshape(-1)
            own_mean = sum(values) / len(values)
            own_variance = sum((value - own_mean) ** 2 for value in values) / len(values)
            used_mean = mean[c] if code[2] == "T" else own_mean
            used_variance = variance[c] if code[3] == "T" else own_variance
            out[n, c] = gamma[c] * (x[n, c] - used_mean) / np.sqrt(used_variance + EPSILON) + beta[c]
    return out


@pytest.mark.parametrize("code", [str(code) for code in all_configurations(Method.LN)])
@pytest.mark.parametrize("dimensions", SHAPES)
def test_every_configuration_equals_a_loop(dimensions, code):
    layer, x = make_layer(dimensions)
    parameters = (value.detach().numpy() for value in (layer.running_mean, layer.running_var, layer.weight, layer.bias))
    converted = bln_search.convert(nn.Sequential(layer), method="same", strict=True)
    converted[0].configure(bln_search.InferenceConfiguration(code))
    expected = loop(x.numpy(), code, *parameters)
    np.testing.assert_allclose(converted(x).detach().numpy(), expected, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("affine", [True, False])
@pytest.mark.parametrize("training", [True, False])
@pytest.mark.parametrize("dimensions", SHAPES)
def test_outputs_stay_those_of_torch(dimensions, training, affine):
    layer, x = make_layer(dimensions, affine)
    converted = bln_search.convert(nn.Sequential(copy.deepcopy(layer)).train(training), method="same", strict=True)
    torch.testing.assert_close(converted(x), layer.train(training)(x), rtol=1e-12, atol=1e-12)
    assert str(converted[0].configuration) == "--TT"


def test_the_population_equals_a_loop_over_mini_batches():
    layer, _ = make_layer(2)
    data = [torch.randn(SHAPES[2], dtype=torch.float64) * (i + 1) + i for i in range(3)]
    network = bln_search.convert(
        nn.Sequential(layer, nn.Flatten(), nn.Linear(60, 2).double()), method="same", strict=True
    )
    loader = [(x, torch.arange(6) % 2) for x in data]
    ranked = bln_search.evaluate_configurations(network, loader, loader)
    examples = np.concatenate([x.numpy() for x in data]).reshape(18, 4, 15)
    pair = ranked.populations["frozen"]["0"].feature
    np.testing.assert_allclose(pair.mean.flatten(), examples.mean(2).mean(0), rtol=1e-12)
    expected = np.sqrt(examples.var(2, ddof=1).mean(0) + EPSILON)
    np.testing.assert_allclose(pair.deviation.flatten(), expected, rtol=1e-12)


class Images(nn.Module):
    """Instance normalization behind and before other layers, with a residual connection."""

    def __init__(self, others):
        super().__init__()
        torch.manual_seed(5)
        self.first = nn.InstanceNorm2d(3, affine=True, track_running_stats=True)
        self.conv = nn.Conv2d(3, 4, 3, padding=1)
        self.norms = nn.ModuleList([nn.InstanceNorm2d(4, track_running_stats=True), *others])
        self.head = nn.Linear(4, 2)

    def forward(self, x):
        y = self.conv(self.first(x))
        for norm in self.norms:
            y = y + torch.tanh(norm(y))
        return self.head(y.square().mean((2, 3)))


MIXTURES = {
    "alone": (list, "--TT"),
    "with BatchNorm": (lambda: [nn.BatchNorm2d(4)], "TTTT"),
    "with LayerNorm": (lambda: [nn.LayerNorm([4, 5, 5])], "--TT"),
    "behind BatchNorm without statistics": (lambda: [nn.BatchNorm2d(4, track_running_stats=False)], "FFTT"),
}


def make_images(name):
    network = Images(MIXTURES[name][0]())
    batches = [(torch.randn(6, 3, 5, 5) * (i + 1) / 3, torch.randint(0, 2, (6,))) for i in range(4)]
    with torch.no_grad():
        for x, _ in batches:
            network(x)
    return network.eval().double(), [(x.double(), y) for x, y in batches]


@pytest.mark.filterwarnings("ignore::bln_search.BatchDependenceWarning")
@pytest.mark.parametrize(("name", "one_pass"), thinned(latin(tuple(MIXTURES), [True, False]), 2))
def test_every_row_equals_a_plain_loop(name, one_pass):
    network, batches = make_images(name)
    with torch.no_grad():
        deployed = torch.cat([nn.functional.cross_entropy(network(x), y, reduction="none") for x, y in batches]).mean()
    network = bln_search.convert(network, method="same", strict=True)
    ranked = bln_search.evaluate_configurations(network, batches, batches, one_pass=one_pass, blends=[0.3])
    for row in ranked:
        copied = bln_search.apply_configuration(copy.deepcopy(network), row).eval()
        with torch.no_grad():
            losses = [nn.functional.cross_entropy(copied(x), y, reduction="none") for x, y in batches]
        assert row.row.metrics["validation"].loss.mean == pytest.approx(torch.cat(losses).mean().item(), rel=1e-9)
    assert str(ranked.as_is.configuration) == MIXTURES[name][1]
    assert ranked.as_is.row.estimate == "moving"
    assert ranked.as_is.row.metrics[Split.VALIDATION].loss.mean == pytest.approx(deployed.item(), rel=1e-9)


def test_rows_do_not_depend_on_the_mini_batch():
    network, batches = make_images("alone")
    network = bln_search.convert(network, method="same")
    ranked = bln_search.evaluate_configurations(network, batches, batches)
    assert all(row.is_independent for row in ranked)
    x = batches[0][0]
    for row in ranked:
        applied = bln_search.apply_configuration(network, row).eval()
        torch.testing.assert_close(applied(x)[:1], applied(x[:1]), rtol=1e-10, atol=1e-10)


def test_a_per_layer_search_equals_a_plain_loop():
    network, batches = make_images("alone")
    network = bln_search.convert(network, method="same")
    layered = bln_search.search_layers(network, batches, batches)
    space = layered.record.space
    assert space.num_configurations == 16
    for index in (0, 5, 15):
        copied = copy.deepcopy(network)
        bln_search.apply_configuration(
            copied, layered.with_populations(space.configuration_of_choice_digits(space.choice_digits_at_index(index)))
        )
        with torch.no_grad():
            losses = [nn.functional.cross_entropy(copied.eval()(x), y, reduction="none") for x, y in batches]
        expected = torch.cat(losses).mean().item()
        assert layered.record.sums.mean_loss_per_configuration[index] == pytest.approx(expected, rel=1e-9)


def test_a_state_dict_restores_the_layer():
    network, batches = make_images("alone")
    network = bln_search.convert(network, method="same")
    again = bln_search.convert(make_images("alone")[0], method="same")
    again.first.running_mean = again.first.running_var = None
    again.load_state_dict(network.state_dict())
    x = batches[0][0]
    assert torch.equal(again.eval()(x), network(x))
    assert again.first.reproduces_replaced_layer_outputs


def test_training_updates_the_running_statistics_like_torch():
    network, batches = make_images("alone")
    converted = bln_search.convert(copy.deepcopy(network), method="same")
    for x, _ in batches:
        assert torch.allclose(converted.train()(x), network.train()(x))
    torch.testing.assert_close(converted.first.running_mean, network.first.running_mean)
    torch.testing.assert_close(converted.first.running_var, network.first.running_var)
    torch.testing.assert_close(converted.eval()(batches[0][0]), network.eval()(batches[0][0]))
    assert bln_search.evaluate_configurations(converted, batches, batches).as_is is not None


def test_an_input_without_positions_is_an_error():
    with pytest.raises(ModelError, match="examples first, not one of 2 dimensions"):
        InstanceNorm(3)(torch.zeros(4, 3))
