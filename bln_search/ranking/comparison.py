"""Results of a comparison of rows, as stored and reported; computed by `bln_search.ranking.paired`."""

from __future__ import annotations

from enum import StrEnum

from bln_search.core.configuration import InferenceConfiguration
from bln_search.core.enums import Split
from bln_search.core.records import RowKey
from bln_search.ranking.analysis_part import StoredAnalysisModel

MAX_COMPARED_ROWS = 1_000
"""Number of rows, from the best one down, that are compared."""

POWER = 0.8
"""Share of studies of the required size that are decided."""

MAX_REQUIRED_SEEDS = 100
"""Largest required number of seeds that is named."""


class Question(StrEnum):
    """What an answer extends to.

    Members:
        THESE_NETWORKS: Which row the networks at hand should use: on other examples.
        NEW_TRAININGS: Which row networks that are trained anew should use: other seeds and other examples.
    """

    THESE_NETWORKS = "these networks"
    NEW_TRAININGS = "new trainings"


class Verdict(StrEnum):
    """What is known about the choice of a row (95 %).

    Members:
        BETTER: The recommended row is significantly better than every other row.
        PRACTICALLY_EQUAL: No row is better than the recommended one by more than the margin.
        CANNOT_TELL: Neither is certain.
    """

    BETTER = "better"
    PRACTICALLY_EQUAL = "practically equal"
    CANNOT_TELL = "cannot tell"


class RowVerdict(StrEnum):
    """What is known about a row beside the row of lowest mean loss (95 %, corrected).

    Members:
        BEST: It is the row of lowest mean loss.
        PRACTICALLY_EQUAL: Its loss is above that of the best row by less than the margin.
        WORSE: The best row is significantly better.
        CANNOT_TELL: Neither is certain.
    """

    BEST = "best"
    PRACTICALLY_EQUAL = "practically equal"
    WORSE = "worse"
    CANNOT_TELL = "cannot tell"


class RequiredData(StoredAnalysisModel):
    """About how much data would decide, if the observed means and variances are the true ones.

    Attributes:
        seeds: Number of seeds; None for one seed, for more than `MAX_REQUIRED_SEEDS`, and where no number suffices.
        examples: Number of examples; None where no number suffices, or only a thousand times as many as there are.
        limited_by_examples: No number of seeds suffices on so few examples.
    """

    seeds: int | None
    examples: int | None
    limited_by_examples: bool = False


class MeanDifference(StoredAnalysisModel):
    """Mean difference of two rows (first − second) with its 95 % confidence interval.

    Attributes:
        mean: Mean difference, nats or fraction.
        low: Lower end of the confidence interval.
        high: Upper end of the confidence interval.
        p: Two-sided p value.
        adjusted: p value corrected for all pairs.
    """

    mean: float
    low: float
    high: float
    p: float
    adjusted: float

    @property
    def with_rows_swapped(self) -> MeanDifference:
        """The difference second − first."""
        return self.model_copy(update={"mean": -self.mean, "low": -self.high, "high": -self.low})


class StoredRow(StoredAnalysisModel):
    """What identifies a row of a leaderboard.

    Attributes:
        arm: Label of the arm.
        point: Point of the search space as JSON; empty without a space.
        configuration: Inference configuration.
        estimate: Population estimate; None where the configuration reads no population value.
        batch_size: Inference mini-batch size.
    """

    arm: str
    point: str
    configuration: str
    estimate: str | None
    batch_size: int

    @property
    def key(self) -> RowKey:
        """Identity of the row."""
        configuration = InferenceConfiguration(self.configuration)
        return RowKey(self.arm, self.point, configuration, self.estimate, self.batch_size)


class ComparedRow(StoredRow):
    """A row with its position in a comparison.

    Attributes:
        loss: Mean loss over seeds and examples, nats.
        accuracy: Mean accuracy over seeds and examples, fraction; None for a score without correctness.
        verdict: What is known about the row beside the best one.
        above_best: Its mean loss minus that of the best row, nats; 0 for the best row and rows equal to it.
        accuracy_above_best: The same of accuracies, fraction; None for a score without correctness.
        variance: Variance of the mean of `above_best`, squared nats.
        first_share: Probability that the row has the lowest mean loss, from draws with the fitted variances.
        is_settled: Whether no row is better than this one by more than the margin (95 %, corrected).
    """

    loss: float
    accuracy: float | None
    verdict: RowVerdict
    above_best: MeanDifference
    accuracy_above_best: MeanDifference | None
    variance: float
    first_share: float
    is_settled: bool

    @property
    def is_worse(self) -> bool:
        """Whether the best row is significantly better."""
        return self.verdict is RowVerdict.WORSE


class Comparison(StoredAnalysisModel):
    """Rows of one leaderboard compared with the best of them on one split, by increasing mean loss.

    Attributes:
        split: Split on which rows are compared.
        question: What the answer extends to.
        seeds: Number of seeds.
        examples: Number of examples.
        sampled_from: Number of examples of the split, from which those were drawn at random; None where they are all.
        not_compared: Number of ranked rows that are not part of the comparison.
        margin: Difference of mean losses (nats) up to which rows are practically equal.
        level: Significance level: 5 %, or the part of it that this look at the data may spend.
        rows: Compared rows.
        current: Index of the row of the current configuration; None where there is none.
        optimism: Selection bias of the best row: expected amount (nats) by which its mean loss is too low because it
            was selected for a low mean loss.
        prior_variance: Variance of the prior of true differences of two rows (`selection.expected_loss`), nats².
        draws: Number of draws of the noise.
        required: About how much data would decide; None where the best row and the preferred ones are settled.
        over: `worst` or `mean`: compared are these losses over conditions; None where it is the loss that ranks.
        conditions: Names of these conditions.
    """

    split: Split
    question: Question
    seeds: int
    examples: int
    sampled_from: int | None
    not_compared: int
    margin: float
    level: float
    rows: tuple[ComparedRow, ...]
    current: int | None
    optimism: float
    prior_variance: float
    draws: int
    required: RequiredData | None
    over: str | None = None
    conditions: tuple[str, ...] = ()

    @property
    def loss_name(self) -> str:
        """Name of the compared loss: `validation loss`, or `worst validation loss` over conditions."""
        return f"{self.over} {self.split} loss" if self.over else f"{self.split} loss"

    @property
    def rows_not_worse(self) -> tuple[ComparedRow, ...]:
        """The rows that may be the best one, or are practically equal to it."""
        return tuple(row for row in self.rows if not row.is_worse)

    @property
    def open_rows(self) -> tuple[ComparedRow, ...]:
        """The rows about which nothing is known."""
        return tuple(row for row in self.rows if row.verdict is RowVerdict.CANNOT_TELL)
