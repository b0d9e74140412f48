"""Ranked tables as they are printed."""

from __future__ import annotations

import re


def printed_ranks(text: str) -> list[int]:
    """The ranks of the rows of every ranked table in a text; the recommended row has a star before its rank."""
    return [int(rank) for rank in re.findall(r"^\*? +(\d+)  +\S", text, re.MULTILINE)]
