"""Several trained networks: ranked on their mean, compared over networks, applied with their own values."""

from __future__ import annotations

import copy

import numpy as np
import pytest
import torch
from torch import nn

import bln_search
from bln_search.core.enums import Split
from bln_search.core.errors import ModelError
from bln_search.ranking.looks import level_of_look
from bln_search.ranking.paired import OutcomeTable, compare_rows
from tests.api.own_network import make_network
from tests.api.shifted_data import conditions, make_data, trained

TRAIN = {"source": make_data(200, 1)}
VALIDATION = make_data(scale=2.0, shift=1.0)


@pytest.fixture(scope="module")
def networks():
    return [trained(seed) for seed in range(3)]


@pytest.fixture(scope="module")
def ranked(networks):
    return bln_search.evaluate_configurations(networks, TRAIN, VALIDATION, batch_sizes=[4, 20])


def test_rows_are_ranked_on_the_mean_over_networks(networks, ranked):
    alone = [bln_search.evaluate_configurations(net, TRAIN, VALIDATION, batch_sizes=[4, 20]) for net in networks]
    losses = [{row.key: row.metrics[Split.VALIDATION].loss.mean for row in table.board.rows} for table in alone]
    for row in ranked.board.rows:
        of_networks = [by_key[row.key] for by_key in losses]
        assert row.seeds == 3
        assert row.metrics[Split.VALIDATION].loss.mean == pytest.approx(np.mean(of_networks))
        assert row.metrics[Split.VALIDATION].loss.deviation == pytest.approx(np.std(of_networks, ddof=1))
    means = [row.row.metrics[Split.VALIDATION].loss.mean for row in ranked]
    assert means == sorted(means)


def test_each_network_has_the_table_of_a_call_of_its_own(networks, ranked):
    for position, network in enumerate(networks):
        alone = bln_search.evaluate_configurations(network, TRAIN, VALIDATION, batch_sizes=[4, 20])
        assert ranked.of_network(position).to_records() == alone.to_records()
    with pytest.raises(IndexError, match="3 networks"):
        ranked.of_network(3)


def test_the_comparison_is_that_of_a_study_with_seeds(ranked):
    keys = [row.key for row in ranked.comparison.rows]
    outcomes = [
        [
            next(
                outcome
                for key, outcome in table.outcomes.items()
                if (key.configuration, key.estimate, key.batch_size)
                == (row.configuration, row.estimate, row.batch_size)
            )
            for row in keys
        ]
        for table in ranked.networks
    ]
    losses, correct = (
        np.stack([[getattr(outcome, name) for outcome in rows] for rows in outcomes]) for name in ("losses", "correct")
    )
    table = OutcomeTable(losses.astype(np.float32), correct)
    expected = compare_rows(keys, table, Split.VALIDATION, level=level_of_look(0), current=ranked.as_is.row.key)
    assert ranked.comparison == expected
    assert ranked.comparison.seeds == 3


def test_a_row_is_applied_with_the_values_of_the_network(networks, ranked):
    row = ranked["TT--"]
    for position, network in enumerate(networks):
        key = next(
            key
            for key in ranked.of_network(position).outcomes
            if (key.configuration, key.estimate) == (row.configuration, row.row.estimate)
        )
        expected = ranked.of_network(position).outcomes[key].losses
        for choice in (row, row.of_network(position)):
            applied = bln_search.apply_configuration(copy.deepcopy(network), choice).eval()
            with torch.no_grad():
                losses = [nn.functional.cross_entropy(applied(x), y, reduction="none") for x, y in VALIDATION]
            np.testing.assert_allclose(torch.cat(losses).numpy(), expected, rtol=1e-4, atol=1e-6)


def test_values_of_another_network_are_refused(networks, ranked):
    state = copy.deepcopy(networks[1].state_dict())
    with pytest.raises(ModelError, match=r"network 0, and this is network 1: give row.of_network\(1\)"):
        bln_search.apply_configuration(networks[1], ranked["TT--"].of_network(0))
    with pytest.raises(ModelError, match="none of them"):
        bln_search.apply_configuration(trained(7), ranked["TT--"])
    assert all(torch.equal(value, networks[1].state_dict()[name]) for name, value in state.items())
    chosen = ranked["TT--"].of_network(2)
    with pytest.raises(ModelError, match="measured with other parameters"):
        bln_search.apply_configuration(trained(7), chosen)
    with pytest.warns(UserWarning, match="measured with other parameters"):
        other = bln_search.apply_configuration(trained(7), chosen, allow_other_weights=True)
    assert other[1].configuration == chosen.configuration
    with pytest.raises(IndexError, match="3 networks"):
        ranked["TT--"].of_network(-4)


def test_networks_and_conditions_combine(networks):
    result = bln_search.evaluate_configurations(networks, TRAIN, conditions(), batch_sizes=[4, 20])
    for name, loader in conditions().items():
        alone = bln_search.evaluate_configurations(networks, TRAIN, loader, batch_sizes=[4, 20])
        assert result[name].to_records() == alone.to_records()
    recommended = result.recommended_for(batch_size=4, over="regret")
    bln_search.apply_configuration(copy.deepcopy(networks[2]), recommended)
    of_one = result.of_network(1)
    alone = bln_search.evaluate_configurations(networks[1], TRAIN, conditions(), batch_sizes=[4, 20])
    assert of_one.to_records() == alone.to_records()
    assert len(result.rows_over_conditions.verdicts) == len(alone.rows_over_conditions.verdicts)


class Never:
    def __iter__(self):
        raise AssertionError("a pass over the data")


@pytest.mark.parametrize(
    ("others", "message"),
    [
        (lambda first: [], "empty"),
        (lambda first: [first, first], "networks 0 and 1 have equal parameters"),
        (lambda first: [first, trained(1), copy.deepcopy(first)], "networks 0 and 2 have equal parameters"),
        (lambda first: [first, trained(1, width=16)], "the layer 1 is bn of 8 features and bn of 16 features"),
        (lambda first: [first, make_network()], "the layer 1 is bn of 8 features and missing"),
        (lambda first: [first, nn.Linear(2, 2)], "no normalization layer"),
        (lambda first: [first, "net"], "type str"),
        (lambda first: "net", "type str"),
    ],
)
def test_networks_that_do_not_compare_are_an_error_before_any_pass(networks, others, message):
    with pytest.raises(ModelError, match=message):
        bln_search.evaluate_configurations(others(networks[0]), Never(), VALIDATION)
