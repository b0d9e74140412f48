"""A condition of a study: a corruption of the images, under which every trained network is evaluated once more."""

from __future__ import annotations

import re
from typing import Annotated, Any

from pydantic import Field, model_validator

from bln_search.core.corruption import DEFAULT_SEVERITY, SEVERITIES, Corruption, split_name_and_severity
from bln_search.core.names import NAME_PATTERN
from bln_search.core.registry import CORRUPTIONS
from bln_search.specs.spec_section import SpecSection

CLEAN = "clean"
"""The images as they are; an evaluation of them has an empty condition."""

RESERVED_NAMES = frozenset({CLEAN, "train", "validation", "test", "mean", "worst"})
"""Names that tables use for splits, for the images as they are, and for summaries over conditions."""


class ConditionSpec(SpecSection):
    """A further validation and test set: the same images with a corruption that keeps the label.

    A condition may also be written as a text, `NAME` or `NAME-SEVERITY`, as in `gaussian_noise-3`.

    Attributes:
        name: Name of the condition in tables: small letters, digits, `-` and `_`; by default `CORRUPTION-SEVERITY`.
        corruption: A corruption of images, built in or of an installed package.
        severity: From 1, the weakest, to 5.
        seed: Seed of random corruptions; the same image has the same noise in every trial and mini-batch.
    """

    name: str = Field(default="", pattern=NAME_PATTERN, validate_default=False)
    corruption: str = Field(min_length=1, max_length=64)
    severity: Annotated[int, Field(ge=SEVERITIES[0], le=SEVERITIES[-1])] = DEFAULT_SEVERITY
    seed: Annotated[int, Field(ge=0, lt=2**32)] = 0

    @model_validator(mode="before")
    @classmethod
    def _expand_shorthand(cls, value: Any) -> Any:
        """Convert a text to a mapping, and add the name, so that a condition is stored in one form."""
        if isinstance(value, str):
            value = _split_corruption_and_severity(value)
        if not isinstance(value, dict) or value.get("name", "") != "":
            return value
        corruption, severity = value.get("corruption"), value.get("severity", DEFAULT_SEVERITY)
        if not isinstance(corruption, str) or not isinstance(severity, int):
            return value
        return {**value, "name": _make_default_condition_name(corruption, severity)}

    @model_validator(mode="after")
    def _check_name(self) -> ConditionSpec:
        if self.name in RESERVED_NAMES:
            raise ValueError(f"the name {self.name} is reserved: give the condition another name")
        return self

    @property
    def image_corruption(self) -> Corruption:
        """The corruption of the images. Raises DataError if its package is not installed."""
        return Corruption(self.corruption, self.severity)


def _split_corruption_and_severity(text: str) -> dict[str, Any]:
    """The keys of a condition that is written as a text."""
    name, severity = split_name_and_severity(text)
    if severity is None:
        return {"corruption": name}
    if severity not in SEVERITIES:
        raise ValueError(f"{text}: a severity is a whole number from {SEVERITIES[0]} to {SEVERITIES[-1]}")
    return {"corruption": name, "severity": severity}


def _make_default_condition_name(corruption: str, severity: int) -> str:
    """The name of a condition without one. Raises ValueError if it cannot be one and there is no such corruption."""
    name = f"{corruption}-{severity}"
    problem = None if re.match(NAME_PATTERN, name) else CORRUPTIONS.find_problem(corruption)
    if problem is not None:
        raise ValueError(problem)
    return name
