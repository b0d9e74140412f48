"""Records of the files of offline runs of Weights & Biases, decoded with the protocol of wandb."""

from __future__ import annotations

import json
import struct

_MAGIC = 7
_BLOCK = 32_768
_HEADER = struct.Struct("<IHB")
_FULL, _LAST = 1, 4


def read_records(file):
    """Every record of a file: a log of LevelDB, whose records do not cross blocks in one piece."""
    from wandb.proto.wandb_internal_pb2 import Record

    content, start, parts, records = file.read_bytes(), _MAGIC, b"", []
    while start + _HEADER.size <= len(content):
        left = _BLOCK - start % _BLOCK
        if left < _HEADER.size:
            start += left
            continue
        _, length, kind = _HEADER.unpack_from(content, start)
        start += _HEADER.size
        parts += content[start : start + length]
        start += length
        if kind in (_FULL, _LAST):
            records.append(Record.FromString(parts))
            parts = b""
    return records


def read_offline_run(folder):
    """Id, name, parameters, history, summary and exit code of the run in a folder."""
    (file,) = folder.glob("run-*.wandb")
    found = {"config": {}, "history": [], "summary": {}}
    for record in read_records(file):
        match record.WhichOneof("record_type"):
            case "run":
                found |= {"id": record.run.run_id, "name": record.run.display_name, "group": record.run.run_group}
                found["config"] |= {item.key: json.loads(item.value_json) for item in record.run.config.update}
            case "history":
                found["history"].append(_decode_items(record.history.item))
            case "summary":
                found["summary"] |= _decode_items(record.summary.update)
            case "exit":
                found["exit_code"] = record.exit.exit_code
    return found


def _decode_items(items):
    return {item.key or ".".join(item.nested_key): json.loads(item.value_json) for item in items}
