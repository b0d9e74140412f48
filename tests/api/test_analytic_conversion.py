"""Own networks become weight-normalized or propagate variances, with the same outputs."""

from __future__ import annotations

import copy

import pytest
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

import bln_search
from bln_search.core.enums import Split
from bln_search.core.errors import ModelError
from bln_search.core.per_layer import PerLayerConfiguration
from bln_search.norms.analytic.layer import NormalizationFromWeights
from tests.api.export.forms import forms_of
from tests.support.tiers import thinned

METHODS = ["wn", "normprop", "ap2"]


class Residual(nn.Module):
    """A convolution, a block with a shortcut, a classifier; five BatchNorm layers."""

    def __init__(self) -> None:
        super().__init__()
        self.stem = nn.Sequential(nn.Conv2d(3, 8, 3, padding=1), nn.BatchNorm2d(8), nn.ReLU())
        self.block = nn.Sequential(
            nn.Conv2d(8, 8, 3, padding=1, bias=False),
            nn.BatchNorm2d(8),
            nn.LeakyReLU(0.1),
            nn.Conv2d(8, 8, 3, padding=1, groups=2, bias=False),
            nn.BatchNorm2d(8),
        )
        self.head = nn.Sequential(
            nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(8, 6), nn.BatchNorm1d(6), nn.Tanh(), nn.Linear(6, 3)
        )

    def forward(self, x):
        x = self.stem(x)
        return self.head(torch.relu(x + self.block(x)))


@pytest.fixture(name="trained")
def _trained():
    torch.manual_seed(0)
    network = Residual()
    with torch.no_grad():
        for parameter in network.parameters():
            parameter.add_(0.1 * torch.randn_like(parameter))
    for _ in range(5):
        network(2 + 3 * torch.randn(16, 3, 8, 8))
    return network.double().eval()


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("method", METHODS)
def test_a_converted_network_gives_the_same_outputs(trained, method):
    x = torch.randn(5, 3, 8, 8, dtype=torch.float64)
    converted = bln_search.convert(copy.deepcopy(trained), method=method, example_inputs=x)
    assert sum(isinstance(module, NormalizationFromWeights) for module in converted.modules()) == 4
    torch.testing.assert_close(converted.eval()(x), trained(x), rtol=1e-9, atol=1e-9)
    converted.train()(x).sum().backward()
    assert all(parameter.grad is not None for parameter in converted.parameters())


def examples(dtype=torch.float64):
    """64 examples, as tensors and in mini-batches of 16."""
    x, y = torch.randn(64, 3, 8, 8, dtype=dtype), torch.randint(3, (64,))
    return x, y, torch.utils.data.DataLoader(torch.utils.data.TensorDataset(x, y), batch_size=16)


def test_a_failed_conversion_leaves_the_network_unchanged(trained):
    trained.head[4] = nn.Softmax(1)
    trained.head.append(nn.BatchNorm1d(3))
    modules = list(trained.modules())
    with pytest.raises(ModelError, match="Softmax"):
        bln_search.convert(trained, method="ap2", example_inputs=torch.zeros(2, 3, 8, 8, dtype=torch.float64))
    assert all(one is other for one, other in zip(modules, trained.modules(), strict=True))


def test_inputs_are_needed_with_these_methods_only(trained):
    with pytest.raises(ModelError, match="example_inputs=inputs"):
        bln_search.convert(trained, method="ap2")
    with pytest.raises(ModelError, match="belongs to wn, normprop, ap2, not"):
        bln_search.convert(trained, method="bn", example_inputs=torch.zeros(2, 3, 8, 8))
    with pytest.raises(ModelError, match="give the whole network"):
        bln_search.convert(nn.BatchNorm1d(3), method="wn", example_inputs=torch.zeros(2, 3))


@pytest.mark.parametrize("method", thinned(METHODS, 3))
def test_per_layer_losses_equal_those_of_the_configured_network(trained, method):
    x, y, loader = examples()
    converted = bln_search.convert(trained, method=method, example_inputs=x[:2])
    ranked = bln_search.search_layers(converted, loader, loader)
    assert ranked.result.size == str(9**4)
    for code in ("AA--.AF--.TA--.FT--", "FA--.AA--.AT--.AF--", "AA--.AA--.AA--.AA--"):
        configuration = PerLayerConfiguration.parse(code)
        index = ranked.record.space.index_of_choice_digits(
            ranked.record.space.choice_digits_of_configuration(configuration)
        )
        choice = ranked.with_populations(configuration)
        configured = bln_search.apply_configuration(copy.deepcopy(converted), choice).eval()
        with torch.no_grad():
            losses = [
                torch.nn.functional.cross_entropy(configured(x[start : start + 16]), y[start : start + 16])
                for start in range(0, 64, 16)
            ]
        assert ranked.record.sums.mean_loss_per_configuration[index] == pytest.approx(
            float(torch.stack(losses).mean()), rel=1e-9
        )


@pytest.mark.filterwarnings("ignore::bln_search.BatchDependenceWarning")
@pytest.mark.parametrize("code", ["AF--", *(pytest.param(code, marks=pytest.mark.slow) for code in ("AA--", "TA--"))])
@pytest.mark.parametrize("method", ["ap2", *(pytest.param(method, marks=pytest.mark.slow) for method in METHODS[:2])])
def test_exported_programs_give_the_same_outputs(trained, method, code, tmp_path):
    x, _, loader = examples(torch.float32)
    converted = bln_search.convert(trained.float(), method=method, example_inputs=x[:2])
    row = {str(row.configuration): row for row in bln_search.evaluate_configurations(converted, loader, loader)}[code]
    report = bln_search.export(converted, tmp_path / "out", example_inputs=x[:16], configuration=row)
    assert report.is_folded == (code != "AF--")
    configured = bln_search.apply_configuration(converted, row).eval()
    for program in (bln_search.load(tmp_path / "out"), *forms_of(tmp_path / "out")):
        with torch.no_grad():
            torch.testing.assert_close(program(x[16:32]), configured(x[16:32]), rtol=0, atol=1e-5)


@pytest.mark.filterwarnings("ignore::bln_search.BatchDependenceWarning")
@pytest.mark.parametrize(("method", "number", "code"), thinned([("bn", 9, "AT--"), ("bln", 81, "FATA")], 2))
def test_rows_with_a_are_ranked_applied_and_exported(method, number, code, tmp_path):
    torch.manual_seed(0)
    network = bln_search.convert(Residual(), method=method)
    x, y = torch.randn(64, 3, 8, 8), torch.randint(3, (64,))
    loader = DataLoader(TensorDataset(x, y), batch_size=16)
    for inputs, _ in loader:
        network.train()(inputs)
    network.eval()
    moments = bln_search.estimate_from_weights(network, x[:16], (x.mean(0), x.var(0)))
    ranked = bln_search.evaluate_configurations(network, loader, loader, gathered={"analytic": moments})
    rows = {str(row.configuration): row for row in ranked if row.row.key.estimate in {None, "frozen"}}
    assert len(rows) == number
    configured = bln_search.apply_configuration(network, rows[code])
    with torch.no_grad():
        losses = [torch.nn.functional.cross_entropy(configured(inputs), targets) for inputs, targets in loader]
    loss = rows[code].row.metrics[Split.VALIDATION].loss.mean
    assert loss == pytest.approx(float(torch.stack(losses).mean()), rel=1e-4)
    report = bln_search.export(configured, tmp_path / code, example_inputs=x[:16])
    assert report.is_folded == ("F" not in code)
    for program in (bln_search.load(tmp_path / code), *forms_of(tmp_path / code)):
        with torch.no_grad():
            torch.testing.assert_close(program(x[:16]), configured(x[:16]), rtol=0, atol=1e-5)
