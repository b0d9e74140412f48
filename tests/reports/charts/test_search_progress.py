"""The course of a search by trained epochs, and its schedules."""

from __future__ import annotations

import pytest
from pydantic import TypeAdapter

from bln_search.core.records import CheckpointRecord
from bln_search.core.states import TrialState
from bln_search.reports.charts.search_progress import (
    TriedPoint,
    list_tried_points,
    schedules_chart,
    search_history_chart,
)
from bln_search.reports.charts.svg.draw import draw_svg
from bln_search.specs import parse_study
from bln_search.specs.records import TrialRecord
from bln_search.specs.sampled_trial import SampledTrial
from bln_search.specs.sections.space import HORIZON_KEY, Dimension

KEY = "arm.lambda"
SPACE = {KEY: TypeAdapter(Dimension).validate_python({"kind": "schedule", "at": [0, 0.4], "low": 0, "high": 1})}
FINISHED, PRUNED, DIVERGED, RUNNING = (TrialState(name) for name in ("finished", "pruned", "diverged", "running"))


def point(loss, steps=(0.1, 0.5), epochs=4, state=FINISHED, arm="mbn"):
    schedule = {"kind": "steps", "steps": dict(zip(("0", "0.4"), steps, strict=True))}
    return TriedPoint(arm, {KEY: schedule}, epochs, state, loss)


POINTS = [
    point(0.5),
    point(0.2, epochs=1, state=PRUNED),
    point(0.6, (0.9, 0.1)),
    point(None, epochs=2, state=DIVERGED),
    point(0.3, (0.2, 0.9)),
    point(0.4, epochs=3, state=RUNNING),
]


def line(chart):
    (trace,) = (trace for trace in chart.figure["data"] if "lowest so far" in trace["name"])
    return list(zip(trace["x"], trace["y"], strict=True))


def test_lowest_loss_falls_at_the_epochs_trained_up_to_a_finished_point():
    assert line(search_history_chart(POINTS)) == [(4, 0.5), (9, 0.5), (9, 0.5), (15, 0.5), (15, 0.3)]


def test_stopped_points_are_marked_and_count_with_their_epochs():
    chart = search_history_chart(POINTS)
    (stopped,) = (trace for trace in chart.figure["data"] if trace["name"] == "stopped by the pruner")
    assert (stopped["x"], stopped["y"]) == ([5], [0.2])
    assert [(row["trained epochs"], row["state"]) for row in chart.rows] == [
        (4, "finished"),
        (5, "pruned"),
        (9, "finished"),
        (15, "finished"),
    ]


def test_stopped_points_above_the_axis_stand_at_its_end():
    chart = search_history_chart([point(0.5), point(0.51), point(9.0, epochs=1, state=PRUNED)])
    (stopped,) = (trace for trace in chart.figure["data"] if trace["name"] == "stopped by the pruner")
    assert 0.51 < stopped["y"][0] < chart.figure["layout"]["yaxis"]["range"][1]
    assert "loss 9.00000" in stopped["text"][0]


def test_epochs_are_counted_for_each_arm():
    chart = search_history_chart([point(0.5), point(0.4, arm="bn"), point(0.3)])
    assert [(row["arm"], row["trained epochs"]) for row in chart.rows] == [("mbn", 4), ("bn", 4), ("mbn", 8)]


def test_no_course_without_a_finished_point():
    assert search_history_chart([]) is None
    assert search_history_chart([point(0.2, state=PRUNED), point(0.1, state=RUNNING)]) is None


def test_schedules_are_steps_over_training_with_the_lowest_loss_last_and_thick():
    traces = schedules_chart(POINTS, SPACE).figure["data"]
    assert [trace["y"] for trace in traces] == [[0.9, 0.9, 0.1, 0.1], [0.1, 0.1, 0.5, 0.5], [0.2, 0.2, 0.9, 0.9]]
    assert all(trace["x"] == [0, 0.4, 0.4, 1] for trace in traces)
    assert [trace["line"]["width"] > 2 for trace in traces] == [False, False, True]
    assert traces[-1]["line"]["color"] == "rgb(0,114,178)"
    assert traces[0]["line"]["color"] == "rgb(213,94,0)"


@pytest.mark.parametrize(
    "value", [{"kind": "linear", "initial": 0.2, "final": 0.8}, {"kind": "constant", "value": 0.3}]
)
def test_ramps_are_drawn_at_many_fractions(value):
    points = [TriedPoint("mbn", {KEY: value}, 4, FINISHED, loss) for loss in (0.1, 0.2)]
    trace = schedules_chart(points, SPACE).figure["data"][0]
    assert (trace["x"][0], trace["x"][-1]) == (0, 1)
    assert trace["y"][0] == value.get("initial", value.get("value"))
    assert trace["y"][-1] == value.get("final", value.get("value"))


def test_no_schedules_without_one_in_the_space_or_two_finished_points():
    assert schedules_chart(POINTS, {}) is None
    assert schedules_chart(POINTS[:2], SPACE) is None


@pytest.mark.parametrize("chart", [search_history_chart(POINTS), schedules_chart(POINTS, SPACE)])
def test_charts_are_drawn_by_plotly_and_in_reports(chart):
    from plotly import graph_objects

    graph_objects.Figure(chart.figure)
    assert "<polyline" in draw_svg(chart)


STUDY = parse_study("""
name: searched
data: {name: digits}
model: {name: mlp}
arms: [{method: mbn}]
training: {epochs: 4}
seeds: [1, 2]
space: {arm.lambda: {kind: schedule, at: [0, 0.4], low: 0, high: 1}}
search: {then_train: true, trial_seeds: [0]}
""")


def sampled(steps, state, losses, *, horizon=True):
    parameters = {KEY: {"kind": "steps", "steps": steps}, **({HORIZON_KEY: 4} if horizon else {})}
    checkpoint = CheckpointRecord("a", "b", 4, "MM--", 0.25, {}) if state is FINISHED else None
    trial = TrialRecord(1, 1, "mbn", "mbn", 0, parameters, state, checkpoint=checkpoint)
    return [SampledTrial(trial, dict(enumerate(losses, start=1)))]


def test_tried_points_are_the_search_trials_with_their_objective_or_last_loss():
    steps = {"0": 0.1, "0.4": 0.5}
    trials = [
        sampled(steps, FINISHED, [0.9, 0.4, 0.3, 0.26]),
        sampled(steps, PRUNED, [0.9, 0.8]),
        sampled(steps, FINISHED, [0.9] * 4, horizon=False),
    ]
    first, second = list_tried_points(trials, STUDY)
    assert (first.loss, first.epochs, first.state) == (0.25, 4, FINISHED)
    assert (second.loss, second.epochs, second.state) == (0.8, 2, PRUNED)
    assert first.parameters == {KEY: {"kind": "steps", "steps": steps}}


def test_grid_has_no_course():
    grid = STUDY.model_copy(update={"search": None})
    assert list_tried_points([sampled({"0": 0.1}, FINISHED, [0.1])], grid) == []
