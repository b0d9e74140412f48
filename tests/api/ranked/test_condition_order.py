"""Conditions are compared example by example only where the order of their examples is the same."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

import bln_search
from bln_search.core.errors import DataError
from bln_search.ranking.paired.condition_comparison import (
    differences_of_condition_means,
    relate_examples_of_conditions,
)
from bln_search.ranking.paired.sum_of_means import ExampleRelation
from tests.api.shifted_data import conditions, make_data, trained
from tests.support.tiers import thinned

TRAIN = make_data(200, 1)


def in_order(loader, order):
    """The examples of a loader in another order."""
    data = loader.dataset
    return DataLoader(TensorDataset(*(x[order] for x in data.tensors)), batch_size=20)


def compare(loaders, network=None, **options):
    tables = bln_search.evaluate_configurations(network or trained(), TRAIN, loaders, **options)
    return tables, compared_rows(tables)


def compared_rows(tables):
    """How the examples of the conditions depend on each other, and the differences of the rows to the first."""
    rows = tables.rows_over_conditions
    outcomes = rows.find_outcome_tables_per_condition(rows.keys)
    differences = differences_of_condition_means(outcomes, 0, 0.01)
    return SimpleNamespace(relation=relate_examples_of_conditions(outcomes), mean=differences)


SAME_ORDER = conditions()
SHUFFLES = {
    "one condition shuffled": (None, 1, None),
    "each condition shuffled": (1, 2, 3),
    "reversed": (None, None, -1),
}


def shuffled(seeds, loaders):
    orders = [
        torch.arange(120)
        if seed is None
        else torch.arange(120).flip(0)
        if seed < 0
        else torch.randperm(120, generator=torch.Generator().manual_seed(seed))
        for seed in seeds
    ]
    return {name: in_order(loader, order) for (name, loader), order in zip(loaders.items(), orders, strict=True)}


def test_examples_of_equal_index_are_clusters_in_the_same_order():
    assert compare(SAME_ORDER)[1].relation is ExampleRelation.CLUSTERS


@pytest.mark.parametrize("kind", thinned(SHUFFLES, 3))
def test_intervals_of_classes_in_other_orders_bound_any_dependence(kind):
    """The interval is at least as wide as that of the same examples in the same order."""
    _, same = compare(SAME_ORDER)
    tables, other = compare(shuffled(SHUFFLES[kind], SAME_ORDER), batch_sizes=[120])
    same = compare(SAME_ORDER, batch_sizes=[120])[1]
    assert other.relation is ExampleRelation.UNKNOWN
    np.testing.assert_allclose(other.mean.mean, same.mean.mean, atol=1e-5)
    assert (other.mean.half >= same.mean.half * (1 - 1e-4)).all()
    assert tables.recommended_for(over="mean").row.rank


def regression_network():
    torch.manual_seed(0)
    network = nn.Sequential(nn.Linear(6, 8), nn.BatchNorm1d(8), nn.ReLU(), nn.Linear(8, 1))
    network(torch.randn(40, 6))
    return bln_search.convert(network.eval(), method="same")


@pytest.mark.parametrize("kind", thinned(SHUFFLES, 3, start=1))
def test_targets_that_differ_identify_the_examples(kind):
    x = torch.randn(120, 6, generator=torch.Generator().manual_seed(4))
    y = x.sum(1, keepdim=True)
    loaders = {
        name: DataLoader(TensorDataset(scale * x + shift, y), 20)
        for name, scale, shift in (("clean", 1.0, 0.0), ("large", 2.0, 1.0), ("small", 0.3, -1.0))
    }
    options = {"network": regression_network(), "score": "mse", "batch_sizes": [120]}
    _, same = compare(loaders, **options)
    _, other = compare(shuffled(SHUFFLES[kind], loaders), **options)
    assert other.relation is same.relation is ExampleRelation.CLUSTERS
    np.testing.assert_allclose(other.mean.half, same.mean.half, rtol=1e-4)
    np.testing.assert_allclose(other.mean.p, same.mean.p, rtol=1e-3, atol=1e-9)


@pytest.mark.parametrize("networks", [1, 2])
def test_a_saved_result_keeps_the_order(networks, tmp_path):
    several = [trained(seed) for seed in range(networks)]
    tables, comparison = compare(shuffled((1, 2, 3), SAME_ORDER), several)
    loaded = bln_search.load_ranked(tables.save(tmp_path / "tables"))
    again = compared_rows(loaded)
    assert again.relation is comparison.relation is ExampleRelation.UNKNOWN
    np.testing.assert_array_equal(again.mean.half, comparison.mean.half)
    assert loaded["clean"].examples_by_loader == tables["clean"].examples_by_loader


class Shrinking:
    """Yields one mini-batch less in each iteration."""

    def __init__(self, loader):
        self.batches = list(loader)

    def __iter__(self):
        yield from self.batches
        self.batches.pop()


@pytest.mark.parametrize("role", ["train_loader", "validation_loader", "test_loader"])
def test_readings_of_several_networks_have_the_same_number_of_examples(role):
    loaders = {"train_loader": TRAIN, "validation_loader": make_data(120), "test_loader": make_data(80)}
    loaders[role] = Shrinking(loaders[role])
    with pytest.raises(DataError, match=rf"{role} yields \d+ examples for one network and \d+ for another"):
        bln_search.evaluate_configurations([trained(0), trained(1)], **loaders)
