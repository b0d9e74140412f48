"""The webhook of the settings: its URL, and the key that signs its messages."""

from __future__ import annotations

import base64
from pathlib import Path
from urllib.parse import urlsplit

from pydantic import SecretStr

from bln_search.core.credentials import clean_line
from bln_search.core.errors import SpecError
from bln_search.settings.secret_file import read_secret_file

_PREFIX = "whsec_"
_KEY_BYTES = range(24, 65)
"""Lengths of a key that the specification Standard Webhooks allows."""

_ADVICE = 'print a new one with `echo "whsec_$(openssl rand -base64 32)"`'


def clean_webhook_url(url: str) -> str:
    """Return a URL without white space around it.

    Raises:
        ValueError: It is no http or https URL. The message does not show it, because whoever knows it may post to it.
    """
    text = clean_line(url)
    try:
        parts = urlsplit(text)
        is_usable = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:
        is_usable = False
    if not is_usable or any(character.isspace() for character in text):
        raise ValueError("write a URL with scheme and host, as in https://host/path")
    return text


def decode_webhook_secret(secret: str) -> bytes:
    """Return the key of a secret in the form of Standard Webhooks: `whsec_`, and the key in base64.

    Raises:
        ValueError: It has another form. The message does not show it.
    """
    text = clean_line(secret)
    try:
        key = base64.b64decode(text.removeprefix(_PREFIX), validate=True)
    except ValueError:
        key = b""
    if not text.startswith(_PREFIX) or len(key) not in _KEY_BYTES:
        raise ValueError(f"write {_PREFIX} and {_KEY_BYTES[0]} to {_KEY_BYTES[-1]} bytes in base64: {_ADVICE}")
    return key


def read_webhook_key(secret: SecretStr | None, file: Path | None) -> bytes:
    """Return the key that signs messages.

    Args:
        secret: The secret in the settings.
        file: The file that holds it.

    Raises:
        SpecError: Both or none are given, or the file cannot be used.
    """
    name = "BLN_SEARCH_WEBHOOK_SECRET"
    if (secret is None) == (file is None):
        problem = "every message is signed" if secret is None else "both have a secret"
        raise SpecError(name, [f"set either {name} or {name}_FILE, because {problem}; {_ADVICE}"])
    if file is None:
        assert secret is not None
        return decode_webhook_secret(secret.get_secret_value())
    try:
        return decode_webhook_secret(read_secret_file(f"{name}_FILE", file, "secret"))
    except ValueError as error:
        raise SpecError(f"{name}_FILE", [f"{file}: {error}"]) from None
