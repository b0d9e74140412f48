"""Fine-tuning of the trained network of a trial under one inference configuration."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from torch import Tensor, nn

from bln_search.core.configuration import InferenceConfiguration
from bln_search.core.enums import PopulationEstimate, Split
from bln_search.core.errors import ModelError
from bln_search.core.records import Evaluation
from bln_search.data.prepared import PreparedData
from bln_search.evaluation.batches import MiniBatch, iter_complete_mini_batches
from bln_search.evaluation.populations import collect_moments_with_frozen_weights
from bln_search.execution.loaded_network import LoadedNetwork
from bln_search.norms.network.layers import (
    MomentsByEstimate,
    get_norms_by_name,
    moments_by_estimate_from_training_history,
    store_populations_from_moments,
)
from bln_search.specs.sections.fine_tune import FineTuneSpec
from bln_search.specs.trial import TrialSpec
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
    tuner = _TrialFineTuner(LoadedNetwork(trial, network, moments, data))
    start = tuner.load_present_network()
    before = _evaluate_best_row(start, spec.configuration)
    configuration = before.key.configuration
    for layer in get_norms_by_name(network).values():
        layer.configuration = configuration.restricted_to_statistics_of(layer.method)
    _store_populations_in_layers(start)
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
        estimate=lambda: _store_populations_in_layers(tuner.load_present_network()),
    )
    for _ in tuning.train_epochs():
        pass
    after = _evaluate_best_row(tuner.load_present_network(), configuration)
    assert before.loss is not None
    assert after.loss is not None
    return TrialFineTuningResult(configuration, before.loss, after.loss, tuner.mbn_memory_moments, tuning.diverged)


class _TrialFineTuner:
    """Data, populations and rows of a trial's network. kept: the network with the estimates of its kept epoch."""

    def __init__(self, kept: LoadedNetwork) -> None:
        self.kept, self._is_changed = kept, False

    @property
    def mbn_memory_moments(self) -> MomentsByEstimate:
        """The memory of MBN: that of the kept epoch before the first step, then that of the layers."""
        layers = self.kept.norm_layers_by_name
        moments = moments_by_estimate_from_training_history(layers) if self._is_changed else self.kept.gathered
        return {name: by_layer for name, by_layer in moments.items() if PopulationEstimate(name).has_own_source_letter}

    def training_batches(self) -> Iterator[MiniBatch]:
        yield from iter_complete_mini_batches(*self.kept.data.splits[Split.TRAIN], self.kept.trial.training.batch_size)

    def mean_loss_of_mini_batch(self, batch: MiniBatch) -> tuple[Tensor, float]:
        """The mean loss of a mini-batch, and its weight: all have one size."""
        inputs, targets = batch
        self._is_changed = True
        return self.kept.task.mean_loss(self.kept.network(inputs), targets), 1.0

    def load_present_network(self) -> LoadedNetwork:
        """The network with the `frozen` estimate of its present weights, and the memory."""
        frozen = collect_moments_with_frozen_weights(
            self.kept.network, (inputs for inputs, _ in self.training_batches()), several_at_once=True
        )
        return replace(self.kept, gathered={**self.mbn_memory_moments, PopulationEstimate.FROZEN: frozen})


def _evaluate_best_row(present: LoadedNetwork, only: InferenceConfiguration | None) -> Evaluation:
    """The row of lowest validation loss, among those with moments; that of one configuration if it is given."""
    rows = [
        row
        for row in present.planned_inference_rows
        if not row.configuration.uses_blend
        and only in (None, row.configuration)
        and present.gathered.keys() >= set(row.configuration.estimates_named_by_letters)
    ]
    results = present.evaluate_examples(
        present.data.splits[Split.VALIDATION], rows, batch_size=present.trial.training.batch_size
    )
    measured = [result for result in results if result.loss is not None]
    if not measured:
        reasons = "; ".join(str(result.reason) for result in results[:1])
        raise ModelError(f"the network cannot be fine-tuned: no configuration has a finite loss ({reasons})")
    return min(measured, key=lambda result: result.loss or 0.0)


def _store_populations_in_layers(loaded: LoadedNetwork) -> None:
    evaluation = loaded.trial.evaluation
    store_populations_from_moments(
        loaded.norm_layers_by_name, loaded.gathered, evaluation.correction, per_slot=evaluation.per_slot
    )
