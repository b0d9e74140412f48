"""Names and values within the limits of MLflow."""

from __future__ import annotations

import hashlib
import json
import posixpath
import re

from bln_search.integrations.trackers.records import Scalar

MAX_NAME_LENGTH = 250
_MAX_PARAMETER_LENGTH = 1000
_MAX_TAG_LENGTH = 5000
"""Lengths in characters. MLflow allows 6000 and 8000, but a request of 100 values may have 1 MB with escapes."""

_REFUSED = re.compile(r"[^A-Za-z0-9_. /-]")
_DIGEST_LENGTH = 8


def make_name(name: str) -> str:
    """Return a name that MLflow accepts for a parameter.

    A name that has to be changed gets a digest of the original, so that two of them stay different.

    Args:
        name: Any text.
    """
    clean = _REFUSED.sub("_", name)
    is_path = bool(clean) and posixpath.normpath(clean) == clean and not clean.startswith((".", "/"))
    if clean == name and is_path and len(name) <= MAX_NAME_LENGTH:
        return name
    digest = hashlib.sha256(name.encode("utf-8", "surrogatepass")).hexdigest()[:_DIGEST_LENGTH]
    kept = clean.replace("/", "_").strip(". ")[: MAX_NAME_LENGTH - _DIGEST_LENGTH - 1]
    return f"{kept}-{digest}" if kept else digest


def make_parameter_text(value: Scalar) -> str:
    """Return the text of a parameter; an empty one, which MLflow takes for a missing one, in quotation marks."""
    text = value if isinstance(value, str) else json.dumps(value)
    return shorten(text or '""', _MAX_PARAMETER_LENGTH)


def make_tag_text(text: str) -> str:
    """Return the text of a tag."""
    return shorten(text, _MAX_TAG_LENGTH)


def shorten(text: str, length: int = MAX_NAME_LENGTH) -> str:
    """Return a text of at most `length` characters, with characters that UTF-8 lacks replaced."""
    text = text.encode("utf-8", "replace").decode().replace("\0", "\N{REPLACEMENT CHARACTER}")
    return text if len(text) <= length else f"{text[: length - 1]}…"
