"""Everything computed from the results of a completed study, as stored."""

from __future__ import annotations

from bln_search.core.class_prior import ClassPriorBaseline
from bln_search.ranking.analysis_part import StoredAnalysisModel
from bln_search.ranking.comparison import Comparison
from bln_search.ranking.effect_records import SwitchEffectsOfSetting, VarianceShares
from bln_search.ranking.per_layer import PerLayerResult
from bln_search.ranking.selection.baseline_check import ArmsNoBetterThanPrior
from bln_search.ranking.selection.recommendation import Recommendation
from bln_search.ranking.selection.selected_row import SelectedRowPerformance
from bln_search.ranking.stream_results import StudyStreams

ANALYSIS_FORMAT = 9
"""Version of the stored form; an analysis of another version is computed again."""


class MeasuredLatency(StoredAnalysisModel):
    """Time of a forward pass of one mini-batch under one configuration.

    Attributes:
        arm: Label of the arm.
        point: Point of the search space as JSON; empty without a space.
        configuration: Inference configuration.
        batch_size: Examples per mini-batch.
        seconds: Median.
        lower: Lower quartile, seconds.
        upper: Upper quartile, seconds.
        passes: Number of timed passes.
    """

    arm: str
    point: str
    configuration: str
    batch_size: int
    seconds: float
    lower: float
    upper: float
    passes: int

    @property
    def examples_per_second(self) -> float:
        """Examples per second."""
        return self.batch_size / self.seconds


class Analysis(StoredAnalysisModel):
    """Statistics of a study's results on the split that decides the ranking.

    Attributes:
        comparison: None where rows cannot be compared, see `reason`.
        conditions_reason: Why rows are compared by the loss that ranks although the study has conditions.
        selection: Performance of the first row on the other split.
        recommendation: None where rows cannot be compared.
        class_prior: Loss and accuracy of predicting the class frequencies; None where they are unknown.
        no_better_than_class_prior: Arms without a row better than the class-prior baseline; None where there are none
            or the baseline is unknown.
        effects: Factorial effects for the arms and points of the compared rows, on every split and metric.
        shares: Variance shares for the same.
        latencies: Measured on `device` with `threads` threads while nothing else of the study ran.
        device: Device of the latencies.
        threads: Threads of the latencies.
        layers: Results of the per-layer searches, one for each arm and point.
        layers_reason: Why requested per-layer results are missing.
        streams: Arms of adaptation over streams; None for a study without streams.
        reason: Why there is no comparison.
        looks: Numbers of seeds at which data of this study were compared, by this study and by those that it continues;
            the last one is that of `comparison`.
        is_provisional: The study was not complete: the verdicts may change.
    """

    comparison: Comparison | None = None
    conditions_reason: str | None = None
    selection: SelectedRowPerformance | None = None
    recommendation: Recommendation | None = None
    class_prior: ClassPriorBaseline | None = None
    no_better_than_class_prior: ArmsNoBetterThanPrior | None = None
    effects: tuple[SwitchEffectsOfSetting, ...] = ()
    shares: tuple[VarianceShares, ...] = ()
    latencies: tuple[MeasuredLatency, ...] = ()
    device: str | None = None
    threads: int | None = None
    layers: tuple[PerLayerResult, ...] = ()
    layers_reason: str | None = None
    streams: StudyStreams | None = None
    reason: str | None = None
    looks: tuple[int, ...] = ()
    is_provisional: bool = False
