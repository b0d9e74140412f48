"""A search counts the configurations that have no finite loss, and names the inputs that cause it."""

from __future__ import annotations

import copy
import itertools

import pytest
import torch
from torch import nn
from torch.nn import functional as F

import bln_search
from bln_search.core.configuration import InferenceConfiguration
from bln_search.core.errors import ModelError
from bln_search.core.per_layer import PerLayerConfiguration
from tests.support.tiers import latin

torch.manual_seed(0)
X, Y = torch.randn(40, 5), torch.randint(0, 2, (40,))
TRAIN = list(zip(X.split(10), Y.split(10), strict=True))


class Logarithm(nn.Module):
    """NaN for values below an offset, which population values of other data give."""

    def __init__(self, offset):
        super().__init__()
        self.offset = offset

    def forward(self, x):
        return torch.log(x + self.offset)


class SquareRoot(Logarithm):
    def forward(self, x):
        return torch.sqrt(x + self.offset)


class Exponential(Logarithm):
    """Infinite for large values."""

    def forward(self, x):
        return torch.exp(-30 * x + self.offset)


def make_network(activation):
    torch.manual_seed(1)
    return nn.Sequential(
        nn.Linear(5, 6), bln_search.BN(6), activation, nn.Linear(6, 6), bln_search.BN(6), nn.Linear(6, 2)
    )


@pytest.mark.parametrize(
    ("activation", "search"), latin([Logarithm(4.0), SquareRoot(4.0), Exponential(0.0)], ["exact", "coordinate"])
)
def test_the_count_is_that_of_plain_passes(activation, search):
    network = make_network(activation)
    validation = [(x * 4 - 3, y) for x, y in TRAIN]
    layered = bln_search.search_layers(network, TRAIN, validation, search=search)
    configurations = [InferenceConfiguration(code) for code in ("FF--", "FT--", "TF--", "TT--")]
    finite = 0
    for pair in itertools.product(configurations, repeat=2):
        row = layered.with_populations(PerLayerConfiguration(pair))
        applied = bln_search.apply_configuration(copy.deepcopy(network), row).eval()
        with torch.no_grad():
            losses = [F.cross_entropy(applied(x), y) for x, y in validation]
        finite += bool(torch.stack(losses).isfinite().all())
    assert 0 < finite < 16
    assert layered.result.networks[0].not_finite == 16 - finite
    assert len(layered.result.rows) == finite
    assert f"{16 - finite} of these" in str(layered)


@pytest.mark.parametrize("value", [torch.nan, torch.inf, -torch.inf])
def test_validation_inputs_that_are_not_finite_are_named(value):
    validation = [(x.clone(), y) for x, y in TRAIN]
    validation[2][0][7, 1] = value
    with pytest.raises(ModelError, match=r"mini-batch 2 \(counted from 0\) of validation_loader .*first in example 7"):
        bln_search.search_layers(make_network(nn.ReLU()), TRAIN, validation)


class Replacing(nn.Module):
    """Replaces values that are not finite by large ones."""

    def forward(self, x):
        return x.nan_to_num(nan=-60.0, posinf=-60.0, neginf=-60.0)


@pytest.mark.parametrize("value", [torch.nan, torch.inf, -torch.inf])
def test_inputs_that_are_not_finite_are_named_where_some_configurations_have_no_loss(value):
    validation = [(x.clone(), y) for x, y in TRAIN]
    validation[2][0][7, 1] = value
    network = nn.Sequential(Replacing(), *make_network(Logarithm(5.0)))
    with pytest.warns(UserWarning, match=r"mini-batch 2 \(counted from 0\) of validation_loader .*first in example 7"):
        layered = bln_search.search_layers(network, TRAIN, validation)
    assert 0 < layered.result.networks[0].not_finite < 16
