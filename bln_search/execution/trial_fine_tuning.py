"""Fine-tuning of the trained network of a trial under one inference configuration."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from torch import Tensor, nn

from bln_search.core.configuration import InferenceConfiguration
from bln_search.core.enums import PopulationEstimate, Split
from bln_search.core.errors import ModelError
from bln_search.core.records import Evaluation
from bln_search.data.prepared import PreparedData
from bln_search.evaluation.batches import MiniBatch, iter_complete_mini_batches, iter_mini_batches_with_fillers
from bln_search.evaluation.populations import collect_moments_with_frozen_weights
from bln_search.evaluation.split_evaluation import evaluate_split
from bln_search.norms.network.layers import (
    MomentsByEstimate,
    compute_populations_of_layers,
    get_norms_by_name,
    moments_by_estimate_from_training_history,
    store_populations_from_moments,
)
from bln_search.norms.row_batching.row_tensor import InferenceRow
from bln_search.specs.sections.fine_tune import FineTuneSpec
from bln_search.specs.trial import TrialSpec, list_planned_configurations_and_estimates
from bln_search.tasks import make_task
from bln_search.training.fine_tuning import FineTuningRun
from bln_search.training.optimization import make_optimizer


@dataclass(frozen=True)
class TrialFineTuningResult:
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
    def checkpoint_provenance(self) -> dict[str, str | int | float]:
        """What a checkpoint records of it."""
        return {
            "fine_tuned_under": str(self.configuration),
            "validation_loss_before_fine_tuning": self.loss_before,
            "validation_loss_after_fine_tuning": self.loss_after,
        }


def fine_tune_network_in_place(
    trial: TrialSpec, spec: FineTuneSpec, network: nn.Module, moments: MomentsByEstimate, data: PreparedData
) -> TrialFineTuningResult:
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
    tuner = _FineTuningAdapter(trial, network, moments, data)
    frozen = tuner.collect_moments()
    before = tuner.evaluate_best_row(frozen, spec.configuration)
    tuner.configure_layers(before.key.configuration, frozen)
    training = trial.training.model_copy(
        update={"learning_rate": trial.training.learning_rate * spec.learning_rate_factor}
    )
    tuning = FineTuningRun(
        network,
        tuner.training_batches,
        tuner.mean_loss_of_mini_batch,
        make_optimizer(network, training),
        epochs=spec.epochs,
        refresh=spec.refresh,
        estimate=lambda: tuner.store_populations_from_moments(tuner.collect_moments()),
    )
    for _ in tuning.train_epochs():
        pass
    after = tuner.evaluate_best_row(tuner.collect_moments(), before.key.configuration)
    assert before.loss is not None
    assert after.loss is not None
    return TrialFineTuningResult(
        before.key.configuration, before.loss, after.loss, tuner.mbn_memory_moments, tuning.diverged
    )


class _FineTuningAdapter:
    """Data, populations and rows of a trial's network.

    Args:
        trial: The trial.
        network: Its network.
        moments: Estimates of its kept epoch.
        data: Its data set.
    """

    def __init__(self, trial: TrialSpec, network: nn.Module, moments: MomentsByEstimate, data: PreparedData) -> None:
        self.trial, self.network, self.data, self.task = trial, network, data, make_task(trial.resolved_task)
        self.layers = get_norms_by_name(network)
        self._kept_memory: MomentsByEstimate | None = _memory_moments_of(moments)

    @property
    def mbn_memory_moments(self) -> MomentsByEstimate:
        """The memory of MBN: that of the kept epoch before the first step, then that of the layers."""
        if self._kept_memory is not None:
            return self._kept_memory
        return _memory_moments_of(moments_by_estimate_from_training_history(self.layers))

    def training_batches(self) -> Iterator[MiniBatch]:
        """The complete training mini-batches in the order of the data."""
        inputs, targets = self.data.splits[Split.TRAIN]
        yield from iter_complete_mini_batches(inputs, targets, self.trial.training.batch_size)

    def mean_loss_of_mini_batch(self, batch: MiniBatch) -> tuple[Tensor, float]:
        """The mean loss of a mini-batch, and its weight: all have one size."""
        inputs, targets = batch
        self._kept_memory = None
        return self.task.mean_loss(self.network(inputs), targets), 1.0

    def collect_moments(self) -> MomentsByEstimate:
        """The `frozen` estimate of the present weights, and the memory."""
        frozen = collect_moments_with_frozen_weights(
            self.network, (inputs for inputs, _ in self.training_batches()), several_at_once=True
        )
        return {**self.mbn_memory_moments, PopulationEstimate.FROZEN: frozen}

    def evaluate_best_row(self, moments: MomentsByEstimate, only: InferenceConfiguration | None) -> Evaluation:
        """The row of lowest validation loss, among those with moments; that of one configuration if it is given."""
        evaluation = self.trial.evaluation
        rows = [
            InferenceRow(configuration, estimate)
            for configuration, estimate in list_planned_configurations_and_estimates(self.trial)
            if not configuration.uses_blend
            and only in (None, configuration)
            and moments.keys() >= set(configuration.estimates_named_by_letters)
        ]
        results = evaluate_split(
            self.network,
            iter_mini_batches_with_fillers(*self.data.splits[Split.VALIDATION], self.trial.training.batch_size),
            rows,
            compute_populations_of_layers(self.layers, moments, evaluation.correction, per_slot=evaluation.per_slot),
            split=Split.VALIDATION,
            batch_size=self.trial.training.batch_size,
            score=self.task.score,
        )
        measured = [result for result in results if result.loss is not None]
        if not measured:
            reasons = "; ".join(str(result.reason) for result in results[:1])
            raise ModelError(f"the network cannot be fine-tuned: no configuration has a finite loss ({reasons})")
        return min(measured, key=lambda result: result.loss or 0.0)

    def configure_layers(self, configuration: InferenceConfiguration, moments: MomentsByEstimate) -> None:
        """Configure the layers, with the population values of these moments."""
        for layer in self.layers.values():
            layer.configuration = configuration.restricted_to_statistics_of(layer.method)
        self.store_populations_from_moments(moments)

    def store_populations_from_moments(self, moments: MomentsByEstimate) -> None:
        """Give the layers the population values of these moments."""
        evaluation = self.trial.evaluation
        store_populations_from_moments(self.layers, moments, evaluation.correction, per_slot=evaluation.per_slot)


def _memory_moments_of(moments: MomentsByEstimate) -> MomentsByEstimate:
    return {name: by_layer for name, by_layer in moments.items() if PopulationEstimate(name).has_own_source_letter}
