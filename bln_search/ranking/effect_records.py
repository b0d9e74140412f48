"""Effects of switches and shares of variance, as an analysis stores them."""

from __future__ import annotations

from bln_search.core.enums import Split
from bln_search.ranking.analysis_part import StoredAnalysisModel

SWITCH_INTERACTIONS = "switches together"
"""Stored name of the share of all interactions among switches."""

RESIDUAL = "rest"
"""Stored name of the share that no factor explains."""


class SwitchEffectOrInteraction(StoredAnalysisModel):
    """A main effect or interaction (see `compute_factorial_effects`) with its 95 % confidence interval over seeds."""

    switches: str
    mean: float
    low: float | None
    high: float | None


class SwitchEffectsOfSetting(StoredAnalysisModel):
    """Main effects and interactions of the switches under one evaluation setting, for one metric on one split."""

    arm: str
    point: str
    estimate: str | None
    batch_size: int
    split: Split
    metric: str
    effects: tuple[SwitchEffectOrInteraction, ...]


class VarianceShares(StoredAnalysisModel):
    """Shares of the variance of a metric by factor, in decreasing order, then interactions and the residual."""

    arm: str
    point: str
    split: Split
    metric: str
    shares: tuple[tuple[str, float], ...]
