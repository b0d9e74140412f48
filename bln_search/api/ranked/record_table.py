"""What every table of results offers: records as CSV, JSON and for pandas, text, and HTML for notebooks."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any

from bln_search.api.ranked.printing import render_table_html, render_table_text
from bln_search.api.ranked.records import Record, records_to_csv, records_to_data_frame, records_to_json
from bln_search.reports.terminal.fitted_table import FittedTable


class RecordTable(ABC):
    """A table that is printed, shown in notebooks, and exported."""

    @abstractmethod
    def to_records(self) -> list[Record]:
        """The table as one dictionary for each row."""

    @abstractmethod
    def _table_with_sentences(self) -> tuple[FittedTable, Sequence[str]]:
        """The table to print, and lines below it."""

    def to_csv(self) -> str:
        """The table as CSV."""
        return records_to_csv(self.to_records())

    def to_json(self) -> str:
        """The table as a JSON array of objects."""
        return records_to_json(self.to_records())

    def to_frame(self) -> Any:
        """The table as a `pandas.DataFrame`. Raises MissingPackageError if pandas is not installed."""
        return records_to_data_frame(self.to_records())

    def __str__(self) -> str:
        return render_table_text(*self._table_with_sentences())

    def _repr_html_(self) -> str:
        """The table in a notebook."""
        return render_table_html(*self._table_with_sentences())
