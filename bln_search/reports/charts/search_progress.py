"""Charts of the course of a search: losses and the lowest one by trained epochs, and the schedules that it tried."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean
from typing import Any

from pydantic import TypeAdapter

from bln_search.core.states import TrialState
from bln_search.reports.charts.chart import Chart, plotly_layout, series_colour
from bln_search.reports.charts.search import colour_between_blue_and_orange
from bln_search.reports.charts.value_range import TOP, ValueRange, find_value_range
from bln_search.specs.sampled_trial import SampledTrial
from bln_search.specs.sections.schedule import Schedule
from bln_search.specs.sections.search import Sampler
from bln_search.specs.sections.space import HORIZON_KEY, ScheduleDimension, Space, format_point
from bln_search.specs.study import StudySpec

_MAX_SCHEDULES = 150
_RAMP_POINTS = 30
_STOPPED_COLOUR = "#999999"


@dataclass(frozen=True)
class TriedPoint:
    """A point of a search in the order of suggestion.

    Attributes:
        arm: The arm.
        parameters: The point.
        epochs: Number of epochs that its trials trained.
        state: State of its trials: FINISHED if all are, else that of one that is not.
        loss: Objective of a finished point, the mean over its seeds; of another one its last validation loss. None
            without epochs.
    """

    arm: str
    parameters: Mapping[str, Any]
    epochs: int
    state: TrialState
    loss: float | None

    @property
    def is_finished(self) -> bool:
        """Whether the loss is that of complete trials."""
        return self.state is TrialState.FINISHED and self.loss is not None


def has_sampler(spec: StudySpec) -> bool:
    """Whether a sampler suggests points while the study runs, so that their order tells something."""
    return spec.search is not None and spec.search.sampler is not Sampler.GRID


def list_tried_points(points: Iterable[Sequence[SampledTrial]], spec: StudySpec) -> list[TriedPoint]:
    """The points of a search, without the full trainings of its best points; none for a study without a sampler.

    Args:
        points: The trials of every point in the order of suggestion.
        spec: The study.
    """
    if not has_sampler(spec):
        return []
    return [
        _make_tried_point(trials, spec)
        for trials in points
        if trials[0].trial.is_search_phase_trial or not spec.trains_best_points_after_search
    ]


def _make_tried_point(trials: Sequence[SampledTrial], spec: StudySpec) -> TriedPoint:
    assert spec.search is not None
    unfinished = [trial.state for trial in trials if trial.state is not TrialState.FINISHED]
    if unfinished:
        values = [trial.losses[max(trial.losses)] for trial in trials if trial.losses]
    else:
        objectives = [trial.objective_value(spec.search.objectives[0]) for trial in trials]
        values = [value for value in objectives if value is not None]
    return TriedPoint(
        trials[0].trial.arm,
        {key: value for key, value in trials[0].parameters.items() if key != HORIZON_KEY},
        sum(len(trial.losses) for trial in trials),
        unfinished[0] if unfinished else TrialState.FINISHED,
        fmean(values) if values else None,
    )


def search_history_chart(points: Sequence[TriedPoint], measure: str = "loss") -> Chart | None:
    """Loss of every point by the epochs trained so far, and the lowest loss so far; None without a finished point.

    Epochs are counted for each arm. Points that the pruner stopped count with the epochs that they were trained.

    Args:
        points: The points in the order of suggestion.
        measure: Name of their losses.
    """
    rows = list(_iter_history(points, measure))
    finished = [row for row in rows if row["state"] == TrialState.FINISHED]
    if not finished:
        return None
    in_range = find_value_range(row[measure] for row in finished)
    traces: list[dict[str, Any]] = []
    for position, arm in enumerate(dict.fromkeys(row["arm"] for row in finished)):
        colour = series_colour(position)
        of_arm = [row for row in finished if row["arm"] == arm]
        shown = [row for row in of_arm if in_range.contains(row[measure])]
        traces += [
            _marks(shown, measure, f"{arm}, trained to the end", "circle-open", colour, in_range),
            _lowest_so_far(of_arm, f"{arm}, lowest so far", colour),
        ]
    stopped = [row for row in rows if row["state"] == TrialState.PRUNED]
    if stopped:
        traces.append(_marks(stopped, measure, "stopped by the pruner", "x", _STOPPED_COLOUR, in_range))
    traces += in_range.above_range_traces(((row["trained epochs"], row[measure]) for row in finished), TOP)
    layout = plotly_layout("trained epochs", measure, yaxis={"range": in_range.axis_range}, hovermode="closest")
    caption = (
        "One mark per point after the epochs trained up to its end; the line is the lowest value of the points that "
        "were trained to their end."
    )
    if stopped:
        caption += " Crosses are trials that the pruner stopped, at their last loss or at the upper end of the axis."
    return Chart("Course of the search", caption, {"data": traces, "layout": layout}, rows)


def _iter_history(points: Iterable[TriedPoint], measure: str) -> Iterator[dict[str, Any]]:
    """Yield the points that have ended with a loss, with the epochs of their arm and the lowest loss so far."""
    spent: dict[str, int] = {}
    lowest: dict[str, float] = {}
    for point in points:
        spent[point.arm] = spent.get(point.arm, 0) + point.epochs
        if point.loss is None or not (point.is_finished or point.state is TrialState.PRUNED):
            continue
        if point.is_finished:
            lowest[point.arm] = min(point.loss, lowest.get(point.arm, point.loss))
        yield {
            "arm": point.arm,
            "parameters": format_point(dict(point.parameters)),
            "trained epochs": spent[point.arm],
            "state": point.state.value,
            measure: point.loss,
            "lowest so far": lowest.get(point.arm),
        }


def _marks(
    rows: Sequence[Mapping[str, Any]], measure: str, name: str, symbol: str, colour: str, in_range: ValueRange
) -> dict[str, Any]:
    return {
        "type": "scatter",
        "mode": "markers",
        "name": name,
        "x": [row["trained epochs"] for row in rows],
        "y": [in_range.position(row[measure]) for row in rows],
        "text": [f"{row['parameters']}<br>loss {row[measure]:.5f}" for row in rows],
        "marker": {"color": colour, "symbol": symbol, "size": 7},
        "hovertemplate": "%{text}, %{x} epochs<extra></extra>",
    }


def _lowest_so_far(rows: Sequence[Mapping[str, Any]], name: str, colour: str) -> dict[str, Any]:
    """A line with a corner at each epoch: images and reports draw no other steps."""
    x, y = [rows[0]["trained epochs"]], [rows[0]["lowest so far"]]
    for row in rows[1:]:
        x += [row["trained epochs"]] * 2
        y += [y[-1], row["lowest so far"]]
    line = {"color": colour, "width": 2}
    return {"type": "scatter", "mode": "lines", "name": name, "x": x, "y": y, "line": line, "hoverinfo": "skip"}


def schedules_chart(points: Sequence[TriedPoint], space: Space, measure: str = "loss") -> Chart | None:
    """The schedules of a search, coloured by loss; None without a schedule in the space and two finished points.

    Of several schedules in the space the first is drawn.

    Args:
        points: The points.
        space: The space.
        measure: Name of their losses.
    """
    keys = [key for key, dimension in space.items() if isinstance(dimension, ScheduleDimension)]
    finished = sorted((point for point in points if point.is_finished), key=lambda point: point.loss or 0.0)
    if not keys or len(finished) < 2:
        return None
    drawn = finished[:_MAX_SCHEDULES]
    in_range = find_value_range(point.loss for point in drawn)
    span = in_range.high - in_range.low
    traces = []
    for point in reversed(drawn):
        assert point.loss is not None
        x, y = _schedule_corners(point.parameters[keys[0]])
        is_best = point is drawn[0]
        share = min(1.0, (point.loss - in_range.low) / span) if span else 0.0
        traces.append(
            {
                "type": "scatter",
                "mode": "lines",
                "x": x,
                "y": y,
                "line": {"color": colour_between_blue_and_orange(share), "width": 3.5 if is_best else 1.2},
                "opacity": 1 if is_best else 0.6,
                "name": "lowest" if is_best else "",
                "showlegend": False,
                "hovertemplate": f"{point.arm}, {measure} {point.loss:.5f}: %{{y:.3g}}<extra></extra>",
            }
        )
    layout = plotly_layout("fraction of training", keys[0].partition(".")[2] or keys[0], xaxis={"range": [0, 1]})
    caption = (
        f"One line per point that was trained to its end: {keys[0]} by the fraction of training. Blue is the lowest "
        f"{measure}, orange the highest, the thick line the best point."
    )
    if len(drawn) < len(finished):
        caption += f" The best {len(drawn)} of {len(finished):,} points are drawn."
    if len(keys) > 1:
        caption += f" Not drawn: {', '.join(keys[1:])}."
    rows = [
        {"arm": point.arm, keys[0]: format_point({keys[0]: point.parameters[keys[0]]}), measure: point.loss}
        for point in finished
    ]
    return Chart("Schedules of the search", caption, {"data": traces, "layout": layout}, rows)


def _schedule_corners(value: Any) -> tuple[list[float], list[float]]:
    """Fractions of training and values between which the schedule is drawn as straight lines."""
    schedule: Schedule = TypeAdapter(Schedule).validate_python(value)
    if schedule.kind == "steps":
        starts = sorted(schedule.steps)
        ends = [*starts[1:], 1.0]
        x = [fraction for pair in zip(starts, ends, strict=True) for fraction in pair]
        return x, [schedule.steps[start] for start in starts for _ in range(2)]
    x = [place / _RAMP_POINTS for place in range(_RAMP_POINTS + 1)]
    return x, [schedule.value_at_progress(place) for place in x]
