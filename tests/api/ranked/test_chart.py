"""Charts of ranked tables as figures of plotly."""

from __future__ import annotations

import sys

import numpy as np
import pytest
from scipy import stats

import bln_search
from bln_search.core.enums import Split
from bln_search.core.errors import OutputFileError
from tests.api.shifted_data import conditions, make_data, trained

TRAIN = {"source": make_data(200, 1)}


@pytest.fixture(scope="module")
def networks():
    return [trained(seed) for seed in range(2)]


@pytest.fixture(scope="module")
def layers(networks):
    return bln_search.search_layers(networks[0], TRAIN["source"], make_data())


@pytest.fixture(scope="module")
def ranked(networks):
    return bln_search.evaluate_configurations(networks[0], TRAIN, conditions(), batch_sizes=[4, 20])


def test_a_table_shows_losses_with_their_intervals(ranked):
    table = ranked["large"]
    figure = table.plot()
    points = {
        label: (x, half)
        for trace in figure.data
        if trace.error_x.array is not None
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
        np.median([half for trace in table.plot().data for half in trace.error_x.array or ()])
        for table in (ranked["large"], several)
    ]
    assert widths[1] > widths[0]


def test_conditions_are_a_heat_map_of_their_losses(ranked):
    (trace,) = ranked.plot().data
    assert trace.type == "heatmap"
    assert list(trace.x) == list(ranked)
    losses = ranked.rows_over_conditions.losses
    texts = [[text.removeprefix("▲ ") for text in line] for line in trace.text]
    assert texts == [[f"{loss:.4f}" for loss in line] for line in losses]
    order, regrets = np.argsort(np.ravel(trace.z)), np.ravel(losses - losses.min(axis=0))
    assert list(regrets[order]) == sorted(regrets)
    marked = {mark: [label for label in trace.y if mark in label] for mark in "★●"}
    recommended, as_is = ranked.recommended, ranked.rows_over_conditions.as_is_row_key
    assert [str(recommended.configuration) in label for label in marked["★"]] == [True]
    assert [str(as_is.configuration) in label for label in marked["●"]] == [True]


def test_sizes_are_lines_of_the_criterion(ranked):
    figure = ranked.by_batch_size.plot(over="worst")
    lines = {trace.name: list(trace.y) for trace in figure.data}
    assert figure.layout.yaxis.title.text == "mean loss of the worst condition (nats)"
    for position, size in enumerate([4, 20]):
        recommendation = ranked.recommendation_for(batch_size=size, over="worst")
        assert lines["row to use"][position] == recommendation.value
        assert lines["lowest"][position] == pytest.approx(recommendation.value - recommendation.excess)
        assert lines["as is"][position] == recommendation.as_is
    with pytest.raises(ValueError, match="give one of mean, worst, regret, clean"):
        ranked.by_batch_size.plot(over="best")


def test_recommended_row_and_row_in_use_are_marked(ranked):
    table = ranked["large"]
    traces = {trace.name: trace for trace in table.plot().data}
    for name, row in {"recommended": table.recommended, "in use": table.as_is}.items():
        (label,) = traces[name].y
        assert label.startswith(str(row.configuration))
        assert traces[name].x[0] == pytest.approx(row.row.metrics[Split.VALIDATION].loss.mean)


def test_every_table_is_written_as_an_image(ranked, layers, tmp_path):
    compared = bln_search.compare({"a": [0.1, 0.2, 0.3], "b": [0.3, 0.5, 0.4]})
    tables = {"conditions": ranked, "rows": ranked["large"], "sizes": ranked.by_batch_size, "layers": layers}
    for name, table in (tables | {"scores": compared}).items():
        for suffix, start in {".png": b"\x89PNG", ".svg": b"<?xml", ".PDF": b"%PDF"}.items():
            file = table.savefig(tmp_path / "new" / f"{name}{suffix}")
            assert file.read_bytes().startswith(start)
    worst, regret = (ranked.by_batch_size.savefig(tmp_path / f"{over}.svg", over=over) for over in ("worst", "regret"))
    assert worst.read_bytes() != regret.read_bytes()


def test_layers_show_the_effect_of_each_switch(layers):
    (trace,) = layers.plot().data
    effects = {(effect.choice, effect.statistic): effect.loss for effect in layers.result.effects}
    drawn = {(y, x): z for y, line in zip(trace.y, trace.z, strict=True) for x, z in zip(trace.x, line, strict=True)}
    assert {place: z for place, z in drawn.items() if z is not None} == pytest.approx(effects)


@pytest.mark.parametrize(
    ("name", "options", "message"),
    [
        ("figure.jpg", {}, "written as .png, .svg, .pdf"),
        ("figure", {}, "written as"),
        ("figure.png", {"width_mm": 0}, "width_mm is a number from 30 to 500"),
        ("figure.png", {"width_mm": float("nan")}, "width_mm"),
        ("figure.png", {"dpi": "300"}, "dpi is a number from 30 to 1,200"),
    ],
)
def test_an_image_that_cannot_be_is_one_error_and_no_file(ranked, tmp_path, name, options, message):
    with pytest.raises(ValueError, match=message):
        ranked.savefig(tmp_path / name, **options)
    assert not list(tmp_path.iterdir())


def test_an_image_that_cannot_be_written_leaves_nothing(ranked, tmp_path, monkeypatch):
    (tmp_path / "folder.png").mkdir()
    with pytest.raises(OutputFileError, match=r"folder\.png cannot be written"):
        ranked.savefig(tmp_path / "folder.png")
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    with pytest.raises(bln_search.MissingPackageError, match=r"pip install 'bln-search\[plot\]'"):
        ranked.savefig(tmp_path / "figure.png")
    assert [path.name for path in tmp_path.iterdir()] == ["folder.png"]


def test_a_chart_without_a_value_is_an_error(networks):
    bad = [(x * float("inf"), y) for x, y in make_data()]
    result = bln_search.evaluate_configurations(networks[0], TRAIN, {"bad": bad})
    for table in (result, result["bad"]):
        with pytest.raises(bln_search.ModelError, match="chart needs a row"):
            table.plot()
    assert Split.VALIDATION not in result["bad"][0].row.metrics
