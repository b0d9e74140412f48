"""Arms of adaptation over the streams of a study, as an analysis stores them."""

from __future__ import annotations

from pydantic import Field, JsonValue

from bln_search.core.streams import SelectionData
from bln_search.ranking.analysis_part import StoredAnalysisModel
from bln_search.ranking.comparison import RowVerdict, Verdict


class StreamMoment(StoredAnalysisModel):
    """A mini-batch of one stream.

    Attributes:
        seed: Of the network.
        order: Number of the random order.
        batch: Number of the mini-batch, from 0.
        reason: Why the arm ended there; empty where it collapsed.
    """

    seed: int
    order: int
    batch: int
    reason: str = ""


class ComparedAdaptation(StoredAnalysisModel):
    """An arm of adaptation on the networks of one arm of the study, over all streams.

    Attributes:
        arm: Label of the arm of the study.
        point: Point of the search space as JSON; empty without a space.
        adaptation: Label of the arm of adaptation.
        label: Unique label.
        is_recommended: Whether it is the recommended row.
        verdict: What is known about it beside the best row; None if it ended early, or nothing is compared.
        error: Share of wrong predictions; examples after an early end count as wrong.
        deviation: Standard deviation of the error over streams; None for one stream.
        difference: Error minus that of the best row; None as for the verdict.
        low: Lower end of its 95 % confidence interval.
        high: Upper end.
        p: p value of the difference, corrected for all pairs of rows.
        loss: Mean negative log-likelihood (nats); None if the arm ended early.
        brier: Mean Brier score; None as for the loss.
        calibration_error: Expected calibration error; None as for the loss.
        errors_by_condition: The error of each condition.
        seconds_per_batch: Mean time of a mini-batch.
        selected_on: Data by which the options were selected.
        options: Of the method, where they are not its defaults.
        streams: Number of streams.
        collapses: Where streams collapsed beside the arm without adaptation, see `find_collapse`.
        ends: Where the arm ended before a stream did.
        errors: Error in each window of mini-batches, mean over streams.
        losses: Loss in each window; None after an early end.
    """

    arm: str
    point: str
    adaptation: str
    label: str
    is_recommended: bool = False
    verdict: RowVerdict | None = None
    error: float
    deviation: float | None = None
    difference: float | None = None
    low: float | None = None
    high: float | None = None
    p: float | None = None
    loss: float | None = None
    brier: float | None = None
    calibration_error: float | None = None
    errors_by_condition: dict[str, float]
    seconds_per_batch: float
    selected_on: SelectionData
    options: dict[str, JsonValue] = Field(default_factory=dict)
    streams: int
    collapses: tuple[StreamMoment, ...] = ()
    ends: tuple[StreamMoment, ...] = ()
    errors: tuple[float, ...] = ()
    losses: tuple[float | None, ...] = ()


class ConditionStart(StoredAnalysisModel):
    """Where a condition begins in the streams. batch: number of its first mini-batch."""

    batch: int
    condition: str


class StudyStreams(StoredAnalysisModel):
    """The arms of adaptation of a study, the best one first.

    Attributes:
        rows: The arms.
        networks: Number of networks with different seeds.
        orders: Number of random orders of each network.
        batches: Number of mini-batches of a stream.
        window: Number of mini-batches of a window.
        starts: Where conditions begin; empty where mini-batches have several.
        verdict: What is known about the choice of the recommended row; None where nothing is compared.
        practical: Difference of errors up to which rows are practically equal; None as for the verdict.
        excluded: Labels of rows that are not among them, with the reason.
        reason: Why there is no row.
    """

    rows: tuple[ComparedAdaptation, ...] = ()
    networks: int = 0
    orders: int = 0
    batches: int = 0
    window: int = 1
    starts: tuple[ConditionStart, ...] = ()
    verdict: Verdict | None = None
    practical: float | None = None
    excluded: dict[str, str] = Field(default_factory=dict)
    reason: str | None = None
