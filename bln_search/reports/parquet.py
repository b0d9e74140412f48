"""The leaderboard as Parquet with typed columns and metadata."""

from __future__ import annotations

import io
from collections.abc import Mapping

import pyarrow
from pyarrow import parquet

from bln_search.core.version import VERSION
from bln_search.ranking.leaderboard import Leaderboard
from bln_search.reports.export import export_field_types, export_row_fields
from bln_search.reports.leaderboard_columns import LeaderboardView
from bln_search.reports.sentences.leaderboard import find_test_ranking_warning

_TYPES = {int: pyarrow.int32(), float: pyarrow.float64(), bool: pyarrow.bool_(), str: pyarrow.string()}
"""Losses are in nats, accuracies are fractions."""


def leaderboard_parquet(
    board: Leaderboard, metadata_fields: Mapping[str, str], view: LeaderboardView | None = None
) -> bytes:
    """The columns of the CSV export; missing values are null. The same leaderboard gives the same bytes.

    The file's metadata holds `metadata_fields`, ranked_on, the warning if there is one, and the version of bln-search.
    """
    metadata = {**metadata_fields, "ranked_on": board.ranked_on.value, "bln_search": VERSION}
    warning = find_test_ranking_warning(board)
    if warning is not None:
        metadata["warning"] = warning
    types = export_field_types(board, with_analysis=view is not None)
    schema = pyarrow.schema([(name, _TYPES[of_column]) for name, of_column in types.items()], metadata=metadata)
    rows = [export_row_fields(row, view) for row in board.rows]
    table = pyarrow.table({name: [row.get(name) for row in rows] for name in types}, schema=schema)
    buffer = io.BytesIO()
    parquet.write_table(table, buffer, compression="snappy")
    return buffer.getvalue()
