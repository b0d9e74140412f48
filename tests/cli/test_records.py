"""Records are printed in the format that was chosen."""

from __future__ import annotations

import csv
import io
import json

import pytest

from bln_search.cli.output import RecordsFormat
from bln_search.cli.records import print_record, print_records

RECORDS = [
    {"name": 'a "b", c', "loss": 0.5, "note": None, "data": {"x": 1}},
    {"name": "é", "loss": float("inf"), "note": "no", "data": {"x": float("nan")}},
]
FINITE = [RECORDS[0], {"name": "é", "loss": None, "note": "no", "data": {"x": None}}]
COLUMNS = ("name", "loss", "note")


def test_json_is_an_array_without_infinities(capsys):
    print_records(RECORDS, COLUMNS, RecordsFormat.JSON)
    assert json.loads(capsys.readouterr().out) == FINITE


def test_json_lines_has_an_object_per_line(capsys):
    print_records(RECORDS, COLUMNS, RecordsFormat.JSONL)
    assert [json.loads(line) for line in capsys.readouterr().out.splitlines()] == FINITE


def test_csv_has_the_columns_and_empty_cells_for_nothing(capsys):
    print_records(RECORDS, COLUMNS, RecordsFormat.CSV)
    rows = list(csv.DictReader(io.StringIO(capsys.readouterr().out)))
    assert rows[0] == {"name": 'a "b", c', "loss": "0.5", "note": ""}


@pytest.mark.parametrize(
    ("output_format", "text"), [(RecordsFormat.JSON, "[]\n"), (RecordsFormat.JSONL, ""), (RecordsFormat.CSV, "a,b\n")]
)
def test_no_record_is_still_valid_output(output_format, text, capsys):
    print_records([], ("a", "b"), output_format)
    assert capsys.readouterr().out == text


def test_the_only_record_is_an_object_in_json(capsys):
    print_record({"a": 1}, RecordsFormat.JSON, lambda: None)
    assert json.loads(capsys.readouterr().out) == {"a": 1}
    print_record({"a": 1}, RecordsFormat.CSV, lambda: None)
    assert capsys.readouterr().out == "a\n1\n"
