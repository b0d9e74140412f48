"""All that is worked out of a study once it has ended, as it is kept."""

from __future__ import annotations

from bln_search.ranking.comparison import Comparison
from bln_search.ranking.per_layer import LayerResult
from bln_search.ranking.selection.baseline_check import Doubt
from bln_search.ranking.selection.recommendation import Recommendation
from bln_search.ranking.selection.selection_bias import Selection
from bln_search.ranking.stored_model import Kept
from bln_search.ranking.study_effects import ConditionEffects, VarianceShares

FORMAT = 4
"""Of what is kept; another version's is worked out anew."""


class MeasuredLatency(Kept):
    """Seconds for one mini-batch of a network under a configuration: median and quartiles of `passes`."""

    arm: str
    point: str
    configuration: str
    batch_size: int
    seconds: float
    lower: float
    upper: float
    passes: int

    @property
    def throughput(self) -> float:
        """Examples a second."""
        return self.batch_size / self.seconds


class Analysis(Kept):
    """What a study's results say, on the split that decides.

    comparison: None where rows cannot be compared; `reason` says why. doubt: arms that do no better than guessing.
    effects, shares: of the arms and points of the compared rows, on every split and metric. latencies: measured on
    `device` with `threads`, nothing else of the study running. layers: per-layer configurations, one for each arm and
    point; layers_reason: why they are missing where they were asked for.
    """

    comparison: Comparison | None = None
    selection: Selection | None = None
    recommendation: Recommendation | None = None
    doubt: Doubt | None = None
    effects: tuple[ConditionEffects, ...] = ()
    shares: tuple[VarianceShares, ...] = ()
    latencies: tuple[MeasuredLatency, ...] = ()
    device: str | None = None
    threads: int | None = None
    layers: tuple[LayerResult, ...] = ()
    layers_reason: str | None = None
    reason: str | None = None
