"""The leaderboard as Parquet with typed columns and metadata."""

from __future__ import annotations

import io
from collections.abc import Mapping

import pyarrow
from pyarrow import parquet

from bln_search.core.version import VERSION
from bln_search.ranking.leaderboard import Leaderboard
from bln_search.reports.export import ComparisonFieldsByRow, flat_table_column_names, flat_table_row
from bln_search.reports.sentences.leaderboard import find_test_ranking_warning

_INTEGER_COLUMNS = ("rank", "batch_size", "seeds")
_FLOAT_COLUMNS = ("loss_above_best", "loss_above_best_low", "loss_above_best_high", "p_value", "p_best")
_FLOAT_SUFFIXES = ("_mean", "_deviation", "_gap_low", "_gap_high")


def leaderboard_parquet(
    board: Leaderboard, metadata_fields: Mapping[str, str], comparisons: ComparisonFieldsByRow | None = None
) -> bytes:
    """The columns of the CSV export; missing values are null. The same leaderboard gives the same bytes.

    The file's metadata holds `metadata_fields`, ranked_on, the warning if there is one, and the version of bln-search.
    """
    metadata = {**metadata_fields, "ranked_on": board.ranked_on.value, "bln_search": VERSION}
    warning = find_test_ranking_warning(board)
    if warning is not None:
        metadata["warning"] = warning
    columns = flat_table_column_names(board, with_comparisons=comparisons is not None)
    schema = pyarrow.schema([(name, _choose_column_type(name)) for name in columns], metadata=metadata)
    rows = [flat_table_row(row, comparisons) for row in board.rows]
    table = pyarrow.table({name: [row.get(name) for row in rows] for name in columns}, schema=schema)
    buffer = io.BytesIO()
    parquet.write_table(table, buffer, compression="snappy")
    return buffer.getvalue()


def _choose_column_type(column: str) -> pyarrow.DataType:
    """int32 for counts and ranks, float64 for losses (nats) and fractions, bool for a flag, else string."""
    if column in _INTEGER_COLUMNS:
        return pyarrow.int32()
    if column == "recommended":
        return pyarrow.bool_()
    is_float = column in _FLOAT_COLUMNS or column.endswith(_FLOAT_SUFFIXES)
    return pyarrow.float64() if is_float else pyarrow.string()
