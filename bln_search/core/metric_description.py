"""What a metric of a task is, and the metrics of the built-in tasks."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

METRIC_NAME_PATTERN = "[a-z][a-z0-9_]{0,31}"
"""Names of metrics, which are parts of the names of columns: `r2` in `validation_r2_mean`."""

RESERVED_METRIC_NAMES = frozenset({"loss", "accuracy", "gap"})
"""Columns that are not metrics of a task."""

NO_METRICS: Mapping[str, float] = {}
"""The metrics of an evaluation without any."""


@dataclass(frozen=True)
class MetricDescription:
    """A metric that is computed over all examples of a split. Rows are never ranked by it.

    Attributes:
        name: Name in columns, as `r2`: lower-case letters, digits and underscores.
        label: Name in headings, as `R²`.
        meaning: What it is, to continue "R²: ".
        higher_is_better: Whether a higher value is better.
        unit: Unit; empty for a number without one.
    """

    name: str
    label: str
    meaning: str
    higher_is_better: bool
    unit: str = ""

    def __post_init__(self) -> None:
        """Raise ValueError for a name that cannot be a part of the name of a column."""
        if not re.fullmatch(METRIC_NAME_PATTERN, self.name) or self.name in RESERVED_METRIC_NAMES:
            raise ValueError(
                f"{self.name!r} cannot be the name of a metric: give at most 32 of a-z, 0-9 and _, a letter first, "
                f"other than {', '.join(sorted(RESERVED_METRIC_NAMES))}"
            )

    @property
    def legend(self) -> str:
        """`R²: fraction of the variance that is explained; higher is better`."""
        unit = f", in {self.unit}" if self.unit else ""
        return f"{self.label}: {self.meaning}{unit}; {'higher' if self.higher_is_better else 'lower'} is better"


R2 = MetricDescription(
    "r2",
    "R²",
    "fraction of the variance of the targets that the outputs explain",
    higher_is_better=True,
)
MEAN_ABSOLUTE_ERROR = MetricDescription(
    "mean_absolute_error",
    "MAE",
    "mean absolute error over all numbers",
    higher_is_better=False,
    unit="units of the data",
)
MACRO_F1 = MetricDescription(
    "macro_f1", "macro F1", "mean of the F1 scores of the labels or classes", higher_is_better=True
)
MICRO_F1 = MetricDescription(
    "micro_f1", "micro F1", "F1 score of all labels of all examples together", higher_is_better=True
)
TOKEN_ACCURACY = MetricDescription(
    "token_accuracy",
    "token accuracy",
    "fraction of all tokens whose most probable class is the right one",
    higher_is_better=True,
)
PERPLEXITY = MetricDescription(
    "perplexity",
    "perplexity",
    "exponential of the total cross-entropy over the total number of tokens",
    higher_is_better=False,
)
BITS_PER_DIMENSION = MetricDescription(
    "bits_per_dimension",
    "bits per dimension",
    "negative log-likelihood over the numbers of an input",
    higher_is_better=False,
    unit="bits",
)
ECE = MetricDescription(
    "ece",
    "ECE",
    "expected calibration error, mean distance between confidence and accuracy over 15 bins of the confidence",
    higher_is_better=False,
)
BRIER = MetricDescription(
    "brier",
    "Brier score",
    "mean over examples of the squared distance between the class probabilities and the right class",
    higher_is_better=False,
)
NLL = MetricDescription(
    "nll", "NLL", "mean negative logarithm of the probability of the right class", higher_is_better=False, unit="nats"
)

BUILT_IN_METRICS: Mapping[str, MetricDescription] = {
    metric.name: metric
    for metric in (
        *(R2, MEAN_ABSOLUTE_ERROR, MACRO_F1, MICRO_F1, TOKEN_ACCURACY, PERPLEXITY, BITS_PER_DIMENSION),
        *(ECE, BRIER, NLL),
    )
}
"""The metrics of the built-in tasks, and those of calibration, by name."""
