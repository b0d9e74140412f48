"""Sizes of spaces of per-layer searches, networks whose forward pass branches, and what a result shows."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
import torch

import bln_search
from bln_search.core.errors import ModelError
from tests.api.layer_search import SIZE, loader, network, normed


class Branching(torch.nn.Sequential):
    def forward(self, x):
        return super().forward(x if x.sum() != 0 else -x)


@pytest.mark.parametrize(
    ("kind", "layers", "method", "evaluations", "expected"),
    [
        (torch.nn.Sequential, 5, "same", 64, "exact"),
        (torch.nn.Sequential, 7, "bln", 40, "coordinate"),
        (Branching, 3, "same", 64, "exact"),
        (Branching, 3, "same", 63, "coordinate"),
    ],
)
def test_small_spaces_are_enumerated_by_default(kind, layers, method, evaluations, expected):
    model = bln_search.convert(kind(*normed(layers)), method=method, batch_size=SIZE)
    with warnings.catch_warnings(record=True) as caught_warnings:
        warnings.simplefilter("always")
        layered = bln_search.search_layers(model, loader(60, 0), loader(40, 1), evaluations=evaluations)
    assert layered.result.search == expected
    assert [str(warning.message).endswith("takes longer") for warning in caught_warnings] == [True] * (
        kind is Branching
    )


@pytest.mark.parametrize(
    "search",
    [
        "exact",
        "coordinate",
        *(pytest.param(name, marks=pytest.mark.slow) for name in ("beam", "tpe", "racing", "random")),
    ],
)
def test_branching_network_is_searched_like_a_sequential_one(search):
    sequential, branching = (
        bln_search.convert(kind(*normed(2)), method="same") for kind in (torch.nn.Sequential, Branching)
    )
    options = {"search": search, "evaluations": 16, "test_loader": loader(30, 2)}
    expected = bln_search.search_layers(sequential, loader(60, 0), loader(45, 1), **options)
    with pytest.warns(UserWarning, match="evaluated one by one"):
        layered = bln_search.search_layers(branching, loader(60, 0), loader(45, 1), **options)
    assert [row.configuration for row in layered.result.rows] == [row.configuration for row in expected.result.rows]
    np.testing.assert_allclose(layered.record.confirmed.losses, expected.record.confirmed.losses, rtol=1e-5)
    np.testing.assert_allclose(layered.record.test, expected.record.test, rtol=1e-5)
    bln_search.apply_configuration(branching, layered.best)
    bln_search.apply_configuration(branching, "FF--.FF--")
    with pytest.raises(ModelError, match=r"FF--\.TF-- cannot be applied: apply the result of search_layers"):
        bln_search.apply_configuration(branching, "FF--.TF--")


@pytest.mark.parametrize(("kind", "layers", "limit"), [(torch.nn.Sequential, 7, "16,777,216"), (Branching, 4, "4,096")])
@pytest.mark.filterwarnings("ignore:the forward pass of this Branching")
def test_too_many_configurations_name_the_argument_to_change(kind, layers, limit):
    model = bln_search.convert(kind(*normed(layers)), batch_size=SIZE)
    with pytest.raises(
        ModelError, match=rf'{16**layers:,} .* {limit} .*use search="coordinate" or search="beam", .*groups='
    ):
        bln_search.search_layers(model, loader(60, 0), loader(40, 1), search="exact")


@pytest.mark.parametrize("search", ["exact", "coordinate"])
def test_best_independent_has_the_lowest_loss_of_its_kind(search):
    layered = bln_search.search_layers(network(), loader(60, 0), loader(60, 1), search=search, evaluations=100)
    space, sums = layered.record.space, layered.record.sums
    digits = (
        [space.choice_digits_at_index(index) for index in range(space.num_configurations)]
        if sums.digits is None
        else sums.digits.tolist()
    )
    losses = {
        str(configuration): loss
        for configuration, loss in zip(
            map(space.configuration_of_choice_digits, digits), sums.mean_loss_per_configuration, strict=True
        )
        if configuration.is_deterministic
    }
    assert len(losses) >= 4
    best = layered.best_batch_independent
    assert best.configuration.is_deterministic
    assert losses[str(best)] == min(losses.values())
    bln_search.apply_configuration(network(), best)
