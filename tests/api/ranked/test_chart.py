"""Charts of ranked tables as figures of plotly."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

import bln_search
from bln_search.core.enums import Split
from tests.api.shifted_data import conditions, make_data, trained

TRAIN = {"source": make_data(200, 1)}


@pytest.fixture(scope="module")
def networks():
    return [trained(seed) for seed in range(2)]


@pytest.fixture(scope="module")
def ranked(networks):
    return bln_search.evaluate_configurations(networks[0], TRAIN, conditions(), batch_sizes=[4, 20])


def test_a_table_shows_losses_with_their_intervals(ranked):
    table = ranked["large"]
    figure = table.plot()
    points = {
        label: (x, half)
        for trace in figure.data
        for label, x, half in zip(trace.y, trace.x, trace.error_x.array, strict=True)
    }
    assert len(points) == len(table)
    assert list(figure.layout.yaxis.categoryarray)[-1].startswith(str(table[0].configuration))
    for row in table:
        estimate = f" {row.row.estimate}" if row.row.estimate else ""
        label = f"{row.configuration}{estimate}, m = {'all' if row.is_independent else row.row.batch_size}"
        key = next(
            key
            for key in table.outcomes
            if (key.configuration, key.estimate, key.batch_size)
            == (row.configuration, row.row.estimate, row.row.batch_size)
        )
        losses = table.outcomes[key].losses.astype(np.float64)
        expected = stats.t.ppf(0.975, len(losses) - 1) * stats.sem(losses)
        assert points[label] == pytest.approx((losses.mean(), expected), rel=1e-6)
    dependent = next(trace for trace in figure.data if trace.name.startswith("depends"))
    assert set(dependent.y) == {label for label in points if "all" not in label}


def test_intervals_of_several_networks_are_wider(networks, ranked):
    """Two networks: the quantile of one degree of freedom."""
    several = bln_search.evaluate_configurations(networks, TRAIN, conditions()["large"], batch_sizes=[4, 20])
    widths = [
        np.median([half for trace in table.plot().data for half in trace.error_x.array])
        for table in (ranked["large"], several)
    ]
    assert widths[1] > widths[0]


def test_conditions_are_a_heat_map_of_their_losses(ranked):
    (trace,) = ranked.plot().data
    assert trace.type == "heatmap"
    assert list(trace.x) == list(ranked)
    np.testing.assert_allclose(
        np.asarray(trace.z), ranked.rows_over_conditions.losses - ranked.rows_over_conditions.losses.min(axis=0)
    )
    assert [list(line) for line in trace.text] == [
        [f"{loss:.4f}" for loss in line] for line in ranked.rows_over_conditions.losses
    ]


def test_sizes_are_lines_of_the_criterion(ranked):
    figure = ranked.by_batch_size.plot(over="worst")
    lines = {trace.name: list(trace.y) for trace in figure.data}
    for position, size in enumerate([4, 20]):
        recommendation = ranked.recommendation_for(batch_size=size, over="worst")
        assert lines["row to use"][position] == recommendation.value
        assert lines["lowest"][position] == pytest.approx(recommendation.value - recommendation.excess)
        assert lines["as is"][position] == recommendation.as_is
    with pytest.raises(ValueError, match="give one of mean, worst, regret, clean"):
        ranked.by_batch_size.plot(over="best")


def test_a_chart_without_a_value_is_an_error(networks):
    bad = [(x * float("inf"), y) for x, y in make_data()]
    result = bln_search.evaluate_configurations(networks[0], TRAIN, {"bad": bad})
    for table in (result, result["bad"]):
        with pytest.raises(bln_search.ModelError, match="chart needs a row"):
            table.plot()
    assert Split.VALIDATION not in result["bad"][0].row.metrics
