"""Text and symbols for states, durations and configurations."""

from __future__ import annotations

import re
from datetime import datetime

from bln_search.core.configuration import InferenceConfiguration

_NEGATIVE_NUMBER = re.compile(r"(?<![\w.-])-(?=[\d.])")

STATE_SYMBOLS = {
    "accepted": "○",
    "running": "▶",
    "paused": "Ⅱ",
    "complete": "✔",
    "interrupted": "◌",
    "cancelled": "⊘",
    "failed": "✖",
    "waiting": "○",
    "trained": "◐",
    "finished": "✔",
    "diverged": "≋",
    "pruned": "✂",
    "succeeded": "✔",
    "lost": "◌",
    "requested": "○",
    "ready": "✔",
    "expired": "◌",
}
"""A symbol for each state, so that states differ without color."""


def format_duration(seconds: float | None) -> str:
    """Format a duration with its two largest units."""
    if seconds is None:
        return "unknown"
    total = round(seconds)
    for size, unit, smaller, name in ((86_400, "d", 3600, "h"), (3600, "h", 60, "min"), (60, "min", 1, "s")):
        if total >= size:
            remainder = total % size // smaller
            return f"{total // size} {unit}" + (f" {remainder} {name}" if remainder else "")
    return f"{total} s"


def format_bytes(size: int) -> str:
    """Format a number of bytes in kB, MB or GB."""
    if size >= 1e9:
        return f"{size / 1e9:,.1f} GB"
    return f"{size / 1e6:,.1f} MB" if size >= 1e6 else f"{size / 1e3:,.0f} kB"


def format_time(at: datetime) -> str:
    """Format a time in UTC; a script on the page converts it to local time."""
    return f"{at:%Y-%m-%d %H:%M:%S} UTC"


def list_switch_codes_and_descriptions(configuration: InferenceConfiguration) -> list[tuple[str, str, str]]:
    """Return code, style and description of each of the four statistics."""
    return [
        (source.value, source.description.css_class, f"{statistic.label}: {source.label}")
        for statistic, source in configuration.source_by_statistic.items()
    ]


def replace_hyphens_by_minus_signs(text: str) -> str:
    """The text with a minus sign in front of negative numbers instead of a hyphen, as charts have it."""
    return _NEGATIVE_NUMBER.sub("\N{MINUS SIGN}", text)
