"""Which data, and which part of it."""

from __future__ import annotations

from contextlib import suppress
from enum import StrEnum
from typing import Annotated

from pydantic import Field, field_validator

from bln_search.specs.base import Spec
from bln_search.specs.wording import shown

_MOST_EXAMPLES = 2**31


class Standardization(StrEnum):
    """How inputs are brought to mean 0 and deviation 1, fitted on the training examples used.

    pixel: each position of each channel by itself; channel: each channel; none: inputs over their largest value.
    """

    PIXEL = "pixel"
    CHANNEL = "channel"
    NONE = "none"


class DataSpec(Spec):
    """A data set by name and the part of it that is used.

    validation: examples held out of the training set, a count or a fraction below 1.
    fraction: the part of both that is used (of the training examples left, and of the validation examples).
    stratified: keep the proportions of the classes. seed: which examples; the same for every trial of a study.
    """

    name: str = Field(min_length=1, max_length=64)
    fraction: Annotated[float, Field(gt=0, le=1)] = 1.0
    validation: Annotated[int, Field(ge=1)] | Annotated[float, Field(gt=0, lt=1)] = 0.1
    stratified: bool = True
    seed: Annotated[int, Field(ge=0, lt=2**32)] = 0
    standardization: Standardization = Standardization.PIXEL

    @field_validator("validation", mode="before")
    @classmethod
    def _number(cls, given: object) -> object:
        value = given
        if isinstance(value, str):  # YAML 1.1 reads 1e-1 as a word
            with suppress(ValueError):
                value = float(value)
        if isinstance(value, bool) or not isinstance(value, int | float) or not _is_count_or_fraction(value):
            raise ValueError(f"give the number of validation examples, or their fraction below 1, not {shown(given)}")
        return value


def _is_count_or_fraction(value: float) -> bool:
    """Is this a whole number of at least one, of a size data can have, or less than one and more than nothing?"""
    return 0 < value < 1 or (1 <= value <= _MOST_EXAMPLES and value == value // 1)
