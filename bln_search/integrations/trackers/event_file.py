"""An event file of TensorBoard to which whole records are appended, also by a later process."""

from __future__ import annotations

import struct
from collections.abc import Iterable, Iterator
from io import BytesIO
from pathlib import Path

from google.protobuf.message import DecodeError
from tensorboard.compat.proto.event_pb2 import Event
from tensorboard.compat.tensorflow_stub.pywrap_tensorflow import masked_crc32c
from tensorboard.summary.writer.record_writer import RecordWriter

_LENGTH, _CHECKSUM = struct.Struct("<Q"), struct.Struct("<I")
_HEADER_BYTES = _LENGTH.size + _CHECKSUM.size


class EventFile:
    """An event file.

    TensorBoard reads a file while it grows, and waits at a record that is not complete. A process that was killed in a
    record leaves its beginning behind; `read_events` removes it, so that complete records follow.

    Args:
        path: The file.
    """

    def __init__(self, path: Path) -> None:
        self.path = path

    def read_events(self) -> list[Event]:
        """Return the events, and cut off an incomplete record at the end. No file has none."""
        if not self.path.exists():
            return []
        content = self.path.read_bytes()
        events, end = [], 0
        for event, next_end in _iter_complete_events(content):
            events.append(event)
            end = next_end
        if end < len(content):
            with self.path.open("r+b") as file:
                file.truncate(end)
        return events

    def append_events(self, events: Iterable[Event]) -> None:
        """Append events in one write. The first record of a file is the version of its format.

        Raises:
            OSError: Not all of them could be written; `read_events` cuts off the rest of a record.
        """
        buffer = BytesIO()
        writer = RecordWriter(buffer)
        if not self.path.exists() or not self.path.stat().st_size:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            writer.write(Event(file_version="brain.Event:2").SerializeToString())
        for event in events:
            writer.write(event.SerializeToString())
        with self.path.open("ab") as file:
            file.write(buffer.getvalue())


def _iter_complete_events(content: bytes) -> Iterator[tuple[Event, int]]:
    """Yield each event with the position of its end, up to the first record that is not complete."""
    start = 0
    while start + _HEADER_BYTES <= len(content):
        header = content[start : start + _LENGTH.size]
        if _CHECKSUM.unpack_from(content, start + _LENGTH.size)[0] != masked_crc32c(header):
            return
        first = start + _HEADER_BYTES
        last = first + _LENGTH.unpack(header)[0]
        start = last + _CHECKSUM.size
        if start > len(content):
            return
        try:
            yield Event.FromString(content[first:last]), start
        except DecodeError:
            return
