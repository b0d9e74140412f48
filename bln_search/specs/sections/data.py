"""The data set of a study, and the part of it that is used."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from enum import StrEnum
from typing import Annotated, Any, ClassVar

from pydantic import Field, field_validator

from bln_search.core.data_set_info import DataSetInfo
from bln_search.core.registry import DATA_SETS
from bln_search.specs.own_options import SectionWithOwnOptions, find_described_options
from bln_search.specs.pydantic_messages import short_repr

_MOST_EXAMPLES = 2**31


class Standardization(StrEnum):
    """How inputs are standardized to mean 0 and deviation 1, fitted on the training examples that are used.

    Members:
        PIXEL: Each position of each channel.
        CHANNEL: Each channel.
        NONE: Inputs are divided by their largest value.
    """

    PIXEL = "pixel"
    CHANNEL = "channel"
    NONE = "none"


class DataSpec(SectionWithOwnOptions):
    """A data set and the part of it that is used.

    Attributes:
        name: `digits`, `mnist`, `cifar10`, `cifar100`, `imdb`, `imagenet`; with other labels than classes `diabetes`,
            `imdb_case`, `imdb_next_word`; or the name of a data set of an installed package (plugin). Such a data set
            may have further keys.
        fraction: The fraction of training and validation examples that is used.
        validation: Examples held out of the training set: a count, or a fraction below 1.
        stratified: Keep the proportions of the classes, of labels that are classes.
        seed: Seed that selects the examples; the same for every trial of the study.
        standardization: To mean 0 and standard deviation 1, fitted on the training examples in use: each `pixel`, each
            `channel`, or `none` (inputs are divided by their largest possible value). Texts are not standardized.
    """

    kind: ClassVar[str] = "data set"

    name: str = Field(min_length=1, max_length=64)
    fraction: Annotated[float, Field(gt=0, le=1)] = 1.0
    validation: Annotated[int, Field(ge=1)] | Annotated[float, Field(gt=0, lt=1)] = 0.1
    stratified: bool = True
    seed: Annotated[int, Field(ge=0, lt=2**32)] = 0
    standardization: Standardization = Standardization.PIXEL

    @classmethod
    def find_own_options(cls, name: str) -> Mapping[str, Any] | None:
        """The type of each option that the data set alone has; None for a data set that is not known here."""
        return find_described_options(DATA_SETS, name)

    @field_validator("validation", mode="before")
    @classmethod
    def _parse_count_or_fraction(cls, text_or_number: object) -> object:
        value = text_or_number
        if isinstance(value, str):  # YAML 1.1 reads 1e-1 as a string
            with suppress(ValueError):
                value = float(value)
        if isinstance(value, bool) or not isinstance(value, int | float) or not _is_count_or_fraction(value):
            raise ValueError(
                f"give the number of validation examples, or their fraction below 1, not {short_repr(text_or_number)}"
            )
        return value

    @property
    def info(self) -> DataSetInfo | None:
        """The description of the data set; None where it is not known."""
        return DATA_SETS.find_info(self.name)


def _is_count_or_fraction(value: float) -> bool:
    """Is the value a whole number between 1 and _MOST_EXAMPLES, or a number between 0 and 1?"""
    return 0 < value < 1 or (1 <= value <= _MOST_EXAMPLES and value == value // 1)
