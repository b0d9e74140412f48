"""Fine-tuning of the trained network of a trial under one inference configuration."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from torch import Tensor, nn
from torch.nn import functional as F

from bln_search.core.configuration import InferenceConfiguration
from bln_search.core.enums import PopulationEstimate, Split
from bln_search.core.errors import ModelError
from bln_search.core.records import Evaluation
from bln_search.data.prepared import PreparedData
from bln_search.evaluation.batches import MiniBatch, complete_mini_batches, mini_batches
from bln_search.evaluation.populations import collect_frozen_moments
from bln_search.evaluation.split import evaluate_split
from bln_search.norms.network.layers import (
    MomentsByEstimate,
    find_norms,
    layer_estimates,
    network_populations,
    refresh_populations,
)
from bln_search.norms.row_batching.row_tensor import InferenceRow
from bln_search.specs.sections.fine_tune import FineTuneSpec
from bln_search.specs.trial import TrialSpec, planned_inference_rows
from bln_search.training.fine_tuning import FineTuning
from bln_search.training.optimization import make_optimizer


@dataclass(frozen=True)
class FineTuned:
    """The outcome of fine-tuning.

    Attributes:
        configuration: Under which the network was trained further.
        loss_before: Validation loss of that configuration before.
        loss_after: The same after it, with the population of the new weights.
        moments: Estimates from the layers' own history (the memory of MBN) after it.
        diverged: Why it stopped early; None where it did not.
    """

    configuration: InferenceConfiguration
    loss_before: float
    loss_after: float
    moments: MomentsByEstimate
    diverged: str | None

    @property
    def provenance(self) -> dict[str, str | int | float]:
        """What a checkpoint records of it."""
        return {
            "fine_tuned_under": str(self.configuration),
            "validation_loss_before_fine_tuning": self.loss_before,
            "validation_loss_after_fine_tuning": self.loss_after,
        }


def fine_tune_network(
    trial: TrialSpec, spec: FineTuneSpec, network: nn.Module, moments: MomentsByEstimate, data: PreparedData
) -> FineTuned:
    """Train the network further in place.

    Args:
        trial: The trial.
        spec: Its fine-tuning.
        network: Its network, with the weights of the kept epoch.
        moments: Estimates of that epoch.
        data: Its data set.

    Raises:
        ModelError: No row of the trial has a value under which the network could be trained.
    """
    tuner = _Tuner(trial, network, moments, data)
    frozen = tuner.collect()
    before = tuner.best_row(frozen, spec.configuration)
    tuner.configure(before.key.configuration, frozen)
    training = trial.training.model_copy(
        update={"learning_rate": trial.training.learning_rate * spec.learning_rate_factor}
    )
    tuning = FineTuning(
        network,
        tuner.training_batches,
        tuner.loss,
        make_optimizer(network, training),
        epochs=spec.epochs,
        refresh=spec.refresh,
        estimate=lambda: tuner.refresh(tuner.collect()),
    )
    for _ in tuning.epochs():
        pass
    after = tuner.best_row(tuner.collect(), before.key.configuration)
    assert before.loss is not None
    assert after.loss is not None
    return FineTuned(before.key.configuration, before.loss, after.loss, tuner.memory, tuning.diverged)


class _Tuner:
    """Data, populations and rows of a trial's network.

    Args:
        trial: The trial.
        network: Its network.
        moments: Estimates of its kept epoch.
        data: Its data set.
    """

    def __init__(self, trial: TrialSpec, network: nn.Module, moments: MomentsByEstimate, data: PreparedData) -> None:
        self.trial, self.network, self.data = trial, network, data
        self.layers = find_norms(network)
        self._kept_memory: MomentsByEstimate | None = _memory_of(moments)

    @property
    def memory(self) -> MomentsByEstimate:
        """The memory of MBN: that of the kept epoch before the first step, then that of the layers."""
        return _memory_of(layer_estimates(self.layers)) if self._kept_memory is None else self._kept_memory

    def training_batches(self) -> Iterator[MiniBatch]:
        """The complete training mini-batches in the order of the data."""
        inputs, targets = self.data.splits[Split.TRAIN]
        yield from complete_mini_batches(inputs, targets, self.trial.training.batch_size)

    def loss(self, batch: MiniBatch) -> Tensor:
        """The mean loss of a mini-batch."""
        inputs, targets = batch
        self._kept_memory = None
        return F.cross_entropy(self.network(inputs), targets)

    def collect(self) -> MomentsByEstimate:
        """The `frozen` estimate of the present weights, and the memory."""
        frozen = collect_frozen_moments(self.network, (inputs for inputs, _ in self.training_batches()))
        return {**self.memory, PopulationEstimate.FROZEN: frozen}

    def best_row(self, moments: MomentsByEstimate, only: InferenceConfiguration | None) -> Evaluation:
        """The row of lowest validation loss; that of one configuration if it is given."""
        evaluation = self.trial.evaluation
        rows = [
            InferenceRow(configuration, estimate)
            for configuration, estimate in planned_inference_rows(self.trial)
            if not configuration.uses_blend and only in (None, configuration)
        ]
        results = evaluate_split(
            self.network,
            mini_batches(*self.data.splits[Split.VALIDATION], self.trial.training.batch_size),
            rows,
            network_populations(self.layers, moments, evaluation.correction, per_slot=evaluation.per_slot),
            split=Split.VALIDATION,
            batch_size=self.trial.training.batch_size,
        )
        measured = [result for result in results if result.loss is not None]
        if not measured:
            reasons = "; ".join(str(result.reason) for result in results[:1])
            raise ModelError(f"the network cannot be fine-tuned: no configuration has a finite loss ({reasons})")
        return min(measured, key=lambda result: result.loss or 0.0)

    def configure(self, configuration: InferenceConfiguration, moments: MomentsByEstimate) -> None:
        """Configure the layers, with the population values of these moments."""
        for layer in self.layers.values():
            layer.configuration = configuration.restricted_to(layer.method)
        self.refresh(moments)

    def refresh(self, moments: MomentsByEstimate) -> None:
        """Give the layers the population values of these moments."""
        evaluation = self.trial.evaluation
        refresh_populations(self.layers, moments, evaluation.correction, per_slot=evaluation.per_slot)


def _memory_of(moments: MomentsByEstimate) -> MomentsByEstimate:
    return {name: by_layer for name, by_layer in moments.items() if name == PopulationEstimate.MEMORY}
