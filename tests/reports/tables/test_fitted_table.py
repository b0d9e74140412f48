"""Tables fit their width without cutting a number, and name what they do not show."""

from __future__ import annotations

import io

import pytest
from rich.console import Console

from bln_search.reports.tables.column_fitting import fit_columns
from bln_search.reports.tables.columns import CellKind, Column
from bln_search.reports.tables.fitted_table import FittedTable

LOSSES = ("0.1383 ± 0.0096", "0.1384 ± 0.0093")
COLUMNS = (
    Column("rank", ("1", "2"), CellKind.NUMBER, is_key=True),
    Column("configuration", ("TTFF", "FFFF"), CellKind.CODE, legend="four letters", is_key=True),
    Column("reason", ("", "–")),
    Column(
        "validation loss",
        LOSSES,
        CellKind.NUMBER,
        short_cells=("0.1383", "0.1384"),
        shorten_order=2,
        short_note="± of the loss",
    ),
    Column("test accuracy %", ("97.04", "96.94"), CellKind.NUMBER, drop_order=1),
    Column("checkpoint", ("0123456789abcdef.safetensors",) * 2),
)


def printed(table, width):
    out = io.StringIO()
    Console(file=out, width=width).print(table)
    return out.getvalue()


def headings(columns):
    return [column.name for column in columns]


def test_everything_is_shown_where_it_fits():
    text = printed(FittedTable(COLUMNS, "title"), 100)
    assert "Not shown" not in text
    assert all(loss in text for loss in LOSSES)
    assert "0123456789abcdef.safetensors" in text


def test_columns_without_a_value_are_dropped_in_silence():
    text = printed(FittedTable(COLUMNS), 100)
    assert "reason" not in text


def test_a_table_without_rows_keeps_its_headings():
    assert printed(FittedTable([Column("id", ()), Column("created at", ())]), 80).split() == [
        "id",
        "created",
        "at",
        *_rule(),
    ]


def test_columns_whose_rows_have_the_same_value_are_dropped_first():
    columns = [
        Column("loss", LOSSES, CellKind.NUMBER),
        Column("metric", ("12345", "54321"), CellKind.NUMBER, drop_order=1),
        Column("population", ("frozen", "–"), CellKind.CODE, drop_order=9),
        Column("owner", ("ada", "ada"), CellKind.CODE, drop_order=8),
    ]
    assert headings(fit_columns(columns, 38).columns) == ["loss", "metric", "population"]
    assert headings(fit_columns(columns, 25).columns) == ["loss", "metric"]
    note = printed(FittedTable(columns), 25)
    assert "Not shown at 25 columns: population (frozen), owner (ada);" in " ".join(note.split())


def _rule():
    return ["─" * len("id  created at")]


def test_columns_are_reduced_in_their_order():
    columns = [column for column in COLUMNS if not column.has_only_empty_cells]
    assert headings(fit_columns(columns, 75).columns) == headings(columns)
    assert fit_columns(columns, 65).omissions == ["test accuracy %"]
    narrow = fit_columns(columns, 60)
    assert narrow.omissions == ["± of the loss", "test accuracy %"]
    assert narrow.columns[2].cells == ("0.1383", "0.1384")
    assert headings(narrow.omitted) == ["validation loss", "test accuracy %"]


def test_a_reduction_that_later_ones_make_unnecessary_is_undone():
    columns = [
        Column("name", ("x" * 20,), CellKind.CODE),
        Column("small", ("1",), CellKind.NUMBER, drop_order=1),
        Column("large", ("1" * 30,), CellKind.NUMBER, drop_order=2),
    ]
    assert fit_columns(columns, 40).omissions == ["large"]


@pytest.mark.parametrize("width", range(20, 121, 5))
def test_no_cell_is_cut_at_any_width(width):
    text = printed(FittedTable(COLUMNS), width)
    assert "…" not in text
    assert text.count("0.1383") == text.count("0.1384") == 1
    folded = "".join(text.split())
    assert folded.count("TTFF") in (1, 2)  # once in each table


def test_text_is_folded_and_numbers_are_not():
    text = printed(FittedTable(COLUMNS), 60)
    assert max(map(len, text.splitlines())) <= 60
    assert "safetensors" not in text  # broken over lines
    parts = [line.split()[-1] for line in text.splitlines() if line.split() and line.startswith(("   1", "   2"))]
    assert all("0123456789abcdef.safetensors".startswith(part) for part in parts)


def test_what_is_not_shown_is_named_in_one_line():
    text = printed(FittedTable(COLUMNS, has_details=True), 60)
    note = " ".join(text.split("Not shown")[1].split())
    assert note.startswith("at 60 columns: ± of the loss, test accuracy %; --details or a wider terminal")


def test_details_print_every_column_at_any_width():
    text = printed(FittedTable(COLUMNS, all_columns=True), 50)
    assert "Not shown" not in text
    assert all(loss in text for loss in LOSSES)
    assert "97.04" in text
    assert text.count("TTFF") == 2  # the configuration identifies the rows of the second table


def test_columns_that_do_not_fit_are_in_further_tables_that_repeat_the_keys():
    names = [f"fog_{number}" for number in range(9)]
    numbers = [Column(name, [f"{position}.{name[-1]}000" for position in (1, 2)], CellKind.NUMBER) for name in names]
    for keys in ([Column("row", ("TTFF", "FFFF"), CellKind.CODE, is_key=True)], [Column("row", ("TTFF", "FFFF"))]):
        text = printed(FittedTable([*keys, *numbers]), 40)
        assert max(map(len, text.splitlines())) <= 40
        assert text.count("TTFF") == text.count("FFFF") == 3
        assert [text.count(f"2.{number}000") for number in range(9)] == [1] * 9
        assert all(name in text for name in names)


def test_a_long_heading_is_broken_into_lines():
    text = printed(FittedTable([Column("row", ("a", "b")), Column("x" * 200, ("0.1", "0.2"), CellKind.NUMBER)]), 80)
    assert max(map(len, text.splitlines())) <= 80
    assert text.count("x") == 200
    assert [line.split() for line in text.splitlines()[-2:]] == [["a", "0.1"], ["b", "0.2"]]


def test_a_row_is_a_list_of_values_where_no_table_fits():
    lines = printed(FittedTable(COLUMNS), 24).splitlines()
    assert lines[:3] == ["rank: 1", "configuration: TTFF", "validation loss: 0.1383"]
    assert "" in lines


def test_legend_names_the_columns_that_are_present():
    assert printed(FittedTable(COLUMNS), 100).splitlines()[-1] == "four letters."


def test_headings_are_no_wider_than_words_permit():
    column = Column("judged under", ("TTFF", "FFFF"))
    assert column.heading_lines == ["judged", "under"]
    assert column.unfolded_width == len("judged")
