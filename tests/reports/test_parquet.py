"""The leaderboard as Parquet has the values of the CSV, with types."""

from __future__ import annotations

import csv
import io

import pyarrow
import pytest
from pyarrow import parquet

from bln_search.core.enums import Split
from bln_search.reports.export import export_field_types, leaderboard_csv
from bln_search.reports.parquet import leaderboard_parquet
from tests.reports.leaderboards import make_board

ABOUT = {"study": "small", "id": "1", "state": "complete"}


def read_parquet(content):
    return parquet.read_table(io.BytesIO(content))


def test_parquet_has_the_values_of_the_csv():
    lines = list(csv.DictReader(io.StringIO(leaderboard_csv(make_board()))))
    assert {line.pop("ranked_on") for line in lines} == {"validation"}
    rows = read_parquet(leaderboard_parquet(make_board(), ABOUT)).to_pylist()
    assert list(rows[0]) == list(export_field_types(make_board(), with_analysis=False))
    assert [{name: "" if value is None else str(value) for name, value in row.items()} for row in rows] == lines
    assert rows[-1]["validation_loss_mean"] is None


def test_figures_are_numeric_and_other_columns_text():
    schema = read_parquet(leaderboard_parquet(make_board(), ABOUT)).schema
    assert schema.field("test_accuracy_deviation").type == pyarrow.float64()
    assert schema.field("rank").type == schema.field("seeds").type == pyarrow.int32()
    assert schema.field("reason").type == schema.field("population").type == pyarrow.string()


@pytest.mark.parametrize("ranked_on", [Split.VALIDATION, Split.TEST])
def test_metadata_names_study_and_ranking_split(ranked_on):
    metadata = read_parquet(leaderboard_parquet(make_board(ranked_on), ABOUT)).schema.metadata
    assert metadata[b"study"] == b"small"
    assert metadata[b"ranked_on"] == ranked_on.value.encode()
    assert (b"warning" in metadata) is (ranked_on is Split.TEST)


def test_equal_tables_have_equal_bytes():
    assert leaderboard_parquet(make_board(), ABOUT) == leaderboard_parquet(make_board(), ABOUT)


def test_a_table_without_rows_keeps_its_columns():
    from bln_search.ranking.leaderboard import Leaderboard

    assert read_parquet(leaderboard_parquet(Leaderboard(Split.VALIDATION, ()), ABOUT)).column_names == list(
        export_field_types(make_board(), with_analysis=False)
    )
