"""Epochs of several training runs as one program."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence

import torch
from torch import Tensor
from torch.nn import functional as F

from bln_search.core.enums import PopulationEstimate, Split
from bln_search.norms.network.layers import set_history_recording
from bln_search.norms.network.stacking import copy_history_to_layers
from bln_search.norms.stacked_moments import StackedMoments
from bln_search.training.loop import TrainingRun
from bln_search.training.running_mean import RecencyWeightedMean
from bln_search.training.stacked.layers import StackedNormalization
from bln_search.training.stacked.network import stack_networks
from bln_search.training.stacked.optimizers import stack_optimizers
from bln_search.training.stacked.parameters import StackedParameters
from bln_search.training.step_precision import use_training_precision


class StackedTraining:
    """Trains epochs of several runs as one program. Each run reads its own mini-batches and has its own schedules.

    The parameters of the runs' networks, and what their optimizers keep for each parameter, become views of common
    tensors. Between two epochs each run is as it would be after training alone, up to rounding: it can be evaluated,
    saved, and go on alone.

    Args:
        runs: `make_stacking_key` is the same for all of them.
    """

    def __init__(self, runs: Sequence[TrainingRun]) -> None:
        self.runs = tuple(runs)
        first = self.runs[0]
        networks = [run.network for run in self.runs]
        self._parameters = StackedParameters(networks)
        self._optimizer = stack_optimizers([run.optimizer for run in self.runs], self._parameters)
        self._network = stack_networks(networks, self._parameters)
        self._norms = [module for module in self._network.modules() if isinstance(module, StackedNormalization)]
        self._spec, self._arm, self._device = first.spec, first.arm, first.progress.total_loss.device

    def train_epoch(self) -> None:
        """Train all steps of the present epoch of each run. The runs then go on with the end of this epoch."""
        start = time.perf_counter()
        moments = self._attach_moments()
        with use_training_precision(self._spec.precision):
            losses, correct = self._train_steps(moments)
        for collected in moments:
            collected.copy_to_accumulators()
        self._optimizer.end_epoch()
        for norm in self._norms:
            norm.layer.accumulators.clear()
            copy_history_to_layers(norm.layer, norm.layers)
        seconds = time.perf_counter() - start
        for run, loss, number in zip(self.runs, losses, correct, strict=True):
            run.set_scheduled_values(self._first_step_of(run) + run.steps - 1)
            run.progress.end_epoch(run.steps, loss, number, seconds)
            run.num_fused_epochs += 1

    def save_runs(self) -> Callable[[], None]:
        """Return a function that undoes a `train_epoch` that raised an error; the runs can then train it otherwise."""
        values = self._parameters.values.clone()
        optimizer_state = self._optimizer.copy_state()
        generators = [run.generator.get_state() for run in self.runs]

        def restore() -> None:
            self._parameters.values.copy_(values)
            self._optimizer.restore_state(optimizer_state)
            for run, state in zip(self.runs, generators, strict=True):
                run.generator.set_state(state)

        return restore

    @staticmethod
    def _first_step_of(run: TrainingRun) -> int:
        return len(run.result.epochs) * run.steps

    def _attach_moments(self) -> list[StackedMoments]:
        """Let the normalization layers record what the runs collect in this epoch."""
        kinds = {
            PopulationEstimate.MOVING: ([run.moving for run in self.runs], self._arm.momentum),
            PopulationEstimate.EPOCH: ([run.progress.accumulators for run in self.runs], None),
        }
        moments = []
        for accumulators, decay in (kind for estimate, kind in kinds.items() if estimate in self.runs[0].estimates):
            of_layers = [
                [of_run[layer] for of_run, layer in zip(accumulators, norm.layers, strict=True)] for norm in self._norms
            ]
            collected = StackedMoments(of_layers, decay, self.runs[0].steps, self._device)
            moments.append(collected)
            for norm, recorder in zip(self._norms, collected.recorders, strict=True):
                norm.layer.accumulators.append(recorder)
        return moments

    def _train_steps(self, moments: Sequence[StackedMoments]) -> tuple[Tensor, Tensor]:
        """Return for each run (K,) the sum of the losses of its mini-batches, and its number of correct predictions."""
        self._network.train()
        inputs, targets = self.runs[0].data.splits[Split.TRAIN]
        assert isinstance(inputs, Tensor)
        size, steps = self._spec.batch_size, self.runs[0].steps
        orders = torch.stack([run.draw_order_of_epoch()[: steps * size] for run in self.runs], 1)
        self._optimizer.begin_epoch(self._read_learning_rates())
        schedules = self._read_schedules()
        total_loss, num_correct = (torch.zeros(len(self.runs), device=self._device) for _ in range(2))
        running_loss = self._stack_running_losses()
        for step in range(steps):
            for norm in self._norms:
                norm.scheduled_values = {name: values[step] for name, values in schedules.items()}
            index = orders[step * size : (step + 1) * size]
            x, y = inputs[index.flatten()], targets[index]
            outputs, losses = self._take_step(step, x.reshape(size, -1, *x.shape[2:]), y)
            for collected in moments:
                collected.end_step()
            total_loss += losses
            num_correct += (outputs.argmax(2) == y).sum(0)
            if running_loss is not None:
                running_loss.add(losses)
        self._copy_running_losses(running_loss)
        return total_loss, num_correct

    def _take_step(self, step: int, x: Tensor, y: Tensor) -> tuple[Tensor, Tensor]:
        """Make an optimizer step; return the outputs (N, K, classes) and the losses (K,) before it."""
        with set_history_recording([norm.layer for norm in self._norms], not self._arm.double_forward):
            outputs = self._network(x).view(*y.shape, -1)
        losses = F.cross_entropy(outputs.flatten(0, 1), y.flatten(), reduction="none").view_as(y).mean(0)
        self._optimizer.take_step(step, self._parameters.compute_gradients(losses.sum()))
        if self._arm.double_forward:
            with torch.no_grad():
                self._network(x)
        return outputs.detach(), losses.detach()

    def _read_learning_rates(self) -> Tensor:
        """Return the learning rates (steps, K) of the epoch, in float64 on the CPU."""
        rates = [
            [run.learning_rate_at_step(self._first_step_of(run) + step) for run in self.runs]
            for step in range(self.runs[0].steps)
        ]
        return torch.tensor(rates, dtype=torch.float64)

    def _read_schedules(self) -> dict[str, Tensor]:
        """Return the values (steps, K) of each scheduled attribute of the layers in the epoch."""
        of_runs = [run.arm.layer_attribute_schedules for run in self.runs]
        like = self._parameters.values
        return {
            name: torch.tensor(
                [
                    [
                        schedules[name].value_at_progress(run.progress_at_step(self._first_step_of(run) + step))
                        for run, schedules in zip(self.runs, of_runs, strict=True)
                    ]
                    for step in range(self.runs[0].steps)
                ],
                dtype=like.dtype,
                device=like.device,
            )
            for name in of_runs[0]
        }

    def _stack_running_losses(self) -> RecencyWeightedMean | None:
        """Return the running means of the losses of all runs; None unless they are measured."""
        means = [run.running_loss for run in self.runs if run.running_loss is not None]
        if not means:
            return None
        zero = torch.zeros((), dtype=torch.float64, device=self._device)
        sums = [zero if mean.state[1] is None else mean.state[1] for mean in means]
        stacked = RecencyWeightedMean(self.runs[0].steps)
        stacked.state = 0, torch.stack(sums)
        return stacked

    def _copy_running_losses(self, stacked: RecencyWeightedMean | None) -> None:
        if stacked is None or stacked.state[1] is None:
            return
        for run, weighted_sum in zip(self.runs, stacked.state[1], strict=True):
            assert run.running_loss is not None
            run.running_loss.state = run.running_loss.state[0] + run.steps, weighted_sum.clone()
