"""Several trials in one process, whose epochs are trained as one program where that is possible."""

from __future__ import annotations

import logging
from collections.abc import Callable, Generator, Hashable, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor

from bln_search.core.records import EpochRecord
from bln_search.core.states import FailureClass
from bln_search.evaluation.chunking import release_freed_memory
from bln_search.execution.environment import ExecutionEnvironment
from bln_search.execution.executors.base import task_failed_from_error
from bln_search.execution.messages import Message, PruneDecision, TaskFailed, TrainingPruned, TrialTask
from bln_search.execution.trial import run_announced_trial_task
from bln_search.training import TrainingRun
from bln_search.training.generator_states import read_global_generators, restore_global_generators
from bln_search.training.loop import PendingEpoch
from bln_search.training.stacked.key import make_stacking_key
from bln_search.training.stacked.training import StackedTraining

_log = logging.getLogger(__name__)

_ENDED: Any = object()

SendOfTrial = Callable[[TrialTask, Message], None]


@dataclass(eq=False)
class _Trial:
    """A trial of the group.

    Attributes:
        steps: Runs it.
        generators: States of the global random number generators, which each trial has to itself.
        pending: Its run before an epoch; None if it can go on.
        asked_after: Epoch after which it waits for a decision of the pruner.
        trains_alone: Its epochs are not trained with those of other trials.
    """

    task: TrialTask
    steps: Generator[PendingEpoch | EpochRecord | None, None, None]
    generators: dict[str, Tensor] | None = None
    pending: TrainingRun | None = None
    asked_after: int | None = None
    trains_alone: bool = False


@dataclass
class TrialGroup:
    """Runs trials epoch by epoch, side by side.

    A trial gives what it gives alone, up to rounding where its epochs were trained with those of others; it ends, is
    pruned and fails alone. Trials may be added between two epochs.

    Attributes:
        environment: Folders, checkpoint store, device and threads.
        send: Receives every message of each trial in order.
    """

    environment: ExecutionEnvironment
    send: SendOfTrial
    _trials: list[_Trial] = field(default_factory=list)
    _stacks: dict[tuple[TrainingRun, ...], StackedTraining] = field(default_factory=dict)
    _largest_stack: dict[Hashable, int] = field(default_factory=dict)

    def __len__(self) -> int:
        """The number of trials that have not ended."""
        return len(self._trials)

    @property
    def is_waiting(self) -> bool:
        """Does a trial wait for a decision of the pruner?"""
        return any(trial.asked_after is not None for trial in self._trials)

    def add(self, task: TrialTask) -> None:
        """Add a trial."""
        steps = run_announced_trial_task(task, self.environment, lambda message: self.send(task, message))
        self._trials.append(_Trial(task, steps))

    def decide(self, token: int, decision: PruneDecision) -> None:
        """Continue a trial that waits for a decision of the pruner, or stop it."""
        (trial,) = (trial for trial in self._trials if trial.task.token == token)
        epoch, trial.asked_after = trial.asked_after, None
        assert epoch is not None
        if decision is PruneDecision.STOP:
            trial.steps.close()
            self._trials.remove(trial)
            self.send(trial.task, TrainingPruned(epoch))

    def advance(self) -> None:
        """Run each trial until its next epoch, a question to the pruner, or its end."""
        for trial in list(self._trials):
            while trial.pending is None and trial.asked_after is None and trial in self._trials:
                self._take_step(trial)

    def train_pending_epochs(self) -> None:
        """Train the next epoch of every trial; those that fit together as one program."""
        by_key: dict[Hashable, list[_Trial]] = {}
        for trial in self._trials:
            if trial.pending is None:
                continue
            key = None if trial.trains_alone else make_stacking_key(trial.pending, trial.task.trial)
            by_key.setdefault(trial if key is None else key, []).append(trial)
        stacks = {}
        for key, trials in by_key.items():
            size = self._largest_stack.get(key, len(trials))
            for start in range(0, len(trials), size):
                stacks.update(self._train_together(key, trials[start : start + size]))
        self._stacks = stacks
        for trial in self._trials:
            trial.pending = None

    def _take_step(self, trial: _Trial) -> None:
        device = torch.device(self.environment.device)
        if trial.generators is not None:
            restore_global_generators(trial.generators, device)
        try:
            step = next(trial.steps, _ENDED)
        except Exception as error:  # noqa: BLE001 - every failure becomes a message
            self._fail(trial, task_failed_from_error(error))
            return
        trial.generators = read_global_generators(device)
        if step is _ENDED:
            self._trials.remove(trial)
        elif isinstance(step, PendingEpoch):
            trial.pending = step.run
        elif isinstance(step, EpochRecord) and trial.task.prunable:
            trial.asked_after = step.epoch

    def _fail(self, trial: _Trial, failure: TaskFailed) -> None:
        self._trials.remove(trial)
        self.send(trial.task, failure)

    def _train_together(
        self, key: Hashable, trials: Sequence[_Trial]
    ) -> dict[tuple[TrainingRun, ...], StackedTraining]:
        """Train the next epoch of trials as one program; in halves if memory runs out, alone after any other error.

        Returns:
            What trained them, by their runs.
        """
        runs = tuple(trial.pending for trial in trials if trial.pending is not None)
        if len(runs) < 2:
            return {}  # the trial trains the epoch itself
        stack, restore_runs = self._stacks.get(runs), None
        try:
            stack = stack or StackedTraining(runs, records_steps=self.environment.cuda_graphs)
            restore_runs = stack.save_runs()
            stack.train_epoch()
        except Exception as error:  # noqa: BLE001 - whatever fails together may work alone
            if restore_runs is not None:
                restore_runs()
            failure = task_failed_from_error(error)
            if failure.process_unusable:
                for trial in trials:
                    self._fail(trial, failure)
                return {}
            return self._train_in_parts(key, trials, failure)
        return {runs: stack}

    def _train_in_parts(
        self, key: Hashable, trials: Sequence[_Trial], failure: TaskFailed
    ) -> dict[tuple[TrainingRun, ...], StackedTraining]:
        """Train the next epoch of trials that failed together."""
        if failure.failure is not FailureClass.OUT_OF_MEMORY:
            _log.warning("%d trials cannot be trained as one program and train alone: %s", len(trials), failure.reason)
            for trial in trials:
                trial.trains_alone = True
            return {}
        size = self._largest_stack[key] = (len(trials) + 1) // 2
        _log.info("memory does not suffice for %d trials as one program: at most %d now", len(trials), size)
        release_freed_memory()
        stacks: dict[tuple[TrainingRun, ...], StackedTraining] = {}
        for part in (trials[:size], trials[size:]):
            stacks |= self._train_together(key, part)
        return stacks
