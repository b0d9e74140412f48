"""The leaderboard as CSV, JSON and JSON lines holds the same rows, with what the table shows of the analysis."""

from __future__ import annotations

import csv
import io
import json

import pytest

from bln_search.core.configuration import InferenceConfiguration
from bln_search.core.enums import PopulationEstimate
from bln_search.core.records import RowKey
from bln_search.ranking.analysis import Analysis
from bln_search.ranking.selection.recommendation import recommend_row
from bln_search.reports import leaderboard_csv, leaderboard_json
from bln_search.reports.export import export_field_types, leaderboard_jsonl
from bln_search.reports.leaderboard_columns import LeaderboardView, evaluation_setting_id_of_row
from tests.ranking.comparisons import compared
from tests.reports.leaderboards import make_board


def test_csv_and_json_have_the_same_rows():
    lines = list(csv.DictReader(io.StringIO(leaderboard_csv(make_board()))))
    document = json.loads(leaderboard_json(make_board(), {"study": "s"}))
    assert [line["configuration"] for line in lines] == ["FFFF", "TTFF", "FTFF"]
    assert list(lines[0]) == [*export_field_types(make_board(), with_analysis=False), "ranked_on"]
    for line, row in zip(lines, document["rows"], strict=True):
        assert line.pop("ranked_on") == document["ranked_on"] == "validation"
        assert {key: "" if value is None else str(value) for key, value in row.items()} == line
    assert document["rows"][2]["validation_loss_mean"] is None
    assert document["study"] == "s"


ANALYSIS_COLUMNS = (
    *("setting", "recommended", "verdict", "loss_above_best", "loss_above_best_low", "loss_above_best_high"),
    *("p_value", "p_best"),
)


@pytest.fixture
def analysis():
    """The first two rows of the leaderboard compared; the second is recommended."""
    comparison = compared("FFFF", "TTFF", step=0.001)
    return Analysis(comparison=comparison, recommendation=recommend_row(comparison, {}))


def test_rows_carry_what_the_table_shows(analysis):
    rows = json.loads(leaderboard_json(make_board(), {}, LeaderboardView.of_analysis(make_board(), analysis)))["rows"]
    best, recommended, not_compared = rows
    row = analysis.comparison.rows[1]
    assert [entry["recommended"] for entry in rows] == [False, True, False]
    assert (best["verdict"], recommended["verdict"], best["loss_above_best"]) == ("best", "cannot tell", 0.0)
    assert best["loss_above_best_low"] is best["p_value"] is None
    interval = row.above_best.low, row.above_best.high
    assert (recommended["loss_above_best_low"], recommended["loss_above_best_high"]) == interval
    assert recommended["loss_above_best"] == row.above_best.mean
    assert (recommended["p_value"], recommended["p_best"]) == (row.above_best.adjusted, row.first_share)
    assert [name for name in ANALYSIS_COLUMNS if not_compared[name] is not None] == ["setting", "recommended"]


def test_csv_json_and_json_lines_hold_the_same_comparison(analysis):
    comparisons = LeaderboardView.of_analysis(make_board(), analysis)
    rows = json.loads(leaderboard_json(make_board(), {}, comparisons))["rows"]
    lines = [json.loads(line) for line in leaderboard_jsonl(make_board(), {"study": "s"}, comparisons).splitlines()]
    assert lines == [{"study": "s", "ranked_on": "validation", **row} for row in rows]
    table = list(csv.DictReader(io.StringIO(leaderboard_csv(make_board(), comparisons))))
    assert list(table[0]) == [*export_field_types(make_board(), with_analysis=True), "ranked_on"]
    for line, row in zip(table, rows, strict=True):
        assert line.pop("ranked_on") == "validation"
        assert {name: "" if value is None else str(value) for name, value in row.items()} == line


def test_without_an_analysis_there_are_no_values():
    rows = json.loads(leaderboard_json(make_board(), {}, LeaderboardView.of_analysis(make_board(), None)))["rows"]
    assert all(row[name] is None for row in rows for name in ANALYSIS_COLUMNS if name != "setting")


def test_configurations_under_one_condition_share_its_identity():
    first, second = (
        RowKey("bln", "", InferenceConfiguration(code), PopulationEstimate.FROZEN, 25) for code in ("TTFF", "FTFF")
    )
    assert (
        evaluation_setting_id_of_row(first)
        == evaluation_setting_id_of_row(second)
        == "arm=bln;population=frozen;batch_size=25"
    )
    assert evaluation_setting_id_of_row(first._replace(batch_size=1)) != evaluation_setting_id_of_row(first)
    assert evaluation_setting_id_of_row(first._replace(point='{"training.epochs": 2}')) != evaluation_setting_id_of_row(
        first
    )


def test_csv_says_that_the_code_of_its_results_changed():
    plain = list(csv.DictReader(io.StringIO(leaderboard_csv(make_board()))))
    lines = list(csv.DictReader(io.StringIO(leaderboard_csv(make_board(), code_changes=("a.py changed.", "b.py.")))))
    assert [line.pop("code_changes") for line in lines] == ["a.py changed. b.py."] * len(plain)
    assert lines == plain
