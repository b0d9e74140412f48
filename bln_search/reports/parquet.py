"""The leaderboard as Parquet: typed columns, and what they rest on in the file's metadata."""

from __future__ import annotations

import io
from collections.abc import Mapping

import pyarrow
from pyarrow import parquet

from bln_search.core.version import VERSION
from bln_search.ranking.leaderboard import Leaderboard
from bln_search.reports.export import COLUMNS, flat_row

_WHOLE = ("rank", "batch_size", "seeds")
_NUMBERS = ("_mean", "_deviation")


def leaderboard_parquet(board: Leaderboard, about: Mapping[str, str]) -> bytes:
    """The columns of the CSV, empty where there is no value; the same table gives the same bytes.

    Metadata: `about`, ranked_on, warning (where there is one) and the version of bln-search.
    """
    noted = {**about, "ranked_on": board.ranked_on.value, "bln_search": VERSION}
    if board.warning is not None:
        noted["warning"] = board.warning
    schema = pyarrow.schema([(name, _type(name)) for name in COLUMNS], metadata=noted)
    rows = [flat_row(row) for row in board.rows]
    table = pyarrow.table({name: [row[name] for row in rows] for name in COLUMNS}, schema=schema)
    out = io.BytesIO()
    parquet.write_table(table, out, compression="snappy")
    return out.getvalue()


def _type(column: str) -> pyarrow.DataType:
    """Losses in nats and accuracies as fractions in double precision; numbers of things whole; all else text."""
    if column in _WHOLE:
        return pyarrow.int32()
    return pyarrow.float64() if column.endswith(_NUMBERS) else pyarrow.string()
