"""Trials of sampled points as a sampler learns from them."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from bln_search.core.states import TrialState
from bln_search.specs.records import TrialRecord
from bln_search.specs.sections.search import Objective


@dataclass(frozen=True)
class SampledTrial:
    """A trial of a sampled point with the measurements that a sampler learns from.

    Attributes:
        trial: The trial.
        losses: Validation losses (nats) by epoch.
        best_loss: The lowest validation loss (nats) of its evaluations; None before they are measured.
    """

    trial: TrialRecord
    losses: dict[int, float] = field(default_factory=dict)
    best_loss: float | None = None

    @property
    def key(self) -> str:
        """The key of the trial."""
        return self.trial.key

    @property
    def parameters(self) -> dict[str, Any]:
        """The sampled point."""
        return self.trial.parameters or {}

    @property
    def state(self) -> TrialState:
        """The state of the trial."""
        return self.trial.state

    def objective_value(self, objective: Objective) -> float | None:
        """The value of an objective; None if the trial has none."""
        if objective is Objective.BEST_LOSS and self.best_loss is not None:
            return self.best_loss
        if self.trial.checkpoint is None:
            return None
        if objective is Objective.LOSS:
            return self.trial.checkpoint.validation_loss
        value = self.trial.checkpoint.provenance.get(objective.value)
        return None if value is None else float(value)
