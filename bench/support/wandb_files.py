"""Records of the files of offline runs of Weights & Biases, decoded with the protocol of wandb."""

from __future__ import annotations

import json
import struct
from collections.abc import Iterable
from dataclasses import dataclass, field
from importlib import import_module
from pathlib import Path
from typing import Any

_MAGIC_BYTES = 7
_BLOCK_BYTES = 32_768
_HEADER = struct.Struct("<IHB")
_FULL, _LAST = 1, 4


@dataclass
class OfflineRun:
    """A run. history: values by name for each step. exit_code: None for a run that has not ended."""

    id: str = ""
    name: str = ""
    group: str = ""
    config: dict[str, Any] = field(default_factory=dict)
    history: list[dict[str, Any]] = field(default_factory=list)
    summary: dict[str, Any] = field(default_factory=dict)
    exit_code: int | None = None


def read_offline_run(folder: Path) -> OfflineRun:
    """Read the run in a folder."""
    (file,) = folder.glob("run-*.wandb")
    run = OfflineRun()
    for record in read_records(file):
        match record.WhichOneof("record_type"):
            case "run":
                run.id, run.name, run.group = record.run.run_id, record.run.display_name, record.run.run_group
                run.config |= _decode_items(record.run.config.update)
            case "history":
                run.history.append(_decode_items(record.history.item))
            case "summary":
                run.summary |= _decode_items(record.summary.update)
            case "exit":
                run.exit_code = record.exit.exit_code
    return run


def read_records(file: Path) -> list[Any]:
    """Read every record of a file: a log of LevelDB, in which a record that crosses a block is in several parts."""
    parse_record = import_module("wandb.proto.wandb_internal_pb2").Record.FromString
    content, start, parts = file.read_bytes(), _MAGIC_BYTES, b""
    records: list[Any] = []
    while start + _HEADER.size <= len(content):
        left = _BLOCK_BYTES - start % _BLOCK_BYTES
        if left < _HEADER.size:
            start += left
            continue
        _, length, kind = _HEADER.unpack_from(content, start)
        start += _HEADER.size
        parts += content[start : start + length]
        start += length
        if kind in (_FULL, _LAST):
            records.append(parse_record(parts))
            parts = b""
    return records


def _decode_items(items: Iterable[Any]) -> dict[str, Any]:
    return {item.key or ".".join(item.nested_key): json.loads(item.value_json) for item in items}
