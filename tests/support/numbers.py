"""Numbers in a message, to test what a message states instead of its wording."""

from __future__ import annotations

import re


def numbers_in(text: str) -> list[float]:
    """All numbers of a text in their order; a comma groups thousands."""
    return [float(digits.replace(",", "")) for digits in re.findall(r"\d+(?:,\d{3})*(?:\.\d+)?", text)]
