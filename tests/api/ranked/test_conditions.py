"""One network under several validation conditions: tables, recommendations, records."""

from __future__ import annotations

import copy
import csv
import io
import json
import re

import numpy as np
import pytest
import torch
from scipy import stats
from torch import nn

import bln_search
from bln_search.core.enums import Split
from bln_search.ranking.selection.condition_criteria import Criterion
from bln_search.ranking.selection.eligible_rows import EligibilityBasis
from tests.api.shifted_data import conditions, make_data, trained
from tests.support.tiers import latin

SIZES = [4, 20, 60]
TRAIN = {"source": make_data(200, 1)}


@pytest.fixture(scope="module")
def network():
    return trained()


@pytest.fixture(scope="module")
def ranked(network):
    return bln_search.evaluate_configurations(network, TRAIN, conditions(), batch_sizes=SIZES, blends=[0.3])


def test_each_condition_has_the_table_of_a_call_of_its_own(network, ranked):
    for name, loader in conditions().items():
        alone = bln_search.evaluate_configurations(network, TRAIN, loader, batch_sizes=SIZES, blends=[0.3])
        assert ranked[name].to_records() == alone.to_records()
        assert str(ranked[name]) == str(alone)


def test_populations_are_collected_once():
    passes = []

    class Counted:
        def __iter__(self):
            for position, batch in enumerate(make_data(200, 1)):
                passes.extend([1] * (position == 0))
                yield batch

    result = bln_search.evaluate_configurations(trained(), Counted(), conditions())
    assert len(passes) == 1
    assert len({id(result[name].populations) for name in result}) == 1


def test_losses_mean_worst_and_regret_equal_a_loop_over_the_tables(ranked):
    tables = {name: {row.key: row for row in ranked[name].board.rows} for name in ranked}
    loss = {
        name: {key: row.metrics[Split.VALIDATION].loss.mean for key, row in rows.items()}
        for name, rows in tables.items()
    }
    lowest = {name: min(losses.values()) for name, losses in loss.items()}
    for position, key in enumerate(ranked.rows_over_conditions.keys):
        line = [loss[name][key] for name in ranked]
        assert ranked.rows_over_conditions.losses[position].tolist() == line
        assert ranked.rows_over_conditions.criterion_values(Criterion.MEAN)[position] == pytest.approx(sum(line) / 3)
        assert ranked.rows_over_conditions.criterion_values(Criterion.WORST)[position] == max(line)
        regret = max(loss[name][key] - lowest[name] for name in ranked)
        assert ranked.rows_over_conditions.criterion_values(Criterion.REGRET)[position] == pytest.approx(
            regret, abs=1e-6
        )


def test_rows_independent_of_the_mini_batch_stand_once(ranked):
    sizes = {key: ranked.rows_over_conditions.batch_sizes[key] for key in ranked.rows_over_conditions.keys}
    assert all(len(of_row) == (3 if key.configuration.is_deterministic else 1) for key, of_row in sizes.items())
    independent = [str(key.configuration) for key in sizes if key.configuration.is_deterministic]
    assert independent == ["TT--", "TT--"]
    assert {key.batch_size for key in sizes if not key.configuration.is_deterministic} == set(SIZES)


@pytest.mark.parametrize(("over", "batch_size"), latin([*Criterion, "large"], [None, *SIZES]))
def test_a_recommendation_is_a_row_of_its_size_that_can_be_applied(network, ranked, over, batch_size):
    recommendation = ranked.recommendation_for(batch_size=batch_size, over=over)
    row = ranked.recommended_for(batch_size=batch_size, over=over)
    assert row == recommendation.row
    assert row.explanation in str(recommendation)
    assert ranked.recommended == ranked.recommended_for()
    assert batch_size is None or batch_size in row.batch_sizes or row.row.batch_size == batch_size
    applied = bln_search.apply_configuration(copy.deepcopy(network), row).eval()
    size = row.row.batch_size
    for name in ranked:
        with torch.no_grad():
            x, y = conditions()[name].dataset.tensors
            losses = [
                nn.functional.cross_entropy(applied(x[first : first + size]), y[first : first + size], reduction="none")
                for first in range(0, len(x), size)
            ]
        assert recommendation.losses[name] == pytest.approx(torch.cat(losses).mean().item(), rel=1e-4)


def test_a_recommendation_has_the_lowest_value_or_a_reason(ranked):
    for over in Criterion:
        for size in SIZES:
            selected = ranked.at_batch_size(size)
            values = selected.rows_over_conditions.criterion_values(over)
            recommendation = ranked.recommendation_for(batch_size=size, over=over)
            assert recommendation.excess == pytest.approx(recommendation.value - values.min())
            reasons = (recommendation.is_as_is, recommendation.is_independent, recommendation.selection.candidates > 1)
            assert recommendation.excess == 0 or any(reasons)


def test_rows_no_better_than_the_class_frequencies_are_not_recommended(network):
    """With one example, the mean of the mini-batch removes the example; under a large shift no other row is better."""
    at_one = bln_search.evaluate_configurations(network, TRAIN, conditions(), batch_sizes=[1])
    rows = at_one.rows_over_conditions
    counts = np.bincount(torch.cat([target for _, target in conditions()["large"]]).numpy())
    prior = stats.entropy(counts)
    no_better = [
        min(at_one[name][str(key.configuration)].row.metrics[Split.VALIDATION].loss.mean for name in at_one) >= prior
        for key in rows.keys
    ]
    assert 0 < sum(no_better) < len(no_better)
    worst = rows.criterion_values(Criterion.WORST)
    assert no_better[int(worst.argmin())]
    for over in Criterion:
        recommendation = at_one.recommendation_for(over=over)
        key = next(key for key in rows.keys if key.configuration == recommendation.row.configuration)
        assert not no_better[rows.keys.index(key)]
        assert recommendation.num_no_better_than_prior == sum(no_better)


def test_a_constant_prediction_is_not_recommended_where_no_row_has_a_lower_loss_than_it():
    """The network is wrong with confidence under a shift; its outputs for single examples are zero with E_B = F."""
    network = trained()
    with torch.no_grad():
        network[1].bias.zero_()
        network[3].weight.mul_(100)
        network[3].bias.zero_()
    ranked = bln_search.evaluate_configurations(network, TRAIN, conditions(), batch_sizes=[1, 20])
    at_one = ranked.at_batch_size(1)
    rows = at_one.rows_over_conditions
    constant = [str(key.configuration).startswith("F") for key in rows.keys]
    for over in (*Criterion, "large"):
        recommendation = at_one.recommendation_for(over=over)
        assert recommendation.basis is EligibilityBasis.ACCURACY
        assert recommendation.num_no_better_than_prior == sum(constant)
        assert str(recommendation.row).startswith("T")
        assert str(recommendation.lowest).startswith("T")
    assert constant[int(rows.criterion_values(Criterion.WORST).argmin())]
    lowest = next(line for line in ranked.by_batch_size.plot().data if line.name == "lowest")
    assert lowest.y[0] > rows.criterion_values(Criterion.WORST).min()
    assert "With mini-batches of 1, no row has a lower loss" in str(ranked.by_batch_size)


def test_a_dependent_recommendation_names_the_deterministic_alternative(ranked):
    recommendation = ranked.recommendation_for(batch_size=20, over="worst")
    assert not recommendation.is_independent
    alternative = recommendation.alternative
    assert alternative.is_independent
    values = {
        key: ranked.at_batch_size(20).rows_over_conditions.criterion_values(Criterion.WORST)[i]
        for i, key in enumerate(ranked.at_batch_size(20).rows_over_conditions.keys)
    }
    best = min(value for key, value in values.items() if key.configuration.is_deterministic)
    assert recommendation.alternative_cost == pytest.approx(best - recommendation.value)
    text = " ".join(str(recommendation).split())
    assert "depends on the mini-batch" in text
    assert f"{alternative}" in text
    assert f"{recommendation.alternative_cost:.4f} higher" in text


def test_the_network_as_deployed_is_kept_within_the_margin():
    loaders = {"one": make_data(seed=22), "two": make_data(seed=23)}
    result = bln_search.evaluate_configurations(trained(), TRAIN, loaders, batch_sizes=[4, 20])
    for over in (Criterion.MEAN, Criterion.WORST, "one"):
        recommendation = result.recommendation_for(over=over)
        assert str(recommendation.row) == "TT-- (moving)"
        assert recommendation.is_as_is
        assert recommendation.alternative is None


def test_every_size_and_criterion_has_a_line(ranked):
    summary = ranked.by_batch_size
    records = summary.to_records()
    assert [(record["batch_size"], record["over"]) for record in records] == [
        (size, over) for size in SIZES for over in ["mean", "worst", "regret", "clean", "large", "small"]
    ]
    for record in records:
        recommendation = ranked.recommendation_for(batch_size=record["batch_size"], over=record["over"])
        assert record["row"] == str(recommendation.row)
        assert record["regret"] == max(recommendation.regrets.values())
        assert record["independent"] or record["alternative"]
    assert str(summary).count("\n") > len(records)
    assert "<table" in summary._repr_html_()
    assert json.loads(summary.to_json()) == records


def test_records_csv_and_html_have_every_row(ranked):
    records = ranked.to_records()
    assert len(records) == len(ranked.rows_over_conditions.keys)
    for position, record in enumerate(records):
        assert record["mean"] == pytest.approx(ranked.rows_over_conditions.losses[position].mean())
        assert [record[f"{name}_validation_loss"] for name in ranked] == ranked.rows_over_conditions.losses[
            position
        ].tolist()
    assert json.loads(ranked.to_json()) == records
    assert len(list(csv.DictReader(io.StringIO(ranked.to_csv())))) == len(records)
    assert ranked._repr_html_().count("<tr") == len(records) + 1
    printed = str(ranked)
    assert all(name in printed for name in (*ranked, "mean", "worst", "regret", "all"))


def test_test_figures_are_reported_and_do_not_select():
    test = {name: make_data(60, 9) for name in conditions()}
    with_test = bln_search.evaluate_configurations(trained(), TRAIN, conditions(), test_loader=test)
    alone = bln_search.evaluate_configurations(trained(), TRAIN, conditions())
    assert with_test.rows_over_conditions.losses.tolist() == alone.rows_over_conditions.losses.tolist()
    assert {"clean_test_loss", "clean_test_accuracy"} <= set(with_test.to_records()[0])
    assert not [name for name in alone.to_records()[0] if "_test_" in name]
    row = with_test.recommended_for(over="mean")
    members = [
        next(other for other in with_test[name].board.rows if other.key == row.row.key).metrics[Split.TEST].loss.mean
        for name in with_test
    ]
    assert row.row.metrics[Split.TEST].loss.mean == pytest.approx(np.mean(members))


def test_rows_without_a_value_in_a_condition_are_listed_last():
    loaders = {"good": make_data(), "bad": [(x * float("inf"), y) for x, y in make_data()]}
    result = bln_search.evaluate_configurations(trained(), TRAIN, loaders)
    assert not result.rows_over_conditions.keys
    assert {record["reason"] is not None for record in result.to_records()} == {True}
    assert "no value in every condition" in str(result)
    with pytest.raises(bln_search.ModelError, match="every condition"):
        result.recommended_for()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [({"over": "best"}, "give mean, worst, regret"), ({"batch_size": 5}, "there are 4, 20, 60")],
)
def test_an_unknown_recommendation_is_an_error(ranked, arguments, message):
    with pytest.raises(ValueError, match=message):
        ranked.recommended_for(**arguments)


def test_an_unknown_condition_is_an_error(ranked):
    with pytest.raises(KeyError, match="there are clean, large, small"):
        ranked["noise"]
    assert list(ranked) == ["clean", "large", "small"]
    assert len(ranked) == 3
    assert repr(ranked).startswith("<RankedConditions: clean, large, small; ")


def test_rows_with_other_outcomes_at_another_size_are_not_merged():
    """A network whose other layers mix examples: TT-- differs between sizes, and stands for each of them."""

    class Mixed(nn.Module):
        def __init__(self):
            super().__init__()
            self.norm, self.head = bln_search.BN(6, batch_size=20), nn.Linear(6, 2)

        def forward(self, x):
            return self.head(self.norm(x) + x.mean(0))

    torch.manual_seed(0)
    result = bln_search.evaluate_configurations(
        Mixed(), make_data(), make_data(seed=3), batch_sizes=[4, 20], one_pass=False
    )
    assert sorted(row.batch_sizes for row in result if row.is_independent) == [(4,), (20,)]


def test_tables_of_conditions_and_sizes_have_a_line_for_each_row_at_80_columns(ranked, monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    sizes, conditions_table = str(ranked.by_batch_size), str(ranked)
    assert max(len(line) for text in (sizes, conditions_table) for line in text.splitlines()) <= 80
    names = "|".join([*Criterion, *ranked])
    assert len(re.findall(rf"^ *(?:4|20|60) +(?:{names}) +\S+", sizes, re.MULTILINE)) == len(
        ranked.by_batch_size.to_records()
    )
    assert "Not shown at 80 columns: " in sizes
    assert "configuration: " not in conditions_table.splitlines()[0]
    for record in ranked.to_records():
        assert f"{record['worst']:.4f}" in conditions_table
