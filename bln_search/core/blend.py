"""Population estimates by label: the name of a population, alone or blended with the present mini-batch.

A blended statistic is α·population + (1-α)·mini-batch, for means and for variances. α is a fixed number, or follows
the prior-weight rule α = N/(N+m): the population counts as N further examples beside the m of the mini-batch.

A moving statistic (source E) begins at the population and is blended anew with each mini-batch of inference; its label
has the same form.

Source: Schneider et al. 2020, Improving robustness against common corruptions by covariate shift adaptation, Eq. 2.
"""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from functools import lru_cache

POPULATION_NAME = re.compile(r"[A-Za-z][A-Za-z0-9_-]{0,31}")
"""Names of populations: letters, digits, `_` and `-`."""

ESTIMATE_PATTERN = r"^[A-Za-z][A-Za-z0-9_-]{0,31}(@N?[0-9][0-9.e+-]{0,30})?$"
"""Labels of population estimates: the name of a population, alone or with the weight of a blend."""

_SEPARATOR = "@"
_PRIOR = "N"


@dataclass(frozen=True, order=True)
class PopulationWeight:
    """The weight of the population in a blended statistic.

    Attributes:
        value: α, a number between 0 and 1; or N, a number above 0.
        is_prior: Whether `value` is N.
    """

    value: float
    is_prior: bool = False

    def __post_init__(self) -> None:
        """Raise ValueError unless `value` is a possible weight."""
        upper = math.inf if self.is_prior else 1.0
        if not 0 < self.value < upper:
            raise ValueError(_invalid_weight_message(str(self)))

    def __str__(self) -> str:
        return f"{_PRIOR if self.is_prior else ''}{repr(self.value).removesuffix('.0')}"

    def population_share(self, batch_size: int) -> float:
        """Return α for mini-batches of `batch_size` examples."""
        return self.value / (self.value + batch_size) if self.is_prior else self.value

    @staticmethod
    def parse(value: float | str) -> PopulationWeight:
        """Return the blend of a number, as 0.1, or of a text, as `0.1` or `N16`. Raises ValueError for others."""
        text = str(value)
        is_prior = text.startswith(_PRIOR)
        try:
            number = float(text.removeprefix(_PRIOR))
        except ValueError:
            number = math.nan
        if isinstance(value, bool) or math.isnan(number):
            raise ValueError(_invalid_weight_message(value))
        return PopulationWeight(number, is_prior)


def _invalid_weight_message(value: object) -> str:
    return (
        f"{value!r} is not the weight of a blend: give a number between 0 and 1, as in 0.1, or a number of prior "
        'examples, as in "N16"'
    )


def blended_estimate_label(population: str, blend: PopulationWeight) -> str:
    """Return the label of a blended estimate: `frozen@0.1`, `target@N16`."""
    return f"{population}{_SEPARATOR}{blend}"


@lru_cache(maxsize=1024)
def parse_estimate_label(label: str) -> tuple[str, PopulationWeight | None]:
    """Return the name of the population in the label of an estimate, and its blend.

    Raises:
        ValueError: The label is not the name of a population, alone or with a blend.
    """
    name, separator, weight = label.partition(_SEPARATOR)
    if not POPULATION_NAME.fullmatch(name):
        raise ValueError(f"{label!r} does not name a population: use letters, digits, _ and -, beginning with a letter")
    return name, PopulationWeight.parse(weight) if separator else None
