"""Epochs of several training runs as one program."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence

import torch
from torch import Tensor
from torch.nn import functional as F

from bln_search.core.enums import PopulationEstimate, Split
from bln_search.norms.moment_collection import MomentAccumulator
from bln_search.norms.network.layers import use_history_recording
from bln_search.norms.network.stacking import copy_history_to_layers
from bln_search.training.epoch_progress import RecencyWeightedMean
from bln_search.training.loop import TrainingRun
from bln_search.training.stacked.layers import StackedNormalization
from bln_search.training.stacked.moments import StackedMoments
from bln_search.training.stacked.network import stack_networks
from bln_search.training.stacked.optimizers import stack_optimizers
from bln_search.training.stacked.parameters import SharedParameterStack
from bln_search.training.stacked.repeated_step import CudaGraphStepRunner, StepRunner
from bln_search.training.stacked.step_tables import StepTables
from bln_search.training.step_precision import use_training_precision

_ORDER = "order of examples"


def can_capture_steps_as_cuda_graph(run: TrainingRun) -> bool:
    """Return whether a step can be recorded as a CUDA graph: on a GPU, in methods without a memory or averages."""
    has_history = any(layer.has_history for layer in run.layers.values())
    return run.progress.total_loss.device.type == "cuda" and not has_history


class StackedTraining:
    """Trains epochs of several runs as one program. Each run reads its own mini-batches and has its own schedules.

    The parameters of the runs' networks, and what their optimizers keep for each parameter, become views of common
    tensors. Between two epochs each run is as it would be after training alone, up to rounding: it can be evaluated,
    saved, and go on alone.

    Args:
        runs: `find_stacking_key` is the same for all of them.
        records_steps: Record a step as a CUDA graph that is run for the others, if `can_capture_steps_as_cuda_graph`.
    """

    def __init__(self, runs: Sequence[TrainingRun], *, records_steps: bool = False) -> None:
        self.runs = tuple(runs)
        first = self.runs[0]
        networks = [run.network for run in self.runs]
        self._spec, self._arm, self._device = first.spec, first.arm, first.progress.total_loss.device
        self._tables = StepTables(self._device)
        self._parameters = SharedParameterStack(networks)
        self._optimizer = stack_optimizers([run.optimizer for run in self.runs], self._parameters, self._tables)
        self._network = stack_networks(networks, self._parameters)
        self._norms = [module for module in self._network.modules() if isinstance(module, StackedNormalization)]
        has_statistics = any(norm.layer.method.statistics for norm in self._norms)
        self._moments = {
            estimate: StackedMoments(len(self._norms), decay, self._tables, estimate)
            for estimate, decay in ((PopulationEstimate.MOVING, self._arm.momentum), (PopulationEstimate.EPOCH, None))
            if has_statistics and estimate in first.estimates
        }
        for index, norm in enumerate(self._norms):
            norm.layer.accumulators = [moments.recorders[index] for moments in self._moments.values()]
        self._started_at = 0.0
        self._total_loss, self._num_correct = (torch.zeros(len(self.runs), device=self._device) for _ in range(2))
        self._running_loss = None if first.running_loss is None else RecencyWeightedMean(first.steps)
        is_recorded = records_steps and can_capture_steps_as_cuda_graph(first)
        self._step = CudaGraphStepRunner(self._device) if is_recorded else StepRunner()

    def train_epoch(self) -> None:
        """Train all steps of the present epoch of each run. The runs then go on with the end of this epoch."""
        self.take_all_steps_of_epoch()
        self.end_epoch()

    def take_all_steps_of_epoch(self) -> None:
        """Take all steps of the present epoch; `end_epoch` follows."""
        self._started_at = time.perf_counter()
        self._begin_epoch()
        with use_training_precision(self._spec.precision):
            self._step.repeat(self._take_step, self.runs[0].steps)

    def snapshot_runs_for_undo(self) -> Callable[[], None]:
        """Return a function that undoes `take_all_steps_of_epoch` after an error; the runs can then train again."""
        values = self._parameters.values.clone()
        optimizer_state = self._optimizer.copy_state()
        generators = [run.generator.get_state() for run in self.runs]

        def restore() -> None:
            self._parameters.values.copy_(values)
            self._optimizer.restore_state(optimizer_state)
            for run, state in zip(self.runs, generators, strict=True):
                run.generator.set_state(state)

        return restore

    def _begin_epoch(self) -> None:
        """Write what changes from step to step into the tables, and read the state of the runs."""
        steps, size = self.runs[0].steps, self._spec.batch_size
        self._network.train()
        self._tables.begin_epoch()
        orders = torch.stack([run.draw_order_of_epoch()[: steps * size] for run in self.runs], 1)
        self._tables.write(_ORDER, orders.view(steps, size, -1))
        self._write_schedules()
        for estimate, moments in self._moments.items():
            moments.begin_epoch([self._list_accumulators(estimate, norm) for norm in self._norms], steps)
        self._total_loss.zero_()
        self._num_correct.zero_()
        self._continue_running_losses()

    def _list_accumulators(self, estimate: PopulationEstimate, norm: StackedNormalization) -> list[MomentAccumulator]:
        """Return the accumulator of a layer in each run."""
        is_moving = estimate is PopulationEstimate.MOVING
        of_runs = [run.moving if is_moving else run.progress.accumulators for run in self.runs]
        return [accumulators[layer] for accumulators, layer in zip(of_runs, norm.layers, strict=True)]

    def _write_schedules(self) -> None:
        """Write learning rates and scheduled attributes of the layers, of each run at each step of the epoch."""
        firsts = [len(run.result.epochs) * run.steps for run in self.runs]
        numbers = [[first + step for first in firsts] for step in range(self.runs[0].steps)]
        schedules = [run.schedules for run in self.runs]
        rates = [[of.learning_rate(step) for of, step in zip(schedules, row, strict=True)] for row in numbers]
        self._optimizer.begin_epoch(torch.tensor(rates, dtype=torch.float64))
        attributes = [[of.layer_attributes(step) for of, step in zip(schedules, row, strict=True)] for row in numbers]
        for name in self._arm.layer_attribute_schedules:
            values = [[of_run[name] for of_run in row] for row in attributes]
            self._tables.write(name, torch.tensor(values, dtype=self._parameters.values.dtype))

    def _take_step(self) -> None:
        """Make the present step of each run."""
        for norm in self._norms:
            norm.scheduled_values = {name: self._tables.read(name) for name in self._arm.layer_attribute_schedules}
        x, y = self._read_mini_batches()
        with use_history_recording([norm.layer for norm in self._norms], not self._arm.double_forward):
            outputs = self._network(x).view(*y.shape, -1)
        losses = F.cross_entropy(outputs.flatten(0, 1), y.flatten(), reduction="none").view_as(y).mean(0)
        self._optimizer.take_step(self._parameters.compute_gradients(losses.sum()))
        if self._arm.double_forward:
            with torch.no_grad():
                self._network(x)
        for moments in self._moments.values():
            moments.end_step()
        self._total_loss += losses.detach()
        self._num_correct += (outputs.argmax(2) == y).sum(0)
        if self._running_loss is not None:
            self._running_loss.add(losses)
        self._tables.end_step()

    def _read_mini_batches(self) -> tuple[Tensor, Tensor]:
        """Return inputs (N, K·C, ...) and targets (N, K) of the present step."""
        inputs, targets = self.runs[0].data.splits[Split.TRAIN]
        assert isinstance(inputs, Tensor)
        index = self._tables.read(_ORDER)
        x = inputs.index_select(0, index.flatten())
        return x.reshape(len(index), -1, *x.shape[2:]), targets.index_select(0, index.flatten()).view_as(index)

    def end_epoch(self) -> None:
        """Give the runs what the steps computed. After an error they are unusable."""
        for moments in self._moments.values():
            moments.end_epoch()
        self._optimizer.end_epoch()
        for norm in self._norms:
            copy_history_to_layers(norm.layer, norm.layers)
        self._copy_running_losses()
        seconds = time.perf_counter() - self._started_at
        for run, loss, number in zip(self.runs, self._total_loss, self._num_correct, strict=True):
            run.set_scheduled_values((len(run.result.epochs) + 1) * run.steps - 1)
            run.progress.record_epoch_trained_elsewhere(run.steps, loss, number, seconds)
            run.num_fused_epochs += 1

    def _continue_running_losses(self) -> None:
        """Begin with the weighted sums of the losses of earlier epochs, in the same memory in each epoch."""
        if self._running_loss is None:
            return
        zero = torch.zeros((), dtype=torch.float64, device=self._device)
        states = [run.running_loss.state[1] for run in self.runs if run.running_loss is not None]
        sums = torch.stack([zero if state is None else state for state in states])
        earlier = self._running_loss.state[1]
        self._running_loss.state = 0, sums if earlier is None else earlier.copy_(sums)

    def _copy_running_losses(self) -> None:
        if self._running_loss is None:
            return
        weighted_sums = self._running_loss.state[1]
        assert weighted_sums is not None
        for run, weighted_sum in zip(self.runs, weighted_sums, strict=True):
            assert run.running_loss is not None
            run.running_loss.state = run.running_loss.state[0] + run.steps, weighted_sum.clone()
