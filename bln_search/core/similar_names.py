"""The known name that a wrong one probably means."""

from __future__ import annotations

from collections.abc import Iterable
from difflib import get_close_matches


def format_similar_name(name: str, known: Iterable[str]) -> str:
    """Return the end of a message that asks for the most similar known name; empty where none is similar."""
    similar = get_close_matches(name, list(known), n=1)
    return f"; did you mean `{similar[0]}`?" if similar else ""
