"""Compiled networks are evaluated like others, and are not compiled again for each mini-batch."""

from __future__ import annotations

import copy

import pytest
import torch
from torch import nn

import bln_search
from tests.support.tiers import latin, thinned

pytestmark = pytest.mark.filterwarnings("ignore")  # warnings of torch's compiler
X, Y = torch.randn(120, 6, generator=torch.Generator().manual_seed(0)), torch.arange(120) % 3
BATCHES = list(zip(X.split(20), Y.split(20), strict=True))


def compile_in_place(network):
    network.compile(backend="eager")
    return network


def compile_a_part(network):
    network[0].compile(backend="eager")
    return network


COMPILED = {
    "in place": compile_in_place,
    "a part in place": compile_a_part,
    "a new module": lambda network: torch.compile(network, backend="eager"),
}


def make_network():
    torch.manual_seed(0)
    network = nn.Sequential(
        nn.Linear(6, 8), nn.BatchNorm1d(8), nn.ReLU(), nn.Linear(8, 8), nn.LayerNorm(8), nn.Linear(8, 3)
    )
    for x, _ in BATCHES:
        network(x)
    return bln_search.convert(network.eval(), method="same")


def losses(table):
    return {str(row): row.row.metrics["validation"].loss.mean for row in table}


@pytest.fixture(autouse=True)
def new_compiler():
    torch.compiler.reset()
    yield
    torch.compiler.reset()


@pytest.mark.parametrize(("name", "one_pass"), thinned(latin(tuple(COMPILED), [True, False]), 3))
def test_a_compiled_network_has_the_table_of_the_plain_one(name, one_pass):
    network = make_network()
    expected = losses(bln_search.evaluate_configurations(network, BATCHES, BATCHES, one_pass=one_pass))
    compiled = COMPILED[name](network)
    compiled(X[:20])
    actual = losses(bln_search.evaluate_configurations(compiled, BATCHES, BATCHES, one_pass=one_pass))
    assert actual == pytest.approx(expected, rel=1e-6)


@pytest.mark.parametrize("name", thinned(COMPILED, 3, start=1))
def test_a_compiled_network_is_searched_by_layer(name):
    network = make_network()
    expected = bln_search.search_layers(network, BATCHES, BATCHES)
    compiled = COMPILED[name](network)
    compiled(X[:20])
    searched = bln_search.search_layers(compiled, BATCHES, BATCHES)
    assert searched.record.sums.mean_loss_per_configuration == pytest.approx(
        expected.record.sums.mean_loss_per_configuration, rel=1e-6
    )


@pytest.mark.parametrize(("method", "mode"), thinned(latin(["same", "bln", "bn", "ln"], [True, False]), 2))
def test_a_compiled_network_is_compiled_once_for_all_mini_batches(method, mode):
    network = nn.Sequential(nn.Linear(6, 8), nn.BatchNorm1d(8), nn.LayerNorm(8), nn.Linear(8, 3))
    converted = bln_search.convert(network, method=method)
    if not mode and method != "same":
        bln_search.evaluate_configurations(converted.eval(), BATCHES, BATCHES)
    plain = copy.deepcopy(converted.train(mode))
    compiled = torch.compile(converted, backend="eager")
    compiled(X[:20]), plain(X[:20])
    with torch.compiler.set_stance("fail_on_recompile"):
        for x, _ in BATCHES:
            torch.testing.assert_close(compiled(x), plain(x))
