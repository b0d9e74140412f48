"""An arm of adaptation: a configuration, and a method of test-time adaptation on top of it."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import product
from math import prod
from typing import Any, ClassVar

from pydantic import Field, JsonValue, model_validator

from bln_search.core.blend import blended_estimate_label
from bln_search.core.configuration import InferenceConfiguration
from bln_search.core.method import Method, Statistic, StatisticSource
from bln_search.core.registry import ADAPTATIONS
from bln_search.specs.own_options import SectionWithOwnOptions, find_described_options
from bln_search.specs.sections.evaluation import BlendWeight

MAX_CANDIDATES = 64
"""Largest number of combinations of candidates."""


class AdaptationSpec(SectionWithOwnOptions):
    """A method of test-time adaptation on top of a configuration. It may be written as a name, as in `tent`.

    Attributes:
        name: A method of the table below, `none`, or one of an installed package. Its options are further keys.
        configuration: Code of the configuration, as `FF--`, or one letter for all statistics, as `F`; by default that
            of the method's paper.
        weight: Of the stored value, for the letters B and E.
        label: Name in tables; by default method, configuration and weight.
        candidates: Lists of values by option, of which one is selected.
    """

    kind: ClassVar[str] = "adaptation"
    added_later = frozenset({"configuration", "weight", "label", "candidates"})

    name: str = Field(min_length=1, max_length=64)
    configuration: str | None = Field(default=None, min_length=1, max_length=4)
    weight: BlendWeight | None = None
    label: str = Field(default="", max_length=80)
    candidates: dict[str, tuple[JsonValue, ...]] = Field(default_factory=dict)

    @model_validator(mode="before")
    @classmethod
    def _expand_shorthand(cls, value: Any) -> Any:
        return {"name": value} if isinstance(value, str) else value

    @classmethod
    def find_own_options(cls, name: str) -> Mapping[str, Any] | None:
        """The type of each option of the method; None for a method that is not known here."""
        return find_described_options(ADAPTATIONS, name)

    @model_validator(mode="after")
    def _check_configuration_and_candidates(self) -> AdaptationSpec:
        reserved = sorted(self.candidates.keys() & {"name", "label", "candidates"})
        if reserved:
            raise ValueError(f"{reserved[0]} is no option: candidates are lists of values by option")
        if prod(map(len, self.candidates.values())) > MAX_CANDIDATES:
            raise ValueError(f"there are more than {MAX_CANDIDATES} combinations of candidates: give fewer values")
        if not self.candidates.keys() & {"configuration", "weight"}:  # those of each combination are checked below
            self._check_weight()
        if not all(self.candidates.values()):
            raise ValueError("candidates are lists of at least one value for each option, as {learning_rate: [0.001]}")
        self.expand_candidates()
        return self

    def _check_weight(self) -> None:
        if _has_weight(self.letters) and self.weight is None:
            raise ValueError(f"the configuration {self.letters} needs the weight of its stored values: add `weight`")
        if self.weight is not None and not _has_weight(self.letters):
            raise ValueError(f"the configuration {self.letters} has no weight: remove `weight`")

    @property
    def letters(self) -> str:
        """The code, or one letter for all statistics."""
        if self.configuration is not None:
            return self.configuration
        info = ADAPTATIONS.find_info(self.name)
        return "F" if info is None else info.default_configuration

    @property
    def display_label(self) -> str:
        """Name in tables."""
        weight = "" if self.weight is None else f"@{self.weight}"
        return self.label or f"{self.name} {self.letters}{weight}"

    def make_configuration(self, method: Method) -> InferenceConfiguration:
        """The configuration of the layers of a method. Raises ValueError if the code does not fit it."""
        letters = self.letters
        code = (
            "".join(letters if statistic in method.statistics else StatisticSource.ABSENT for statistic in Statistic)
            if len(letters) == 1
            else letters
        )
        configuration = InferenceConfiguration(code)
        if not configuration.fits_method(method):
            raise ValueError(f"the configuration {code} does not have the statistics of {method}: choose another one")
        return configuration

    def make_estimate(self, configuration: InferenceConfiguration, population: str) -> str | None:
        """The label of the population estimate that the configuration reads."""
        if not configuration.uses_population:
            return None
        return population if self.weight is None else blended_estimate_label(population, self.weight)

    def expand_candidates(self) -> list[AdaptationSpec]:
        """An arm for each combination of candidates, without candidates. Raises ValidationError for invalid values.

        A combination whose configuration has no weight has none, and equal combinations are one.
        """
        if not self.candidates:
            return [self]
        values = {"configuration": None, **self.model_dump(mode="json", exclude={"candidates"})}
        arms = []
        for chosen in product(*self.candidates.values()):
            combination = {**values, **dict(zip(self.candidates, chosen, strict=True))}
            if not _has_weight(str(combination["configuration"] or self.letters)):
                combination["weight"] = None
            arms.append(AdaptationSpec.model_validate(combination))
        return [arm for position, arm in enumerate(arms) if arm not in arms[:position]]


def _has_weight(letters: str) -> bool:
    """Whether a configuration has sources with the weight of a stored value."""
    return any(source.description.has_row_weight for source in StatisticSource if source in letters)
