"""Charts over a stream have a line for each arm, a mark where streams collapse, and lines where conditions begin."""

from __future__ import annotations

import csv
import io

from bln_search.ranking.stream_results import StudyStreams
from bln_search.reports.charts.streams import MAX_DRAWN_ARMS, MEASURES, stream_chart
from tests.reports.charts.figures import traces_by_name
from tests.support.study_streams import adaptation_row, study_streams


def test_each_arm_is_a_line_of_errors_in_per_cent_over_the_middles_of_windows():
    chart = stream_chart(study_streams(), MEASURES["errors"])
    traces = traces_by_name(chart.figure)
    assert traces["none F"]["x"] == [0.5, 2.5, 4.5]
    assert [round(value, 9) for value in traces["none F"]["y"]] == [5, 10, 15]
    layout = chart.figure["layout"]
    assert (layout["xaxis"]["title"]["text"], layout["yaxis"]["title"]["text"]) == ("mini-batch", "error (%)")


def test_a_collapse_is_a_mark_on_the_line_of_its_arm_and_told_in_the_caption():
    chart = stream_chart(study_streams(), MEASURES["losses"])
    mark = traces_by_name(chart.figure)["tent F: collapse"]
    assert (mark["x"], mark["y"], mark["text"]) == ([3], [2.0], ["seed 1, order 0"])
    assert "no better than chance" in chart.caption
    assert "A line stops where the arm ended." in chart.caption


def test_a_condition_begins_at_a_dotted_line_except_the_first_one():
    chart = stream_chart(study_streams(), MEASURES["errors"])
    assert [shape["x0"] for shape in chart.figure["layout"]["shapes"]] == [2.5]
    assert "noise from 0, fog from 3" in chart.caption


def test_the_data_have_every_window_of_every_arm():
    rows = list(csv.DictReader(io.StringIO(stream_chart(study_streams(), MEASURES["errors"]).rows_as_csv)))
    assert len(rows) == 9
    assert rows[-1] == {
        "arm": "tent F",
        "first mini-batch": "4",
        "condition": "fog",
        "error": "0.8500000000000001",
        "loss": "",
        "collapsed": "1",
    }


def test_of_many_arms_the_best_ones_and_those_that_fail_are_drawn():
    failing = study_streams().rows[-1]
    streams = study_streams(*(adaptation_row(f"arm {number}", 0.1) for number in range(30)), failing)
    chart = stream_chart(streams, MEASURES["errors"])
    names = traces_by_name(chart.figure)
    assert {"arm 0", "arm 10", "tent F"} <= names.keys()
    assert "arm 11" not in names
    assert f"{MAX_DRAWN_ARMS} of 31 arms are drawn" in chart.caption


def test_without_arms_there_is_no_chart():
    assert stream_chart(StudyStreams(reason="nothing"), MEASURES["errors"]) is None
