"""Reasons that contain texts of user code can be stored, logged and shown."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bln_search.core.reasons import MAX_REASON_CHARACTERS, describe_exception, limit_reason


class SilentError(Exception):
    def __str__(self):
        raise RuntimeError("no text")


@pytest.mark.parametrize("text", ["", "no such file: /data/ü", "line\nline", "😀 " * 100, "x" * MAX_REASON_CHARACTERS])
def test_usual_texts_are_not_changed(text):
    assert limit_reason(text) == text


@pytest.mark.parametrize(
    ("text", "expected"),
    [("a\ud800b", "a\\ud800b"), ("\udcff", "\\udcff"), ("a\0b", "a\\x00b"), ("\ud83d\ude00", "\\ud83d\\ude00")],
)
def test_characters_that_cannot_be_stored_become_escape_sequences(text, expected):
    assert limit_reason(text) == expected


@pytest.mark.parametrize("character", ["x", "ü", "😀", "\ud800", "\0"])
def test_long_text_keeps_its_beginning_and_its_end(character):
    reason = limit_reason("the beginning" + character * 3_000_000 + "the end")
    assert len(reason) <= MAX_REASON_CHARACTERS
    assert reason.startswith("the beginning")
    assert reason.endswith("the end")
    assert "characters left out" in reason


@given(st.text(st.characters(), max_size=200).map(lambda text: text * 40))
def test_every_reason_can_be_encoded_and_needs_no_second_treatment(text):
    reason = limit_reason(text)
    assert json.loads(json.dumps(reason).encode()) == reason
    assert reason.encode().decode() == reason
    assert "\0" not in reason
    assert limit_reason(reason) == reason


def test_error_is_described_by_type_and_text():
    assert describe_exception(ValueError("no \ud800 value")) == "ValueError: no \\ud800 value"
    assert describe_exception(SilentError()) == "SilentError: its text cannot be shown"
    assert len(describe_exception(ValueError(list(range(1_000_000))))) <= MAX_REASON_CHARACTERS
