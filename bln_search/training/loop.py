"""The training loop."""

from __future__ import annotations

import math
from collections.abc import Callable, Generator, Iterator
from contextlib import closing
from dataclasses import dataclass
from typing import Any, Self

import torch
from torch import Tensor, nn

from bln_search.core.enums import CheckpointRule, Correction, PopulationEstimate, Split
from bln_search.core.errors import ModelError
from bln_search.core.records import EpochRecord
from bln_search.data.inputs import Inputs, copy_to_device
from bln_search.data.lazy_images import Examples
from bln_search.data.prepared import PreparedData
from bln_search.norms import Normalization
from bln_search.norms.moment_collection import LayerMoments, MomentAccumulator, use_moment_accumulators
from bln_search.norms.network.layers import (
    MomentsByEstimate,
    compute_populations_of_layers,
    get_norms_by_name,
    use_fused_kernels,
    use_history_recording,
)
from bln_search.norms.statistics import select_layer_population
from bln_search.specs.sections.arm import ArmSpec
from bln_search.specs.sections.training import BatchOrder, TrainingSpec
from bln_search.specs.trial import TrialSpec
from bln_search.tasks.task import CLASSIFICATION, Task, make_task
from bln_search.training.augmentation import Augmentation
from bln_search.training.checkpoint import clone_weights, copy_weights_into_network, weights_and_buffers_by_name
from bln_search.training.epoch_progress import EpochProgress, RecencyWeightedMean
from bln_search.training.initialization import initialize_for_training_run
from bln_search.training.input_moments import set_measured_input_moments
from bln_search.training.optimization import StepSchedules, make_optimizer, set_learning_rate
from bln_search.training.result import TrainingResult, collect_training_moments
from bln_search.training.step_precision import TrainingForward, use_training_precision
from bln_search.training.validation import measure_loss_and_accuracy


@dataclass(frozen=True)
class EpochToTrain:
    """The epoch that a run trains next. Who receives it may train its steps, see `training.stacked`.

    Attributes:
        run: The run.
    """

    run: TrainingRun


class TrainingRun:
    """Training of a network in place, epoch by epoch; it may stop after any epoch.

    The network is initialized as `spec.initialization` says, when the run is made. A loss that is not finite stops
    training; `result.diverged` then holds the reason.

    Args:
        network: with normalization layers, on the device of `data`.
        data: prepared data set.
        spec: hyper-parameters.
        arm: method and schedules of the normalization layers.
        seed: of the order of the examples and of augmentation.
        estimates: population estimates; those of training are collected.
        correction: of the population variance for the validation of epochs.
        measures_running_loss: whether `running_loss` is measured.
        horizon: number of epochs to train; None for all.
        task: compares the outputs with the targets.

    Attributes:
        result: the result so far.
        moments: population estimates collected in training, after the last epoch.
        epochs: number of epochs to train, those of the specification or its first ones; schedules are those of all.
        schedules: learning rate and scheduled attributes of the layers, by step.
        running_loss: running mean of the losses of the mini-batches; None unless `measures_running_loss`.
        moving: accumulators of the moving averages, by layer; empty without that estimate.
        progress: how far the present epoch is.
        after_step: called after each step; it may save the state of the run.
        num_fused_epochs: number of epochs that were trained together with other runs.
    """

    def __init__(
        self,
        network: nn.Module,
        data: PreparedData,
        spec: TrainingSpec,
        arm: ArmSpec,
        *,
        seed: int,
        estimates: tuple[PopulationEstimate, ...] = (),
        correction: Correction = Correction.BESSEL,
        measures_running_loss: bool = False,
        horizon: int | None = None,
        task: Task = CLASSIFICATION,
    ) -> None:
        data.check_batch_size(spec.batch_size)
        self.network, self.data, self.spec, self.arm, self.task = network, data, spec, arm, task
        self.epochs = spec.epochs if horizon is None else horizon
        self.estimates = tuple(estimate for estimate in estimates if estimate.is_available_in_training)
        self.correction = correction
        self.layers = get_norms_by_name(network)
        self.forward = TrainingForward(network, spec)
        self.generator = torch.Generator().manual_seed(seed)
        set_measured_input_moments(network, data, spec)
        self.optimizer = make_optimizer(network, spec)
        self.augmentation: Augmentation | None = None
        if spec.augmentation is not None:
            self.augmentation = Augmentation(spec.augmentation, data.input_shape, self.generator)
        self.steps = len(data.splits[Split.TRAIN][0]) // spec.batch_size
        self.schedules = StepSchedules(spec, arm, self.steps)
        self.running_loss = RecencyWeightedMean(self.steps) if measures_running_loss else None
        self.result = TrainingResult()
        self.moments: dict[str, dict[str, LayerMoments]] = {}
        self.moving = self._make_accumulators(PopulationEstimate.MOVING, arm.momentum)
        self.progress = self._begin_epoch()
        self.after_step: Callable[[], None] = lambda: None
        self.num_fused_epochs = 0
        self._fixed_order = None
        if spec.order is BatchOrder.FIXED:
            self._fixed_order = self._on_device(torch.randperm(self._num_examples, generator=self.generator))
        initialize_for_training_run(network, data, spec, seed=seed)

    @classmethod
    def of_trial(cls, network: nn.Module, data: PreparedData, trial: TrialSpec, **options: Any) -> Self:
        """Return the training run of a trial.

        Args:
            network: with normalization layers.
            data: prepared data set.
            trial: hyper-parameters, arm, seed and population estimates.
            options: further arguments of the constructor.
        """
        return cls(
            network,
            data,
            trial.training,
            trial.arm,
            seed=trial.seed,
            estimates=trial.population_estimates,
            correction=trial.evaluation.correction,
            horizon=trial.horizon,
            task=make_task(trial.resolved_task),
            **options,
        )

    @property
    def learning_rate(self) -> float:
        """The learning rate of the last step."""
        return float(self.optimizer.param_groups[0]["lr"])

    def train(self, on_epoch: Callable[[EpochRecord], None] = lambda _: None) -> TrainingResult:
        """Train all epochs; the network has the weights of the kept one. on_epoch: called after each epoch."""
        for record in self.train_epochs():
            on_epoch(record)
        return self.result

    def train_epochs(self) -> Generator[EpochRecord, None, None]:
        """Train and yield a record after each epoch; `result` is up to date at every record.

        After the last epoch the network has the weights of the kept epoch. A run whose state was restored continues
        with the step after it, and yields no record of earlier epochs.
        """
        with closing(self.train_epochs_announcing_each()) as epochs:
            for epoch in epochs:
                if isinstance(epoch, EpochRecord):
                    yield epoch

    def train_epochs_announcing_each(self) -> Generator[EpochToTrain | EpochRecord, None, None]:
        """As `train_epochs`, and yield before each epoch that it is trained next."""
        inputs, targets = self.data.splits[Split.TRAIN]
        with use_moment_accumulators(self.moving):
            for epoch in range(len(self.result.epochs) + 1, self.epochs + 1):
                yield EpochToTrain(self)
                record = self._train_epoch(epoch, inputs, targets)
                if record is None:
                    return
                self.progress = self._begin_epoch()
                yield record
        copy_weights_into_network(self.network, self.result.weights)

    def draw_order_of_epoch(self) -> Tensor:
        """Return the numbers of the examples of the present epoch, in the order in which it reads them."""
        if self._fixed_order is not None:
            return self._fixed_order
        return self._on_device(self.progress.draw_order(self._num_examples, self.generator))

    @property
    def _num_examples(self) -> int:
        return len(self.data.splits[Split.TRAIN][0])

    def _on_device(self, value: Tensor) -> Tensor:
        return copy_to_device(value, self.data.splits[Split.TRAIN][0].device)

    def _make_accumulators(
        self, estimate: PopulationEstimate, decay: float | None = None
    ) -> dict[Normalization, MomentAccumulator]:
        """Return a new accumulator for each layer; none unless training collects the estimate."""
        return {layer: MomentAccumulator(decay) for layer in self.layers.values() if estimate in self.estimates}

    def _begin_epoch(self) -> EpochProgress:
        loss, correct = (self._on_device(torch.zeros(())) for _ in range(2))
        return EpochProgress(loss, correct, self._make_accumulators(PopulationEstimate.EPOCH))

    def _train_epoch(self, epoch: int, inputs: Examples, targets: Tensor) -> EpochRecord | None:
        """Train one epoch, or the rest of it; return None where a loss is not finite."""
        progress = self.progress
        progress.start_clock()
        collected = {PopulationEstimate.MOVING: self.moving, PopulationEstimate.EPOCH: progress.accumulators}
        accumulators = {str(name): collected[name] for name in collected if name in self.estimates}
        with (
            use_moment_accumulators(progress.accumulators),
            use_training_precision(self.spec.precision),
            use_fused_kernels(self.layers.values(), self.spec.fused_norms),
        ):
            loss, accuracy = self._train_batches(epoch, inputs, targets)
        if not math.isfinite(loss):
            self.result.diverged = f"the training loss of epoch {epoch} is not a finite number"
            return None
        moments = self.moments = collect_training_moments(self.layers, accumulators)
        validation_loss, validation_accuracy = self._measure_loss_and_accuracy(moments, Split.VALIDATION)
        if not math.isfinite(validation_loss):
            self.result.diverged = f"the validation loss of epoch {epoch} is not a finite number"
            return None
        test_loss, test_accuracy = None, None
        if Split.TEST in self.spec.epoch_splits:
            test_loss, test_accuracy = self._measure_loss_and_accuracy(moments, Split.TEST)
        record = EpochRecord(
            epoch,
            loss,
            accuracy,
            validation_loss,
            validation_accuracy,
            progress.seconds,
            test_loss if test_loss is not None and math.isfinite(test_loss) else None,
            test_accuracy,
        )
        self.result.epochs.append(record)
        self._keep_epoch_if_best_or_last(record, moments)
        return record

    def _train_batches(self, epoch: int, inputs: Examples, targets: Tensor) -> tuple[float, float | None]:
        self.network.train()
        progress, has_accuracy = self.progress, self.task.description.has_accuracy
        for step, (x, y) in enumerate(self._iter_mini_batches(inputs, targets), progress.first_step):
            self.set_scheduled_values((epoch - 1) * self.steps + step)
            outputs, loss = self.take_optimizer_step(x, y)
            progress.total_loss += loss.detach()
            if self.running_loss is not None:
                self.running_loss.add(loss)
            correct = self.task.count_correct(outputs, y)
            if correct is not None:
                progress.num_correct += correct
            progress.step = step + 1
            self.after_step()
        accuracy = progress.num_correct.item() / (self.steps * self.spec.batch_size) if has_accuracy else None
        return progress.total_loss.item() / self.steps, accuracy

    def set_scheduled_values(self, step: int) -> None:
        """Set learning rate and scheduled attributes of the layers to their values at a step, counted from 0."""
        set_learning_rate(self.optimizer, self.schedules.learning_rate(step))
        for name, value in self.schedules.layer_attributes(step).items():
            for layer in self.layers.values():
                setattr(layer, name, value)

    def take_optimizer_step(self, x: Inputs, y: Tensor) -> tuple[Tensor, Tensor]:
        """Make one optimizer step; return outputs and loss before it.

        With double forward, the layers' history records a second forward pass after the step instead of the first.
        """
        with use_history_recording(self.layers.values(), not self.arm.double_forward):
            outputs = self.forward(x)
        loss = self.task.mean_loss(outputs, y)
        self.optimizer.zero_grad()
        loss.backward()  # type: ignore[no-untyped-call]
        self.optimizer.step()
        if self.arm.double_forward:
            with torch.no_grad():
                self.forward(x)
        return outputs.detach(), loss

    def _iter_mini_batches(self, inputs: Examples, targets: Tensor) -> Iterator[tuple[Inputs, Tensor]]:
        for index in self._iter_batch_indices():
            x = inputs[index] if self.augmentation is None else self.augmentation.read_augmented_images(inputs, index)
            yield x, targets[index]

    def _iter_batch_indices(self) -> Iterator[Tensor]:
        size, order = self.spec.batch_size, self.draw_order_of_epoch()
        for start in range(self.progress.first_step * size, self.steps * size, size):
            yield order[start : start + size]

    def _measure_loss_and_accuracy(self, moments: MomentsByEstimate, split: Split) -> tuple[float, float | None]:
        """Return loss and accuracy on a split in the configuration that compares epochs."""
        selection = self.arm.checkpoint_selection_configuration
        estimate = next(iter(self.estimates), None) if selection.uses_population else None
        inputs, targets = self.data.splits[split]
        populations = compute_populations_of_layers(self.layers, moments, self.correction, per_slot=False)
        for layer, estimates in populations.items():
            configuration = selection.restricted_to_statistics_of(layer.method)
            population = select_layer_population(configuration, estimate, estimates)
            reason = None if population is None else population.find_undefined_reason(configuration)
            if reason is not None:
                raise ModelError(
                    f"epochs cannot be compared under {selection}: {reason}; set judged_under to another configuration"
                )
        return measure_loss_and_accuracy(
            self.network,
            inputs,
            targets,
            task=self.task,
            batch_size=self.spec.batch_size,
            configuration=selection,
            estimate=estimate,
            populations=populations,
        )

    def _keep_epoch_if_best_or_last(self, record: EpochRecord, moments: dict[str, dict[str, LayerMoments]]) -> None:
        """Keep weights and moments where the epoch is the best so far, or the rule keeps the last one."""
        is_better = record.validation_loss < self.result.kept_validation_loss
        keeps_last = self.spec.checkpoint is CheckpointRule.LAST
        if is_better or keeps_last or not self.result.weights:
            self.result.weights = clone_weights(weights_and_buffers_by_name(self.network))
            self.result.moments = moments
            self.result.kept_epoch = record.epoch
            self.result.kept_validation_loss = record.validation_loss
