"""The training loop."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass, field

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from bln_search.core.enums import CheckpointRule, Correction, PopulationEstimate, Split
from bln_search.core.errors import ModelError
from bln_search.core.records import EpochRecord
from bln_search.data.lazy_images import Examples, select_examples
from bln_search.data.prepared import PreparedData
from bln_search.norms import Normalization
from bln_search.norms.moment_collection import LayerMoments, MomentAccumulator, collect_moments
from bln_search.norms.network.layers import MomentsByEstimate, find_norms, network_populations, set_history_recording
from bln_search.norms.statistics import select_population
from bln_search.specs.sections.arm import ArmSpec
from bln_search.specs.sections.training import BatchOrder, TrainingSpec
from bln_search.training.augmentation import Augmentation
from bln_search.training.checkpoint import copy_weights, load_weights, network_weights
from bln_search.training.optimization import make_optimizer, set_learning_rate
from bln_search.training.validation import validate


@dataclass
class TrainingResult:
    """Result of a training run.

    Attributes:
        epochs: a record of each epoch.
        weights: of the kept epoch, see `network_weights`.
        moments: population estimates collected in training, at the end of the kept epoch.
        kept_epoch: the epoch of the weights, counted from 1.
        kept_validation_loss: validation loss of that epoch, in nats.
        diverged: why training stopped early; None where it did not.
    """

    epochs: list[EpochRecord] = field(default_factory=list)
    weights: dict[str, Tensor] = field(default_factory=dict)
    moments: dict[str, dict[str, LayerMoments]] = field(default_factory=dict)
    kept_epoch: int = 0
    kept_validation_loss: float = math.inf
    diverged: str | None = None


def train(
    network: nn.Module,
    data: PreparedData,
    spec: TrainingSpec,
    arm: ArmSpec,
    *,
    seed: int,
    estimates: tuple[PopulationEstimate, ...] = (),
    correction: Correction = Correction.BESSEL,
    on_epoch: Callable[[EpochRecord], None] | None = None,
) -> TrainingResult:
    """Train `network` in place on the device of `data`; in the end it has the weights of the kept epoch.

    A loss that is not finite stops training; `diverged` then holds the reason.

    Args:
        network: with normalization layers.
        data: prepared data set.
        spec: hyper-parameters.
        arm: method and schedules of the normalization layers.
        seed: of the order of the examples and of augmentation.
        estimates: population estimates; those of training are collected.
        correction: of the population variance for the validation of epochs.
        on_epoch: called after each epoch.
    """
    run = TrainingRun(network, data, spec, arm, seed=seed, estimates=estimates, correction=correction)
    for record in run.train_epochs():
        if on_epoch is not None:
            on_epoch(record)
    return run.result


class TrainingRun:
    """Training epoch by epoch; it may stop after any epoch. For the arguments see `train`.

    Attributes:
        result: the result so far.
        moments: population estimates collected in training, after the last epoch.
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
    ) -> None:
        data.check_batch_size(spec.batch_size)
        self.network, self.data, self.spec, self.arm = network, data, spec, arm
        self.estimates = tuple(estimate for estimate in estimates if estimate.is_gathered_in_training)
        self.correction = correction
        self.layers = find_norms(network)
        self.generator = torch.Generator().manual_seed(seed)
        self.optimizer = make_optimizer(network, spec)
        self.augmentation: Augmentation | None = None
        if spec.augmentation is not None:
            self.augmentation = Augmentation(spec.augmentation, data.input_shape, self.generator)
        self.steps = len(data.splits[Split.TRAIN][0]) // spec.batch_size
        self.result = TrainingResult()
        self.moments: dict[str, dict[str, LayerMoments]] = {}

    @property
    def learning_rate(self) -> float:
        """The learning rate of the last step."""
        return float(self.optimizer.param_groups[0]["lr"])

    def train_epochs(self) -> Iterator[EpochRecord]:
        """Train and yield a record after each epoch; `result` is up to date at every record.

        After the last epoch the network has the weights of the kept epoch.
        """
        inputs, targets = self.data.splits[Split.TRAIN]
        if self.spec.order is BatchOrder.FIXED:
            order = self._example_order(len(inputs))
            inputs, targets = select_examples(inputs, order), targets[order]
        with ExitStack() as stack:
            moving = None
            if PopulationEstimate.MOVING in self.estimates:
                moving = stack.enter_context(collect_moments(self.layers.values(), decay=self.arm.momentum))
            for epoch in range(1, self.spec.epochs + 1):
                record = self._train_epoch(epoch, inputs, targets, moving)
                if record is None:
                    return
                yield record
        load_weights(self.network, self.result.weights)

    def _example_order(self, n: int) -> Tensor:
        return torch.randperm(n, generator=self.generator).to(self.data.splits[Split.TRAIN][0].device)

    def _train_epoch(
        self, epoch: int, inputs: Examples, targets: Tensor, moving: dict[Normalization, MomentAccumulator] | None
    ) -> EpochRecord | None:
        """Train one epoch; return None where a loss is not finite."""
        start = time.perf_counter()
        accumulators: dict[str, dict[Normalization, MomentAccumulator]] = {}
        with ExitStack() as stack:
            if moving is not None:
                accumulators[PopulationEstimate.MOVING] = moving
            if PopulationEstimate.EPOCH in self.estimates:
                accumulators[PopulationEstimate.EPOCH] = stack.enter_context(collect_moments(self.layers.values()))
            loss, accuracy = self._train_batches(epoch, inputs, targets)
        if not math.isfinite(loss):
            self.result.diverged = f"the training loss of epoch {epoch} is not a finite number"
            return None
        moments = self.moments = self._collected_moments(accumulators)
        validation_loss, validation_accuracy = self._evaluate(moments, Split.VALIDATION)
        if not math.isfinite(validation_loss):
            self.result.diverged = f"the validation loss of epoch {epoch} is not a finite number"
            return None
        test_loss, test_accuracy = None, None
        if Split.TEST in self.spec.epoch_splits:
            test_loss, test_accuracy = self._evaluate(moments, Split.TEST)
        record = EpochRecord(
            epoch,
            loss,
            accuracy,
            validation_loss,
            validation_accuracy,
            time.perf_counter() - start,
            test_loss if test_loss is not None and math.isfinite(test_loss) else None,
            test_accuracy,
        )
        self.result.epochs.append(record)
        self._keep_best(record, moments)
        return record

    def _train_batches(self, epoch: int, inputs: Examples, targets: Tensor) -> tuple[float, float]:
        """Train on every mini-batch once; return mean loss and accuracy during the epoch."""
        self.network.train()
        device = inputs.device
        total_loss, num_correct = torch.zeros((), device=device), torch.zeros((), device=device)
        first_step = (epoch - 1) * self.steps
        for step, (x, y) in enumerate(self._mini_batches(inputs, targets)):
            progress = (first_step + step) / (self.steps * self.spec.epochs)
            set_learning_rate(self.optimizer, self.spec, progress)
            self._apply_schedules(progress)
            logits, loss = self._step(x, y)
            total_loss += loss.detach()
            num_correct += (logits.argmax(1) == y).sum()
        return total_loss.item() / self.steps, num_correct.item() / (self.steps * self.spec.batch_size)

    def _apply_schedules(self, progress: float) -> None:
        for name, schedule in self.arm.schedules.items():
            value = schedule.at(progress)
            for layer in self.layers.values():
                setattr(layer, name, value)

    def _step(self, x: Tensor, y: Tensor) -> tuple[Tensor, Tensor]:
        """Make one optimizer step; return logits and loss before it.

        With double forward, the layers' history records a second forward pass after the step instead of the first.
        """
        with set_history_recording(self.layers.values(), not self.arm.double_forward):
            logits = self.network(x)
        loss = F.cross_entropy(logits, y)
        self.optimizer.zero_grad()
        loss.backward()  # type: ignore[no-untyped-call]
        self.optimizer.step()
        if self.arm.double_forward:
            with torch.no_grad():
                self.network(x)
        return logits.detach(), loss

    def _mini_batches(self, inputs: Examples, targets: Tensor) -> Iterator[tuple[Tensor, Tensor]]:
        """Yield the mini-batches of an epoch, augmented if configured."""
        for index in self._ordered_indices(len(inputs)):
            x = inputs[index] if self.augmentation is None else self.augmentation.read(inputs, index)
            yield x, targets[index]

    def _ordered_indices(self, n: int) -> Iterator[slice | Tensor]:
        """Yield the examples of each mini-batch of an epoch."""
        size = self.spec.batch_size
        order = None if self.spec.order is BatchOrder.FIXED else self._example_order(n)
        for start in range(0, self.steps * size, size):
            batch = slice(start, start + size)
            yield batch if order is None else order[batch]

    def _collected_moments(
        self, accumulators: dict[str, dict[Normalization, MomentAccumulator]]
    ) -> dict[str, dict[str, LayerMoments]]:
        """Return the moments so far by estimate and by layer that training reached, with the memory of MBN."""
        histories = {name: layer.history_estimates() for name, layer in self.layers.items()}
        memory = {
            name: history[PopulationEstimate.MEMORY]
            for name, history in histories.items()
            if PopulationEstimate.MEMORY in history
        }
        memory_estimate = {PopulationEstimate.MEMORY: memory} if memory else {}
        return memory_estimate | {
            estimate: {
                name: accumulator_of[layer].moments(
                    has_batch_statistics=layer.has_batch_statistics, has_feature_statistics=layer.has_feature_statistics
                )
                for name, layer in self.layers.items()
                if not accumulator_of[layer].is_empty
            }
            for estimate, accumulator_of in accumulators.items()
        }

    def _evaluate(self, moments: MomentsByEstimate, split: Split) -> tuple[float, float]:
        """Return loss and accuracy on a split in the configuration that compares epochs."""
        selection = self.arm.selection_configuration
        estimate = next(iter(self.estimates), None) if selection.uses_population else None
        inputs, targets = self.data.splits[split]
        populations = network_populations(self.layers, moments, self.correction, per_slot=False)
        for layer, estimates in populations.items():
            configuration = selection.restricted_to(layer.method)
            population = select_population(configuration, estimate, estimates)
            reason = None if population is None else population.undefined_reason(configuration)
            if reason is not None:
                raise ModelError(
                    f"epochs cannot be compared under {selection}: {reason}; set judged_under to another configuration"
                )
        return validate(
            self.network,
            inputs,
            targets,
            batch_size=self.spec.batch_size,
            configuration=selection,
            estimate=estimate,
            populations=populations,
        )

    def _keep_best(self, record: EpochRecord, moments: dict[str, dict[str, LayerMoments]]) -> None:
        """Keep weights and moments where the epoch is the best so far, or the rule keeps the last one."""
        is_better = record.validation_loss < self.result.kept_validation_loss
        keeps_last = self.spec.checkpoint is CheckpointRule.LAST
        if is_better or keeps_last or not self.result.weights:
            self.result.weights = copy_weights(network_weights(self.network))
            self.result.moments = moments
            self.result.kept_epoch = record.epoch
            self.result.kept_validation_loss = record.validation_loss
