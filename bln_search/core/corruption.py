"""A corruption of images by name and severity."""

from __future__ import annotations

import re
from dataclasses import dataclass
from numbers import Integral

from bln_search.core.errors import DataError
from bln_search.core.registry import CORRUPTIONS

SEVERITIES = range(1, 6)
"""Severities of a corruption, from the weakest to the strongest."""

DEFAULT_SEVERITY = 3

_NAME_WITH_SEVERITY = re.compile(r"(.+)-([0-9]{1,3})")


@dataclass(frozen=True, order=True)
class Corruption:
    """A corruption of images. Its text is `NAME-SEVERITY`, as in `contrast-3`.

    Attributes:
        name: A built-in corruption, or one of an installed package.
        severity: From 1 to 5.
    """

    name: str
    severity: int = DEFAULT_SEVERITY

    def __post_init__(self) -> None:
        """Raise DataError for an unknown name or severity."""
        problem = CORRUPTIONS.find_problem(self.name) or _find_severity_problem(self.severity)
        if problem is not None:
            raise DataError(problem)

    def __str__(self) -> str:
        return f"{self.name}-{self.severity}"


def parse_corruption(text: str, severity: int | None = None) -> Corruption:
    """Return the corruption of a text, as in `contrast-3` or `contrast`.

    Args:
        text: Name of a corruption, alone or with a severity.
        severity: For a text without one; by default 3.

    Raises:
        DataError: The name or the severity is unknown, or there are two severities.
    """
    if not isinstance(text, str):
        raise DataError(f"a corruption is a name, as in 'contrast' or 'contrast-3', not {text!r}")
    name, own_severity = split_name_and_severity(text)
    if own_severity is None:
        return Corruption(text, DEFAULT_SEVERITY if severity is None else severity)
    if severity is not None:
        raise DataError(f"{text!r} has a severity: write {name!r} with severity={severity}, or leave severity out")
    return Corruption(name, own_severity)


def split_name_and_severity(text: str) -> tuple[str, int | None]:
    """The corruption of a text and its severity, if it ends with one that is not a part of the name."""
    match = _NAME_WITH_SEVERITY.fullmatch(text)
    if match is None or CORRUPTIONS.find_problem(text) is None:
        return text, None
    return match[1], int(match[2])


def _find_severity_problem(severity: object) -> str | None:
    """Why this is not a severity; None if it is."""
    if isinstance(severity, Integral) and not isinstance(severity, bool) and severity in SEVERITIES:
        return None
    return f"the severity of a corruption is a whole number from {SEVERITIES[0]} to {SEVERITIES[-1]}, not {severity!r}"
