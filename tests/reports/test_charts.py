"""Every chart is a valid Plotly figure with the values of its rows."""

from __future__ import annotations

import csv
import io
import json
import re

import numpy as np
import pytest
from plotly.colors import sample_colorscale

from bln_search.core.configuration import InferenceConfiguration, all_configurations
from bln_search.core.enums import PopulationEstimate
from bln_search.core.method import Method
from bln_search.core.records import LayerWeightNormAndCurvature, RowKey, StatisticDrift
from bln_search.ranking.grouping import RowKeyWithoutConfiguration
from bln_search.ranking.statistics.student_t import two_sided_t_quantile
from bln_search.reports.charts.configurations import (
    NOT_EVALUATED,
    configuration_losses_heat_map,
    configuration_ranks_chart,
    switch_effects_chart,
)
from bln_search.reports.charts.curves import ERROR, TrialLearningCurve, learning_curves_chart
from bln_search.reports.charts.evaluation_settings import (
    restrict_to_settings_of_best_points,
    search_point_results_from_rows,
)
from bln_search.reports.charts.layers import (
    CURVATURE,
    EFFECTIVE_RATE,
    WEIGHT_NORM,
    geometry_by_epoch_chart,
    statistics_drift_chart,
)
from bln_search.reports.charts.search import (
    SearchPointResult,
    flatten_parameters,
    loss_and_time_pareto_chart,
    parallel_coordinates_chart,
    parameter_importance_chart,
)

WORDS = all_configurations(Method.BLN)
RNG = np.random.default_rng(0)


def losses(seeds=3, codes=WORDS):
    return {code: {seed: float(RNG.random()) for seed in range(seeds)} for code in codes}


def points(count=20, seconds=None):
    drawn_points = [{"rate": float(RNG.random()), "kind": "ab"[n % 2]} for n in range(count)]
    return [SearchPointResult("mbn", point, n / 10, seconds and seconds(n)) for n, point in enumerate(drawn_points)]


def setting(estimate="frozen", batch_size=25):
    return RowKeyWithoutConfiguration("bln", "", PopulationEstimate(estimate), batch_size)


def curve(seed, epochs=3, arm="bln", point="", loss=1.0):
    records = [
        {
            "epoch": epoch,
            "training_loss": loss / epoch,
            "validation_loss": loss / epoch + 0.1,
            "training_accuracy": 1 - 0.2 / epoch,
            "validation_accuracy": 1 - 0.3 / epoch,
        }
        for epoch in range(1, epochs + 1)
    ]
    return TrialLearningCurve(arm, point, seed, records)


def with_test(trial_curve):
    epochs = [
        {**epoch, "test_loss": epoch["validation_loss"] + 1, "test_accuracy": 0.5} for epoch in trial_curve.epochs
    ]
    return TrialLearningCurve(trial_curve.arm, trial_curve.point, trial_curve.seed, epochs)


def test_epochs_on_test_have_a_line_only_where_they_were_evaluated():
    names = [
        {trace["name"] for trace in learning_curves_chart(curves, 1).figure["data"] if "name" in trace}
        for curves in ([curve(0)], [with_test(curve(0))])
    ]
    assert names == [{"bln, training", "bln, validation"}, {"bln, training", "bln, validation", "bln, test"}]
    (line,) = [
        trace
        for trace in learning_curves_chart([with_test(curve(0))], 1).figure["data"]
        if trace.get("name") == "bln, test"
    ]
    assert line["y"] == pytest.approx([2.1, 1.6, 1 / 3 + 1.1])


def curve_of_losses(seed, values):
    epochs = [
        {"epoch": epoch, "training_loss": value, "validation_loss": value, "validation_accuracy": 0.1}
        for epoch, value in enumerate(values, start=1)
    ]
    return TrialLearningCurve("bln", "", seed, [{**epoch, "training_accuracy": 0.9} for epoch in epochs])


def bands(chart):
    return [trace["y"] for trace in chart.figure["data"] if trace.get("fill") == "toself"]


def test_bands_of_few_seeds_do_not_flatten_the_curves():
    chart = learning_curves_chart([curve_of_losses(0, [0.6, 0.2]), curve_of_losses(1, [0.8, 0.4])], 2)
    values = np.array(bands(chart))
    means = np.array([0.7, 0.3])
    half = two_sided_t_quantile(0.95, 1) * np.std([0.6, 0.8], ddof=1) / np.sqrt(2)
    assert half > 1
    assert values.min() == pytest.approx(0.2 - 0.25 * 0.6)
    assert values.max() == pytest.approx(0.8 + 0.25 * 0.6)
    assert np.all(values[:, :2] >= means)
    assert np.all(values[:, 2:] <= means[::-1])
    assert "cut off" in chart.caption


def test_bands_of_losses_end_at_zero_and_those_of_errors_at_100_per_cent():
    curves = [curve_of_losses(0, [0.6, 0.01]), curve_of_losses(1, [0.8, 0.02])]
    assert np.min(bands(learning_curves_chart(curves, 2))) == 0
    assert np.max(bands(learning_curves_chart(curves, 2, ERROR))) <= 100
    negative = learning_curves_chart([curve_of_losses(0, [-1.0, -2.0]), curve_of_losses(1, [-1.5, -2.5])], 2)
    assert np.min(bands(negative)) < -2.5


def all_charts():
    yield "heat map", configuration_losses_heat_map(losses())
    yield "heat map with missing cells", configuration_losses_heat_map(losses(codes=WORDS[2:]))
    yield "heat map of LN", configuration_losses_heat_map(losses(codes=all_configurations(Method.LN)))
    yield "effects", switch_effects_chart(losses())
    yield "effects of one seed", switch_effects_chart(losses(1))
    yield "ranks", configuration_ranks_chart({setting(): losses(), setting("epoch"): losses()})
    yield "curves", learning_curves_chart([curve(0), curve(1), curve(0, arm="bn")], 3)
    yield "errors", learning_curves_chart([curve(0), curve(1), curve(0, arm="bn")], 3, ERROR)
    yield "curves of points", learning_curves_chart([curve(0, point="a"), curve(0, point="b", loss=1e9)], 200)
    yield "curves with test", learning_curves_chart([with_test(curve(0)), curve(1)], 2)
    yield "layers", statistics_drift_chart({seed: [StatisticDrift("0", "E_B", "frozen", 0.1, 0.0)] for seed in (0, 1)})
    for measure in (WEIGHT_NORM, EFFECTIVE_RATE, CURVATURE):
        yield measure.attribute, geometry_by_epoch_chart({("bn", ""): geometries(), ("ln", "x"): geometries()}, measure)
    yield "importance", parameter_importance_chart(points())
    yield "points", parallel_coordinates_chart(points(300))
    yield "front", loss_and_time_pareto_chart(points(seconds=lambda index: 21.0 - index))


def geometries(seeds=2):
    layers = [
        LayerWeightNormAndCurvature(epoch, layer, epoch + layer_index, rate, None, 0.5, None, None)
        for epoch in (1, 2)
        for layer_index, (layer, rate) in enumerate((("0", 0.1), ("3", None)))
    ]
    return dict.fromkeys(range(seeds), layers)


@pytest.mark.parametrize(("name", "chart"), list(all_charts()))
def test_figure_is_valid_for_plotly_and_rows_form_a_table(name, chart):
    from plotly import graph_objects

    graph_objects.Figure(chart.figure)  # raises for a property that does not exist or has a wrong value
    json.dumps(chart.figure, allow_nan=False)
    rows = list(csv.DictReader(io.StringIO(chart.rows_as_csv)))
    assert len(rows) == len(chart.rows) > 0
    assert chart.title
    assert chart.caption.endswith(".")


def test_the_heat_map_has_each_configuration_in_its_cell():
    table = losses()
    figure = configuration_losses_heat_map(table).figure["data"][0]
    for row, batch in enumerate(figure["y"]):
        for column, feature in enumerate(figure["x"]):
            values = table[InferenceConfiguration(batch + feature)].values()
            assert float(figure["customdata"][row][column]) == pytest.approx(np.mean(list(values)), abs=1e-5)


def test_cells_of_the_heat_map_without_a_loss_are_neutral_and_give_their_reason():
    undefined, absent, *measured = WORDS
    chart = configuration_losses_heat_map(losses(codes=measured), {undefined: "undefined: it has no value"})
    values, missing = chart.figure["data"]
    places = {
        batch + feature: (row, column)
        for row, batch in enumerate(values["y"])
        for column, feature in enumerate(values["x"])
    }
    for code, (row, column) in places.items():
        has_loss = code in set(map(str, measured))
        assert (values["z"][row][column] is None, missing["z"][row][column] is None) == (not has_loss, has_loss)
    texts = {code: missing["customdata"][row][column] for code, (row, column) in places.items()}
    assert {code: text for code, text in texts.items() if text} == {
        str(undefined): "undefined: it has no value",
        str(absent): NOT_EVALUATED,
    }
    assert len({colour for _, colour in missing["colorscale"]}) == 1
    for text in (f"{undefined} (undefined: it has no value)", f"{absent} ({NOT_EVALUATED})"):
        assert text in chart.caption
    assert "no loss" not in configuration_losses_heat_map(losses()).caption


def test_a_diverged_configuration_leaves_the_colors_of_the_others_and_is_marked():
    table = losses()
    diverged = WORDS[0]
    before, after = (
        configuration_losses_heat_map(table | {diverged: {0: loss}}, margin=0.01).figure for loss in (1.0, 43_120.4)
    )
    marked = {label["y"] + label["x"]: label["text"] for label in after["layout"]["annotations"]}
    assert marked.pop(str(diverged)) == "▲<br>43,120"
    assert not any("▲" in text for text in marked.values())
    assert max(max(line) for line in after["data"][0]["z"]) == after["data"][0]["zmax"]
    assert after["data"][0]["zmax"] <= before["data"][0]["zmax"]
    assert after["data"][0]["colorbar"]["ticktext"][-1].startswith("≥")


def test_the_recommended_configuration_is_marked():
    figure = configuration_losses_heat_map(losses(), recommended=WORDS[5]).figure
    marked = [label["y"] + label["x"] for label in figure["layout"]["annotations"] if "★" in label["text"]]
    assert marked == [str(WORDS[5])]


def luminance(color):
    """Relative luminance of `rgb(r, g, b)`, as WCAG 2.2 defines it."""
    parts = [int(part) / 255 for part in re.findall(r"\d+", color)]
    linear = [part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts]
    return float(np.dot(linear, [0.2126, 0.7152, 0.0722]))


def test_values_of_the_heat_map_are_readable_on_their_colors():
    figure = configuration_losses_heat_map(losses()).figure
    trace, labels = figure["data"][0], figure["layout"]["annotations"]
    assert len(labels) == 16
    for label in labels:
        row, column = trace["y"].index(label["y"]), trace["x"].index(label["x"])
        assert float(label["text"]) == pytest.approx(float(trace["customdata"][row][column]), abs=1e-4)
        (color,) = sample_colorscale("Viridis", [trace["z"][row][column] / trace["zmax"]])
        text = {"white": 1.0, "black": 0.0}[label["font"]["color"]]
        bright, dark = sorted((text, luminance(color)), reverse=True)
        assert (bright + 0.05) / (dark + 0.05) >= 4.5


def test_ranks_compare_settings_with_equal_configurations():
    table = losses()
    chart = configuration_ranks_chart(
        {
            setting(): table,
            setting("epoch"): losses(),
            RowKeyWithoutConfiguration("ln", "", PopulationEstimate.FROZEN, 25): losses(
                codes=all_configurations(Method.LN)
            ),
        }
    )
    first = [row for row in chart.rows if row["setting"] == chart.rows[0]["setting"]]
    ordered = sorted(first, key=lambda row: row["rank"])
    assert [row["loss"] for row in ordered] == sorted(row["loss"] for row in first)
    assert {row["configuration"] for row in chart.rows} == {str(code) for code in WORDS}


def test_ranks_compare_blends_only_without_other_pairs():
    blended = losses(codes=[code.with_blend_for_population for code in WORDS])
    labels = ("frozen@0.1", "frozen@0.5", "frozen@N16")
    blends = {RowKeyWithoutConfiguration("bln", "", label, 25): blended for label in labels}
    both = configuration_ranks_chart({setting(): losses(), setting("epoch"): losses(), **blends})
    assert {row["setting"] for row in both.rows} == {"frozen", "epoch"}
    one = configuration_ranks_chart({setting(): losses(), **blends})
    assert {row["setting"] for row in one.rows} == set(labels)


def test_points_that_are_alike_in_four_digits_have_their_own_texts():
    near = [SearchPointResult("bln", {"rate": rate}, rate, seconds=1.0) for rate in (0.012341, 0.012344)]
    lines = parallel_coordinates_chart(near)
    ends = [label["text"] for label in lines.figure["layout"]["annotations"] if label["x"] == "rate"]
    assert ends == ["0.012341", "0.012344"]
    assert {trace["text"][0] for trace in lines.figure["data"]} == {"rate 0.012341", "rate 0.012344"}
    front = loss_and_time_pareto_chart(near)
    assert set(front.figure["data"][0]["text"]) == {"rate 0.012341", "rate 0.012344"}


def test_no_chart_without_data():
    assert configuration_losses_heat_map({}) is None
    assert switch_effects_chart({WORDS[0]: {0: 1.0}}) is None
    assert configuration_ranks_chart({setting(): losses()}) is None
    assert learning_curves_chart([TrialLearningCurve("bln", "", 0, [])], 1) is None
    assert statistics_drift_chart({}) is None
    assert geometry_by_epoch_chart({}, CURVATURE) is None
    assert statistics_drift_chart({0: []}) is None
    assert parameter_importance_chart(points(7)) is None
    assert parallel_coordinates_chart(points(1)) is None
    assert loss_and_time_pareto_chart(points()) is None


def test_error_is_one_hundred_percent_minus_accuracy():
    traces = learning_curves_chart([curve(0), curve(1)], 2, ERROR).figure["data"]
    lines = {trace["name"]: trace["y"] for trace in traces if trace.get("name")}
    assert lines["bln, validation"] == pytest.approx([30, 15, 10])
    assert lines["bln, training"] == pytest.approx([20, 10, 20 / 3])


def test_the_geometry_is_averaged_over_the_layers_that_have_a_value():
    (norms,) = geometry_by_epoch_chart({("bn", ""): geometries()}, WEIGHT_NORM).figure["data"]
    assert (norms["name"], norms["x"], norms["y"]) == ("bn", [1, 2], [1.5, 2.5])
    (rates,) = geometry_by_epoch_chart({("bn", ""): geometries()}, EFFECTIVE_RATE).figure["data"]
    assert rates["y"] == pytest.approx([0.1, 0.1])


def test_outlier_trial_does_not_set_the_axis_range():
    outlier = TrialLearningCurve("bln", "x", 9, curve(0, 1, loss=1e18).epochs)
    chart = learning_curves_chart([*(curve(seed) for seed in range(9)), outlier], 10)
    assert chart.figure["layout"]["yaxis"]["range"][1] < 10
    assert "are not shown" in chart.caption


def test_curve_is_drawn_up_to_a_nan_loss():
    broken = TrialLearningCurve("bln", "", 0, [{"epoch": 1, "training_loss": None, "validation_loss": None}])
    assert learning_curves_chart([broken, curve(1)], 2) is not None


def test_pareto_front_has_the_undominated_points():
    results = [
        SearchPointResult("a", {"n": n}, loss, seconds)
        for n, (loss, seconds) in enumerate([(1, 1), (0.5, 2), (0.7, 3)])
    ]
    front = [row["n"] for row in loss_and_time_pareto_chart(results).rows if row["front"]]
    assert front == [0, 1]


def test_point_that_diverged_under_some_seeds_is_not_the_best():
    complete, incomplete = ({"training.learning_rate": rate} for rate in (0.01, 1.0))
    code = WORDS[0]
    by_point = {json.dumps(complete): {0: 0.30, 1: 0.31, 2: 0.32}, json.dumps(incomplete): {0: 0.2}}
    losses = {RowKey("bn", point, code, None, 25): values for point, values in by_point.items()}
    assert [point_result.loss for point_result in search_point_results_from_rows(losses, {})] == [pytest.approx(0.31)]
    settings = {RowKeyWithoutConfiguration("bn", point, None, 25): {code: values} for point, values in by_point.items()}
    assert [best_point.point for best_point in restrict_to_settings_of_best_points(settings)] == [json.dumps(complete)]
    assert restrict_to_settings_of_best_points({}) == {}


def test_schedules_are_flattened_into_columns():
    parameters = {"arm.lambda": {"kind": "steps", "steps": {"0": 0.1, "0.4": 0.5}}, "rate": 0.1}
    assert flatten_parameters(parameters) == {"arm.lambda 0": 0.1, "arm.lambda 0.4": 0.5, "rate": 0.1}
