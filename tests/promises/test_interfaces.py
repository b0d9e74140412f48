"""Names of interfaces and of columns are those that were recorded."""

from __future__ import annotations

import pytest

from tests.promises import record
from tests.promises.recording import FOLDER, find_differences

pytestmark = [pytest.mark.promise, pytest.mark.xdist_group("promises")]


@pytest.mark.parametrize("name", record.INTERFACES)
def test_names_are_as_recorded(name):
    assert find_differences(name, record.INTERFACES[name]()) == []


@pytest.mark.slow
def test_written_files_have_the_recorded_columns_and_keys(home):
    assert find_differences("files", record.find_entries("files", home)) == []


def test_every_recording_is_compared_and_small():
    sizes = {path.stem: path.stat().st_size for path in FOLDER.iterdir()}
    assert sizes.keys() == set(record.NAMES)
    assert sum(sizes.values()) < 400_000
