"""A difference from a recording is found, within the tolerance of the processor, and never recorded unasked."""

from __future__ import annotations

import pytest

from tests.promises import record, recording

pytestmark = pytest.mark.promise

ENTRIES = {"row FFFF": [0.5, "undefined"], "columns": ["0 test", "0 validation"]}


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    monkeypatch.setattr(recording, "FOLDER", tmp_path)
    recording.write("study", ENTRIES, computed=True)
    return tmp_path


@pytest.mark.parametrize(
    ("changed", "here", "elsewhere"),
    [
        ({}, 0, 0),
        ({"row FFFF": [0.5 * (1 + 1e-13), "undefined"]}, 0, 0),
        ({"row FFFF": [0.5 * (1 + 1e-9), "undefined"]}, 1, 0),
        ({"row FFFF": [0.51, "undefined"]}, 1, 1),
        ({"row FFFF": [0.5, 0.5]}, 1, 1),
        ({"row TTFF": [0.5, 0.5]}, 1, 1),
    ],
)
def test_differences_are_found_within_the_tolerance_of_the_processor(changed, here, elsewhere, monkeypatch):
    assert len(recording.find_differences("study", ENTRIES | changed)) == here
    monkeypatch.setattr(recording, "describe_processor", lambda: {"processor": "another one"})
    assert len(recording.find_differences("study", ENTRIES | changed)) == elsewhere


def test_nothing_is_recorded_without_accept(folder, monkeypatch, capsys):
    monkeypatch.setitem(record.INTERFACES, "python", lambda: {"convert": "(model)"})
    assert record.main(["python"]) == 1
    assert "Nothing of this was recorded" in capsys.readouterr().out
    assert not (folder / "python.json").exists()
    assert record.main(["--accept", "python"]) == 0
    assert record.main(["python"]) == 0
