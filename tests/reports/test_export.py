"""CSV, JSON, JSON lines and Parquet hold the same rows, with what the table shows of the analysis."""

from __future__ import annotations

import csv
import io
import json

import pyarrow
import pytest
from pyarrow import parquet
from scipy import stats

from bln_search.core.configuration import InferenceConfiguration
from bln_search.core.enums import PopulationEstimate, Split
from bln_search.core.records import RowKey
from bln_search.ranking.analysis import Analysis
from bln_search.ranking.leaderboard import Leaderboard
from bln_search.ranking.selection.recommendation import recommend_row
from bln_search.reports.export import (
    export_field_types,
    leaderboard_csv,
    leaderboard_json,
    leaderboard_jsonl,
    row_from_json_fields,
)
from bln_search.reports.leaderboard_columns import LeaderboardView, evaluation_setting_id_of_row
from bln_search.reports.parquet import leaderboard_parquet
from tests.ranking.comparisons import compared
from tests.reports.leaderboards import (
    GAP_LOSSES,
    make_board,
    make_board_with_conditions,
    make_board_with_train_split,
)

BOARDS = {
    "plain": make_board(),
    "train split": make_board_with_train_split(),
    "conditions": make_board_with_conditions(),
}
ANALYSIS_COLUMNS = (
    *("setting", "recommended", "verdict", "loss_above_best", "loss_above_best_low", "loss_above_best_high"),
    *("p_value", "p_best"),
)
ABOUT = {"study": "small", "id": "1", "state": "complete"}


@pytest.fixture(scope="module")
def analysis():
    """The first two rows of the leaderboard compared; the second is recommended."""
    comparison = compared("FFFF", "TTFF", step=0.001)
    return Analysis(comparison=comparison, recommendation=recommend_row(comparison, {}))


def json_rows(board, view=None):
    return json.loads(leaderboard_json(board, {"study": "s"}, view))["rows"]


def csv_rows(board, *arguments):
    return list(csv.DictReader(io.StringIO(leaderboard_csv(board, *arguments))))


def flat(row, names):
    """A row of JSON by the columns of CSV."""
    under = row.get("conditions", {}).items()
    values = {**row, **{f"{name}_{field}": value for name, fields in under for field, value in fields.items()}}
    return {name: values.get(name) for name in names}


@pytest.mark.parametrize("is_analyzed", [False, True])
@pytest.mark.parametrize("board", BOARDS.values(), ids=BOARDS)
def test_every_export_has_the_same_values(board, is_analyzed, analysis):
    view = LeaderboardView.of_analysis(board, analysis) if is_analyzed else None
    rows, names = json_rows(board, view), list(export_field_types(board, with_analysis=is_analyzed))
    lines = [json.loads(line) for line in leaderboard_jsonl(board, {"study": "s"}, view).splitlines()]
    assert lines == [{"study": "s", "ranked_on": "validation", **row} for row in rows]
    assert tuple(map(row_from_json_fields, rows)) == board.rows
    expected = [flat(row, names) for row in rows]
    table = csv_rows(board, view)
    assert list(table[0]) == [*names, "ranked_on"]
    texts = [{name: "" if value is None else str(value) for name, value in row.items()} for row in expected]
    assert table == [{**row, "ranked_on": "validation"} for row in texts]
    content = parquet.read_table(io.BytesIO(leaderboard_parquet(board, ABOUT, view)))
    assert content.column_names == names
    assert content.to_pylist() == expected


def test_rows_carry_what_the_table_shows(analysis):
    rows = json_rows(make_board(), LeaderboardView.of_analysis(make_board(), analysis))
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


def test_without_an_analysis_there_are_no_values():
    rows = json_rows(make_board(), LeaderboardView.of_analysis(make_board(), None))
    assert all(row[name] is None for row in rows for name in ANALYSIS_COLUMNS if name != "setting")


def test_configurations_under_one_setting_share_its_identity():
    first, second = (
        RowKey("bln", "", InferenceConfiguration(code), PopulationEstimate.FROZEN, 25) for code in ("TTFF", "FTFF")
    )
    setting = evaluation_setting_id_of_row(first)
    assert setting == evaluation_setting_id_of_row(second) == "arm=bln;population=frozen;batch_size=25"
    for other in ({"batch_size": 1}, {"point": '{"training.epochs": 2}'}):
        assert evaluation_setting_id_of_row(first._replace(**other)) != setting


def test_csv_says_that_the_code_of_its_results_changed():
    lines = csv_rows(make_board(), None, ("a.py changed.", "b.py."))
    assert [line.pop("code_changes") for line in lines] == ["a.py changed. b.py."] * len(lines)
    assert lines == csv_rows(make_board())


def test_the_gap_has_its_interval_over_seeds():
    first, _, undefined = json_rows(BOARDS["train split"])
    assert (first["train_loss_mean"], first["train_accuracy_mean"]) == (pytest.approx(0.28125), 0.5)
    for split in (Split.VALIDATION, Split.TEST):
        gaps = [loss - train for loss, train in zip(GAP_LOSSES[split], GAP_LOSSES[Split.TRAIN], strict=True)]
        mean, deviation = sum(gaps) / 2, abs(gaps[0] - gaps[1]) / 2**0.5
        low, high = stats.t.interval(0.95, 1, loc=mean, scale=deviation / 2**0.5)
        for part, value in {"mean": mean, "deviation": deviation, "low": low, "high": high}.items():
            assert first[f"{split}_gap_{part}"] == pytest.approx(value)
    assert not any("gap" in name or name.startswith("train") for name in undefined)


def test_metrics_under_conditions_have_their_mean_and_worst_value():
    first, second = json_rows(BOARDS["conditions"])
    losses = {name: fields["validation_loss_mean"] for name, fields in first["conditions"].items()}
    assert losses == {"fog-3": 1.3125, "dim_light": 2.3125, "mean": 1.8125, "worst": 2.3125}
    assert first["conditions"]["dim_light"]["test_accuracy_mean"] == pytest.approx(0.5 / 3)
    assert second["conditions"]["dim_light"]["test_accuracy_mean"] is None


def test_only_boards_with_them_have_columns_of_the_training_split_and_conditions():
    for text in (leaderboard_csv(make_board()), leaderboard_json(make_board(), {})):
        assert not any(word in text for word in ("train", "gap", "condition", "worst"))


def test_figures_of_parquet_are_numeric_and_other_columns_text():
    schema = parquet.read_table(io.BytesIO(leaderboard_parquet(make_board(), ABOUT))).schema
    assert schema.field("test_accuracy_deviation").type == pyarrow.float64()
    assert schema.field("rank").type == schema.field("seeds").type == pyarrow.int32()
    assert schema.field("reason").type == schema.field("population").type == pyarrow.string()


@pytest.mark.parametrize("ranked_on", [Split.VALIDATION, Split.TEST])
def test_metadata_of_parquet_name_study_and_ranking_split(ranked_on):
    content = leaderboard_parquet(make_board(ranked_on), ABOUT)
    assert content == leaderboard_parquet(make_board(ranked_on), ABOUT)
    metadata = parquet.read_table(io.BytesIO(content)).schema.metadata
    assert metadata[b"study"] == b"small"
    assert metadata[b"ranked_on"] == ranked_on.value.encode()
    assert (b"warning" in metadata) is (ranked_on is Split.TEST)


def test_a_table_without_rows_keeps_its_columns():
    board = Leaderboard(Split.VALIDATION, ())
    names = list(export_field_types(board, with_analysis=False))
    assert parquet.read_table(io.BytesIO(leaderboard_parquet(board, ABOUT))).column_names == names
