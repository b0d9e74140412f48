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
from bln_search.data.prepared import PreparedData
from bln_search.norms import Normalization
from bln_search.norms.moment_collection import GatheredMoments, Gatherer, gathering
from bln_search.norms.network_layers import Gathered, find_norms, network_populations, recording
from bln_search.norms.statistics import chosen_population
from bln_search.specs.arm import ArmSpec
from bln_search.specs.training import BatchOrder, TrainingSpec
from bln_search.training.augmentation import Augmentation
from bln_search.training.checkpoint import copied, weights_of
from bln_search.training.optimization import make_optimizer, set_rate
from bln_search.training.validation import validate


@dataclass
class Trained:
    """What training leaves behind.

    weights: the kept epoch's, as `weights_of` finds them. gathered: the population estimates that are by-products of
    training, as they stood at the end of the kept epoch. diverged: why training was stopped, None where it was not.
    """

    epochs: list[EpochRecord] = field(default_factory=list)
    weights: dict[str, Tensor] = field(default_factory=dict)
    gathered: dict[PopulationEstimate, dict[str, GatheredMoments]] = field(default_factory=dict)
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
) -> Trained:
    """Train `network` in place on the device of `data`.

    seed: draws the order of the examples. estimates: those gathered in training are folded along the way.
    correction: for judging epochs under population values. A loss that is not finite stops training and is reported
    in `diverged`, with the epochs before it.
    """
    run = TrainingRun(network, data, spec, arm, seed=seed, estimates=estimates, correction=correction)
    for record in run.epochs():
        if on_epoch is not None:
            on_epoch(record)
    return run.trained


class TrainingRun:
    """Training as a walk over epochs that may be left after any of them. Arguments as those of `train`.

    gathered: the population estimates that are by-products of training, as they stand after the last epoch.
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
        self.estimates = tuple(estimate for estimate in estimates if estimate.gathered_in_training)
        self.correction = correction
        self.layers = find_norms(network)
        self.generator = torch.Generator().manual_seed(seed)
        self.optimizer = make_optimizer(network, spec)
        self.augmentation: Augmentation | None = None
        if spec.augmentation is not None:
            self.augmentation = Augmentation(spec.augmentation, data.input_shape, self.generator)
        self.steps = len(data.splits[Split.TRAIN][0]) // spec.batch_size
        self.trained = Trained()
        self.gathered: dict[PopulationEstimate, dict[str, GatheredMoments]] = {}

    def epochs(self) -> Iterator[EpochRecord]:
        """Train; a record after each epoch. What is left behind stands in `trained`, up to date at every record."""
        inputs, targets = self.data.splits[Split.TRAIN]
        if self.spec.order is BatchOrder.FIXED:
            order = self._order(len(inputs))
            inputs, targets = inputs[order], targets[order]
        with ExitStack() as stack:
            moving = None
            if PopulationEstimate.MOVING in self.estimates:
                moving = stack.enter_context(gathering(self.layers.values(), decay=self.arm.momentum))
            for epoch in range(1, self.spec.epochs + 1):
                record = self._epoch(epoch, inputs, targets, moving)
                if record is None:
                    return
                yield record

    def _order(self, n: int) -> Tensor:
        return torch.randperm(n, generator=self.generator).to(self.data.splits[Split.TRAIN][0].device)

    def _epoch(
        self, epoch: int, inputs: Tensor, targets: Tensor, moving: dict[Normalization, Gatherer] | None
    ) -> EpochRecord | None:
        """One epoch; None where the loss is not finite any more."""
        start = time.perf_counter()
        gatherers: dict[PopulationEstimate, dict[Normalization, Gatherer]] = {}
        with ExitStack() as stack:
            if moving is not None:
                gatherers[PopulationEstimate.MOVING] = moving
            if PopulationEstimate.EPOCH in self.estimates:
                gatherers[PopulationEstimate.EPOCH] = stack.enter_context(gathering(self.layers.values()))
            loss, accuracy = self._steps(epoch, inputs, targets)
        if not math.isfinite(loss):
            self.trained.diverged = f"the training loss of epoch {epoch} is not a finite number"
            return None
        gathered = self.gathered = self._gathered(gatherers)
        validation_loss, validation_accuracy = self._validate(gathered)
        if not math.isfinite(validation_loss):
            self.trained.diverged = f"the validation loss of epoch {epoch} is not a finite number"
            return None
        record = EpochRecord(epoch, loss, accuracy, validation_loss, validation_accuracy, time.perf_counter() - start)
        self.trained.epochs.append(record)
        self._keep(record, gathered)
        return record

    def _steps(self, epoch: int, inputs: Tensor, targets: Tensor) -> tuple[float, float]:
        """Every mini-batch once; mean loss and accuracy while the weights move."""
        self.network.train()
        device = inputs.device
        total, correct = torch.zeros((), device=device), torch.zeros((), device=device)
        done = (epoch - 1) * self.steps
        for step, (x, y) in enumerate(self._mini_batches(inputs, targets)):
            progress = (done + step) / (self.steps * self.spec.epochs)
            set_rate(self.optimizer, self.spec, progress)
            self._set_schedules(progress)
            logits, loss = self._step(x, y)
            total += loss.detach()
            correct += (logits.argmax(1) == y).sum()
        return total.item() / self.steps, correct.item() / (self.steps * self.spec.batch_size)

    def _set_schedules(self, progress: float) -> None:
        for name, schedule in self.arm.schedules.items():
            value = schedule.at(progress)
            for layer in self.layers.values():
                setattr(layer, name, value)

    def _step(self, x: Tensor, y: Tensor) -> tuple[Tensor, Tensor]:
        """One step of the optimizer, logits and loss before it; a second pass records the statistics if asked for."""
        with recording(self.layers.values(), not self.arm.double_forward):
            logits = self.network(x)
        loss = F.cross_entropy(logits, y)
        self.optimizer.zero_grad()
        loss.backward()  # type: ignore[no-untyped-call]
        self.optimizer.step()
        if self.arm.double_forward:
            with torch.no_grad():
                self.network(x)
        return logits.detach(), loss

    def _mini_batches(self, inputs: Tensor, targets: Tensor) -> Iterator[tuple[Tensor, Tensor]]:
        """Mini-batches of an epoch, augmented where that is asked for."""
        for x, y in self._plain_mini_batches(inputs, targets):
            yield (x if self.augmentation is None else self.augmentation(x)), y

    def _plain_mini_batches(self, inputs: Tensor, targets: Tensor) -> Iterator[tuple[Tensor, Tensor]]:
        size = self.spec.batch_size
        if self.spec.order is BatchOrder.FIXED:
            for start in range(0, self.steps * size, size):
                yield inputs[start : start + size], targets[start : start + size]
            return
        order = self._order(len(inputs))
        for start in range(0, self.steps * size, size):
            chosen = order[start : start + size]
            yield inputs[chosen], targets[chosen]

    def _gathered(
        self, gatherers: dict[PopulationEstimate, dict[Normalization, Gatherer]]
    ) -> dict[PopulationEstimate, dict[str, GatheredMoments]]:
        """What was gathered so far, by estimate and layer that training reached; the memory of MBN among it."""
        own = {name: layer.own_estimates().get(PopulationEstimate.MEMORY) for name, layer in self.layers.items()}
        memory = {name: moments for name, moments in own.items() if moments is not None}
        found = {PopulationEstimate.MEMORY: memory} if memory else {}
        return found | {
            estimate: {
                name: of_layer[layer].moments(has_batch=layer.has_batch, has_feature=layer.has_feature)
                for name, layer in self.layers.items()
                if not of_layer[layer].empty
            }
            for estimate, of_layer in gatherers.items()
        }

    def _validate(self, gathered: Gathered) -> tuple[float, float]:
        judge = self.arm.judge
        estimate = next(iter(self.estimates), None) if judge.uses_population else None
        inputs, targets = self.data.splits[Split.VALIDATION]
        populations = network_populations(self.layers, gathered, self.correction, per_slot=False)
        for layer, estimates in populations.items():
            own = judge.restricted_to(layer.method)
            population = chosen_population(own, estimate, estimates)
            reason = None if population is None else population.undefined(own)
            if reason is not None:
                raise ModelError(f"epochs cannot be judged under {judge}: {reason}; set judged_under to another")
        return validate(
            self.network,
            inputs,
            targets,
            batch_size=self.spec.batch_size,
            configuration=judge,
            estimate=estimate,
            populations=populations,
        )

    def _keep(self, record: EpochRecord, gathered: dict[PopulationEstimate, dict[str, GatheredMoments]]) -> None:
        better = record.validation_loss < self.trained.kept_validation_loss
        last = self.spec.checkpoint is CheckpointRule.LAST
        if better or last or not self.trained.weights:
            self.trained.weights = copied(weights_of(self.network))
            self.trained.gathered = gathered
            self.trained.kept_epoch = record.epoch
            self.trained.kept_validation_loss = record.validation_loss
