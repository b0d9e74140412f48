"""Local times as text, always with their offset from UTC."""

from __future__ import annotations

import os
import re
import sys
import zoneinfo
from collections.abc import Mapping
from datetime import datetime
from functools import cache
from pathlib import Path

_POSIX_ZONE = re.compile(r"(<[A-Za-z0-9+-]{3,}>|[A-Za-z]{3,})[+-]?\d{1,3}(:\d\d){0,2}(\D.*)?")
"""A zone that a rule defines, as POSIX describes: `CET-1CEST,M3.5.0,M10.5.0/3`."""


def format_local_time(moment: datetime, timespec: str = "minutes") -> str:
    """Return a time in the zone of this process with its offset: `2026-03-01 14:05+01:00`."""
    _warn_of_unknown_zone()
    return moment.astimezone().isoformat(" ", timespec)


def find_unknown_zone(environment: Mapping[str, str]) -> str | None:
    """Return the value of TZ if this system does not know that zone; it then computes with UTC, without an error."""
    name = environment.get("TZ", "").removeprefix(":")
    is_file = any((Path(folder) / name).is_file() for folder in zoneinfo.TZPATH)  # or `name` is an absolute path
    return name if name and not is_file and _POSIX_ZONE.fullmatch(name) is None else None


@cache
def _warn_of_unknown_zone() -> None:
    name = find_unknown_zone(os.environ)
    if name is not None:
        sys.stderr.write(f"TZ={name} is no time zone of this system: times are in UTC\n")
