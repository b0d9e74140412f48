"""The table of arms of adaptation: errors in per cent, what ended, and on which data options were selected."""

from __future__ import annotations

import pytest

from bln_search.core.streams import SelectionData
from bln_search.reports.stream_table import stream_records, stream_sentences, stream_table
from bln_search.specs.sections.stream import StreamSpec
from tests.support.study_streams import adaptation_row, study_streams


def cells(name, streams=None):
    table = stream_table(streams or study_streams())
    return list(next(column.cells for column in table.columns if column.name == name))


def test_errors_are_in_per_cent_with_their_deviation_and_the_difference_has_an_interval():
    assert cells("error %") == ["10.00 ± 1.00", "30.00 ± 1.00", "80.00 ± 1.00"]
    assert cells("difference (95 %)") == ["–", "+20.00 [+15.00, +25.00]", "–"]
    assert cells("fog %") == ["15.00", "35.00", "85.00"]


def test_an_arm_that_ended_has_no_calibration_and_says_where_it_collapsed_and_ended():
    assert [cells(name)[-1] for name in ("NLL", "ECE", "Brier", "verdict")] == ["–", "–", "–", ""]
    assert cells("ended")[-1] == "collapsed at 3 (1×), ended at 4 (1×)"
    sentences = stream_sentences(study_streams(), StreamSpec())
    assert "Collapsed: tent F, in 1 of 4 streams, first at mini-batch 3." in sentences
    assert any(line.startswith("Ended early: tent F, in 1 of 4 streams") and "diverged" in line for line in sentences)


def test_options_that_were_selected_by_test_labels_are_marked():
    assert cells("selected on") == ["–", "–", "TEST LABELS"]
    assert "Selected by test labels, which no one has at inference: tent F." in stream_sentences(
        study_streams(), StreamSpec()
    )
    assert cells("selected on", study_streams(adaptation_row(selected_on=SelectionData.HELD_OUT))) == [
        "held-out conditions"
    ]


def test_one_condition_has_no_column_of_its_own():
    names = [
        column.name for column in stream_table(study_streams(adaptation_row(errors_by_condition={"fog": 0.1}))).columns
    ]
    assert "fog %" not in names


def test_sentences_say_what_the_streams_were_and_what_is_not_compared():
    first, *_, last = stream_sentences(
        study_streams(excluded={"bn, none F": "it has 2 streams, and others have 4"}), StreamSpec(orders=2)
    )
    assert first == "2 networks, 2 orders (shuffled) of 6 mini-batches of 64 test examples, reset: never."
    assert last == "Not compared: bn, none F: it has 2 streams, and others have 4."


def test_records_have_errors_as_fractions_and_the_same_fields():
    records = stream_records(study_streams())
    assert [record["rank"] for record in records] == [1, 2, 3]
    assert len({tuple(record) for record in records}) == 1
    assert records[2]["error_fog"] == pytest.approx(0.85)
    assert (records[2]["first_collapse"], records[2]["first_end"], records[2]["options"]) == (3, 4, "learning_rate=0.1")
