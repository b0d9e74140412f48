"""A configuration that depends on the mini-batch is applied with a warning."""

from __future__ import annotations

import warnings

import pytest
import torch
from torch import nn

import bln_search
from bln_search import BatchDependenceWarning, InferenceConfiguration
from bln_search.core.errors import ModelError
from bln_search.core.per_layer import PerLayerConfiguration
from tests.api.own_network import make_loader, make_network

pytestmark = pytest.mark.filterwarnings("error::bln_search.core.errors.BatchDependenceWarning")


def export_under(network, choice):
    """Export without a folder that exists afterwards: the configuration is refused before."""
    return bln_search.export(network, "never written", example_inputs=torch.randn(10, 6), configuration=choice)


def evaluated_network():
    """A network whose BLN layers have the mini-batch size of training."""
    network = make_network()
    for layer in (network[2], network[4]):
        layer.batch_size = 10
    return network


@pytest.fixture(scope="module")
def ranked():
    return bln_search.evaluate_configurations(evaluated_network(), make_loader(), make_loader(seed=1))


def warns(network, choice):
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        bln_search.apply_configuration(network, choice)
    assert all(issubclass(warning.category, BatchDependenceWarning) for warning in caught)
    assert all(warning.filename == __file__ for warning in caught)
    return bool(caught)


def answers_depend_on_the_mini_batch(network):
    inputs = torch.randn(10, 6, generator=torch.Generator().manual_seed(5))
    with torch.no_grad():
        alone = torch.cat([network.eval()(example[None]) for example in inputs])
        return not torch.allclose(alone, network(inputs), atol=1e-5)


def test_a_row_is_warned_of_where_answers_depend_on_the_mini_batch(ranked):
    warned = 0
    for row in ranked:
        network = evaluated_network()
        depends = warns(network, row)
        assert depends == answers_depend_on_the_mini_batch(network)
        warned += depends
    assert warned == 12


def test_the_warning_names_the_row_and_the_way_out(ranked):
    with pytest.warns(
        BatchDependenceWarning, match=r"^FFTT \(frozen\) depends on the mini-batch: .*best_batch_independent"
    ):
        bln_search.apply_configuration(make_network(), ranked["FFTT"])
    bln_search.apply_configuration(make_network(), ranked.best_batch_independent)


@pytest.mark.parametrize(
    ("choice", "expected"),
    [
        ("FFFF", True),
        (InferenceConfiguration("FFFF"), True),
        (PerLayerConfiguration.parse("TTTT.FFTT"), True),
        ("TTTT.TFTT", True),
        (PerLayerConfiguration.parse("TTTT.TTFF"), False),
        ("TTFF", False),
    ],
)
def test_a_code_is_warned_of_too(ranked, choice, expected):
    network = bln_search.apply_configuration(make_network(), ranked["TTTT"])
    assert warns(network, choice) == expected


def test_a_layer_that_evaluation_skips_is_not_warned_of():
    class TwoHeads(nn.Module):
        def __init__(self):
            super().__init__()
            self.body, self.head = nn.Sequential(nn.Linear(6, 6), nn.BatchNorm1d(6)), nn.Linear(6, 2)
            self.helper = nn.Sequential(nn.BatchNorm1d(6), nn.Linear(6, 2))

        def forward(self, x):
            y = self.body(x)
            return self.head(y) + self.helper(y) if self.training else self.head(y)

    network = bln_search.convert(TwoHeads(), method="same")
    network.train()(torch.randn(20, 6))
    with pytest.warns(UserWarning, match="no mini-batch of train_loader reached the layer helper.0"):
        ranked = bln_search.evaluate_configurations(network, make_loader(), make_loader(seed=1))
    assert not warns(network, next(row for row in ranked if str(row) == "TT-- (frozen)"))
    assert warns(network, ranked["FF--"])


@pytest.mark.parametrize("choice", ["TTTT", InferenceConfiguration("FFFF"), "--FF"])
@pytest.mark.parametrize("use", [bln_search.apply_configuration, export_under])
def test_a_code_with_statistics_that_no_layer_has_is_refused_with_the_possible_ones(choice, use):
    network = bln_search.convert(nn.Sequential(nn.Linear(6, 4), nn.BatchNorm1d(4)).eval(), method="same")
    with pytest.raises(ModelError, match="TT--, TF--, FT--, FF--"):
        use(network, choice)
    assert str(network[1].configuration) == "TT--"


def test_a_code_may_name_statistics_that_some_layer_has():
    network = nn.Sequential(nn.BatchNorm1d(6), nn.LayerNorm(6))
    converted = bln_search.convert(network.eval(), method="same")
    with pytest.warns(BatchDependenceWarning):
        bln_search.apply_configuration(converted, "FFFF")
    assert [str(layer.configuration) for layer in converted] == ["FF--", "--FF"]
