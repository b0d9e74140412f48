"""The base of every table of results: text, HTML for notebooks, records as CSV, JSON and for pandas."""

from __future__ import annotations

import csv
import io
import json
import os
import shutil
import sys
from abc import ABC, abstractmethod
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from importlib import import_module
from typing import Any

from rich.console import Console

from bln_search.core.enums import Split
from bln_search.core.errors import MissingPackageError
from bln_search.core.records import RowKey
from bln_search.reports.charts.chart import Chart
from bln_search.reports.notebook.html import make_table_blocks, render_notebook_html
from bln_search.reports.page.blocks import Block, Paragraph
from bln_search.reports.tables.fitted_table import FittedTable

Record = dict[str, str | int | float | bool | None]

ALL_SIZES = "all"
"""Mini-batch size of a row that is the same at every size."""

_WIDTH = 160
"""Columns of a printed table where there is no terminal, as in a notebook or a file."""

_MORE_ROWS = "to_frame() and to_csv() have all rows."


class ResultTable(ABC):
    """A table that is printed, shown in notebooks, and exported."""

    @abstractmethod
    def to_records(self) -> list[Record]:
        """The table as one dictionary for each row."""

    @abstractmethod
    def _table_with_sentences(self) -> tuple[FittedTable, Sequence[str]]:
        """The table to print, and lines below it."""

    def to_csv(self) -> str:
        """The table as CSV with a header; missing values are empty."""
        records = self.to_records()
        buffer = io.StringIO()
        writer = csv.DictWriter(buffer, list(records[0]) if records else [], lineterminator="\n")
        writer.writeheader()
        writer.writerows(records)
        return buffer.getvalue()

    def to_json(self) -> str:
        """The table as a JSON array of objects."""
        return json.dumps(self.to_records(), indent=1, allow_nan=False, ensure_ascii=False)

    def to_frame(self) -> Any:
        """The table as a `pandas.DataFrame`. Raises MissingPackageError if pandas is not installed."""
        try:
            pandas = import_module("pandas")
        except ModuleNotFoundError as error:
            raise MissingPackageError(error.name, extra=None) from None
        return pandas.DataFrame.from_records(self.to_records())

    def __str__(self) -> str:
        table, sentences = self._table_with_sentences()
        out = io.StringIO()
        Console(file=out, width=_print_width()).print(table, *sentences, sep="\n", markup=False)
        return out.getvalue()

    def _repr_html_(self) -> str:
        """The table in a notebook: a click on a heading sorts its rows; with a picture, and the sentences."""
        return render_notebook_html(self._make_notebook_blocks())

    def _make_notebook_blocks(self) -> list[Block]:
        """What a notebook shows."""
        table, sentences = self._table_with_sentences()
        return [*make_table_blocks(table, _MORE_ROWS, self._make_picture()), *map(Paragraph, sentences)]

    def _make_picture(self) -> Chart | None:
        """The chart that a notebook shows; None without one."""
        return None


def _print_width() -> int:
    """Columns of the terminal that prints, or of `COLUMNS`."""
    if "COLUMNS" in os.environ or sys.stdout.isatty():
        return shutil.get_terminal_size((_WIDTH, 0)).columns
    return _WIDTH


def left_out_lines(left_out_by_split: Mapping[Split, int], condition: str = "") -> list[str]:
    """One line for each split with examples that are left out. condition: its name; empty for a single condition."""
    place = f" of the condition {condition}" if condition else ""
    return [
        f"{number:,} {split} example{'s' if number > 1 else ''}{place} without a counted target "
        f"{'are' if number > 1 else 'is'} left out."
        for split, number in left_out_by_split.items()
        if number
    ]


def format_chart_row_label(key: RowKey, batch_sizes: Sequence[int], all_sizes: Collection[int]) -> str:
    """Configuration, population and mini-batch size of a row, for charts: `FT-- source, m = 4`.

    The size is not named where a single one was evaluated.
    """
    name = " ".join(part for part in (str(key.configuration), key.estimate) if part)
    return name if len(all_sizes) < 2 else f"{name}, m = {_format_sizes(batch_sizes, all_sizes)}"


def mark_rows_of_all_sizes(
    table: FittedTable, batch_sizes: Sequence[Sequence[int]], all_sizes: Collection[int]
) -> FittedTable:
    """The table with `all` in the column of mini-batch sizes for rows that are the same at all of several sizes."""
    if len(all_sizes) < 2:
        return table
    cells = [_format_sizes(sizes, all_sizes) for sizes in batch_sizes]
    legend = f"batch {ALL_SIZES}: the same at every mini-batch size" if ALL_SIZES in cells else ""
    columns = [
        replace(column, cells=cells, legend=legend) if column.name == "batch" else column for column in table.columns
    ]
    return replace(table, columns=columns)


def _format_sizes(batch_sizes: Sequence[int], all_sizes: Collection[int]) -> str:
    return ALL_SIZES if set(batch_sizes) == set(all_sizes) else str(batch_sizes[0])
