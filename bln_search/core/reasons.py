"""Texts that say why something failed, as every database, log and page can hold them."""

from __future__ import annotations

MAX_REASON_CHARACTERS = 4_000
"""Longest reason. User code may raise errors that contain whole arrays."""

_NUL = "\0"
"""The one character that Postgres stores in no text."""


def limit_reason(text: str) -> str:
    """Return a text of at most `MAX_REASON_CHARACTERS`, without characters that cannot be stored.

    Lone surrogates, which UTF-8 cannot encode, and NUL become escape sequences; a longer text loses its middle.
    """
    text = text.encode("utf-8", "backslashreplace").decode().replace(_NUL, "\\x00")
    if len(text) <= MAX_REASON_CHARACTERS:
        return text
    half = MAX_REASON_CHARACTERS // 2 - 30
    return f"{text[:half]} … ({len(text) - 2 * half} characters left out) … {text[-half:]}"


def describe_exception(error: BaseException) -> str:
    """Return type and text of an error as a reason; the type alone where the text cannot be had."""
    try:
        text = str(error)
    except Exception:  # noqa: BLE001 - the error of a user may fail in its own __str__
        text = "its text cannot be shown"
    return limit_reason(f"{type(error).__name__}: {text}")
