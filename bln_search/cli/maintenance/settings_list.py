"""Command `settings`: print every setting."""

from __future__ import annotations

import json
from collections.abc import Sequence
from functools import partial
from pathlib import Path

from pydantic import SecretStr
from rich.padding import Padding
from rich.text import Text

from bln_search.cli.options import FormatOption
from bln_search.cli.output import RecordsFormat, print_line, results
from bln_search.cli.records import Record, print_records
from bln_search.core.urls import redact_password
from bln_search.settings import Settings, load_settings, settings_file

_COLUMNS = ("variable", "value", "is_default", "description")


def show_settings(output_format: FormatOption = RecordsFormat.TABLE) -> None:
    """Print every setting with its value, its environment variable and its description."""
    records = _list_setting_records(load_settings())
    print_records(records, _COLUMNS, output_format, partial(_print_setting_lines, records))


def _list_setting_records(settings: Settings) -> list[Record]:
    """Return a record for each setting, without secrets."""
    records: list[Record] = []
    derived: dict[str, object] = {
        "database": settings.database_url,
        "checkpoints": settings.checkpoint_store,
        "data": settings.data_folder,
        "studies": Path("studies").absolute(),
    }
    for name, field in Settings.model_fields.items():
        value = getattr(settings, name)
        value = derived.get(name) if value is None else value
        records.append(
            {
                "variable": f"BLN_SEARCH_{name.upper()}",
                "value": _describe_setting_value(value),
                "is_default": name not in settings.model_fields_set,
                "description": field.description,
            }
        )
    return records


def _describe_setting_value(value: object) -> str:
    if value is None:
        return "(none)"
    if isinstance(value, tuple):
        return json.dumps(value)  # as its variable and settings.toml take it
    return "(secret)" if isinstance(value, SecretStr) else redact_password(str(value))


def _print_setting_lines(records: Sequence[Record]) -> None:
    print_line(f"file: {settings_file()}{'' if settings_file().is_file() else ' (missing)'}")
    for record in records:
        origin = " (default)" if record["is_default"] else ""
        print_line(f"{record['variable']} = {record['value']}{origin}")
        results.print(Padding(Text(str(record["description"])), (0, 0, 0, 4)))
