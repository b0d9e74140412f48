"""Times that people read have their offset from UTC, and an unknown zone is named."""

from __future__ import annotations

import os
import subprocess
import sys
from datetime import UTC, datetime

import pytest

from bln_search.cli.local_time import find_unknown_zone, format_local_time

MOMENT = datetime(2026, 7, 1, 12, 0, tzinfo=UTC)
PROGRAM = (
    "import sys; from datetime import datetime; from bln_search.cli.local_time import format_local_time;"
    "print(format_local_time(datetime.fromisoformat(sys.argv[1])))"
)


def printed_in(zone):
    words = [sys.executable, "-c", PROGRAM, MOMENT.isoformat()]
    done = subprocess.run(words, capture_output=True, text=True, check=True, env={**os.environ, "TZ": zone})
    return done.stdout.strip(), done.stderr


@pytest.mark.parametrize("timespec", ["minutes", "seconds"])
def test_a_printed_time_is_the_moment_itself(timespec):
    assert datetime.fromisoformat(format_local_time(MOMENT, timespec)) == MOMENT


@pytest.mark.parametrize(
    ("zone", "offset"),
    [
        ("Europe/Berlin", "+02:00"),
        ("Asia/Kolkata", "+05:30"),
        ("CET-1CEST,M3.5.0,M10.5.0/3", "+02:00"),
        ("UTC", "+00:00"),
    ],
)
def test_a_known_zone_gives_its_offset_without_a_message(zone, offset):
    text, message = printed_in(zone)
    assert (text[-6:], message) == (offset, "")
    assert datetime.fromisoformat(text) == MOMENT


@pytest.mark.parametrize("zone", ["Bogus/Zone", "Europe/Berlni", "+02:00", ":Nowhere"])
def test_an_unknown_zone_is_named_and_times_are_in_utc(zone):
    text, message = printed_in(zone)
    assert text == "2026-07-01 12:00+00:00"
    assert zone.removeprefix(":") in message
    assert find_unknown_zone({"TZ": zone}) == zone.removeprefix(":")


@pytest.mark.parametrize("environment", [{}, {"TZ": ""}, {"TZ": ":UTC"}, {"TZ": "/usr/share/zoneinfo/UTC"}])
def test_known_and_absent_zones_are_not_named(environment):
    assert find_unknown_zone(environment) is None
