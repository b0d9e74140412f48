"""Records on standard output, in the format that the user chose."""

from __future__ import annotations

import csv
import json
import math
import sys
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime

import typer

from bln_search.cli.output import RecordsFormat, print_records_table

Record = Mapping[str, object]
"""A flat record: values by field."""


def print_records(
    records: Sequence[Record],
    columns: Sequence[str],
    output_format: RecordsFormat,
    table: Callable[[], None] | None = None,
    optional: Sequence[str] = (),
) -> None:
    """Print records on standard output.

    Args:
        records: The records.
        columns: Fields of the table and of CSV, which has a header without records, too. JSON has every field.
        output_format: JSON is one array, JSON Lines an object per line.
        table: Prints the table; by default one column per field and one row per record.
        optional: Columns of that table that a narrow terminal does not show, the least important first.
    """
    if output_format is RecordsFormat.JSON:
        typer.echo(json.dumps([_replace_non_finite_by_none(record) for record in records], indent=1))
    elif output_format is RecordsFormat.JSONL:
        for record in records:
            typer.echo(json.dumps(_replace_non_finite_by_none(record)))
    elif output_format is RecordsFormat.CSV:
        writer = csv.DictWriter(sys.stdout, columns, extrasaction="ignore", lineterminator="\n")
        writer.writeheader()
        writer.writerows(records)
    elif table is not None:
        table()
    else:
        print_records_table(records, columns, optional=optional)


def print_record(record: Record, output_format: RecordsFormat, table: Callable[[], None]) -> None:
    """Print the only record of a command; its JSON is an object.

    Args:
        record: The record.
        output_format: The format.
        table: Prints it as text.
    """
    if output_format is RecordsFormat.JSON:
        typer.echo(json.dumps(_replace_non_finite_by_none(record), indent=1))
    else:
        print_records([record], tuple(record), output_format, table)


def _replace_non_finite_by_none(value: object) -> object:
    """Return a value with null for every number that is not finite, which JSON cannot represent."""
    if isinstance(value, Mapping):
        return {name: _replace_non_finite_by_none(inner) for name, inner in value.items()}
    return None if isinstance(value, float) and not math.isfinite(value) else value


def time_to_iso_text(value: object) -> object:
    """Return a time as text in ISO 8601, and any other value unchanged."""
    return value.isoformat() if isinstance(value, datetime) else value
