"""Secrets of the settings that are in files of their own."""

from __future__ import annotations

from pathlib import Path

from bln_search.core.credentials import check_no_control_characters
from bln_search.core.errors import SpecError


def read_secret_file(setting: str, file: Path, secret: str) -> str:
    """Return the secret in a file, without the byte order mark and the line breaks around it.

    Args:
        setting: Environment variable that names the file.
        file: The file.
        secret: What it holds, for messages.

    Raises:
        SpecError: The file cannot be used. The message does not show its content.
    """
    try:
        text = file.read_text(encoding="utf-8-sig").strip("\r\n")
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is not UTF-8"  # never the bytes of a secret
        raise SpecError(setting, [f"{file} cannot be read: {reason}"]) from None
    if not text.strip():
        raise SpecError(setting, [f"{file} is empty: write the {secret} into it"])
    try:
        check_no_control_characters(text)
    except ValueError as error:
        raise SpecError(setting, [f"{file} {error}: write the {secret} alone into it"]) from None
    return text
