"""Several trials in one process, whose epochs are trained as one program where that is possible."""

from __future__ import annotations

import logging
from collections.abc import Callable, Generator, Hashable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from typing import Any, Self

import torch
from torch import Tensor

from bln_search.core.records import EpochRecord
from bln_search.core.states import FailureClass
from bln_search.evaluation.chunking import release_freed_memory
from bln_search.execution.environment import ExecutionEnvironment
from bln_search.execution.executors.base import make_task_failed_message
from bln_search.execution.messages import Message, PruneDecision, TaskFailed, TrainingPruned, TrialTask
from bln_search.execution.trial import run_trial_task_announcing_epochs
from bln_search.training import TrainingRun
from bln_search.training.loop import EpochToTrain
from bln_search.training.seeding import (
    read_global_generator_states,
    reproducible_torch,
    restore_global_generator_states,
)
from bln_search.training.stacked.key import find_stacking_key, may_be_fused_with_others
from bln_search.training.stacked.training import StackedTraining, can_capture_steps_as_cuda_graph

_log = logging.getLogger(__name__)

_ENDED: Any = object()

_Programs = dict[tuple[TrainingRun, ...], StackedTraining]

SendOfTrial = Callable[[TrialTask, Message], None]


@dataclass(eq=False)
class _Trial:
    """A trial of the group.

    Attributes:
        steps: Runs it.
        generators: States of the global random number generators, which each trial has to itself.
        run: Its training run; None before it trains.
        is_pending: The run is before an epoch.
        asked_after: Epoch after which it waits for a decision of the pruner.
        is_before_evaluation: It is trained and will be evaluated.
        trains_alone: Its epochs are not trained with those of other trials.
    """

    task: TrialTask
    steps: Generator[EpochToTrain | EpochRecord | None, None, None]
    generators: dict[str, Tensor] | None = None
    run: TrainingRun | None = None
    is_pending: bool = False
    asked_after: int | None = None
    is_before_evaluation: bool = False
    trains_alone: bool = False

    @property
    def has_begun(self) -> bool:
        return self.generators is not None

    @property
    def may_be_fused(self) -> bool:
        return may_be_fused_with_others(self.task.trial)


@dataclass
class TrialGroup:
    """Runs trials epoch by epoch, in parallel; a context in which torch computes reproducibly.

    A trial gives what it gives alone, up to rounding where its epochs were trained with those of others; it ends, is
    pruned and fails alone. Trials may be added between two epochs. Of those that fit with no other, by their
    specification, the next begins when the one before has ended: one of their networks is in memory at a time.

    Attributes:
        environment: Folders, checkpoint store, device and threads.
        send: Receives every message of each trial in order.
    """

    environment: ExecutionEnvironment
    send: SendOfTrial
    _trials: list[_Trial] = field(default_factory=list)
    _programs: _Programs = field(default_factory=dict)
    _largest_program: dict[Hashable, int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self._mode = ExitStack()

    def __enter__(self) -> Self:
        """Begin the mode that each trial sets and restores, so that it does not end with the first trial that ends."""
        self._mode.enter_context(reproducible_torch(0, threads=self.environment.threads))
        return self

    def __exit__(self, *_: object) -> None:
        """End the trials that have not ended, and the mode."""
        for trial in self._trials:
            trial.steps.close()
        self._mode.close()

    def __len__(self) -> int:
        """The number of trials that have not ended."""
        return len(self._trials)

    @property
    def is_awaiting_prune_decision(self) -> bool:
        """Does a trial wait for a decision of the pruner?"""
        return any(trial.asked_after is not None for trial in self._trials)

    @property
    def is_before_evaluation(self) -> bool:
        """Is a trial trained, and will be evaluated when trials are advanced next?"""
        return any(trial.is_before_evaluation for trial in self._trials)

    def add(self, task: TrialTask) -> None:
        """Add a trial."""
        steps = run_trial_task_announcing_epochs(task, self.environment, lambda message: self.send(task, message))
        self._trials.append(_Trial(task, steps))

    def apply_prune_decision(self, token: int, decision: PruneDecision) -> None:
        """Continue a trial that waits for a decision of the pruner, or stop it."""
        (trial,) = (trial for trial in self._trials if trial.task.token == token)
        epoch, trial.asked_after = trial.asked_after, None
        assert epoch is not None
        if decision is PruneDecision.STOP:
            trial.steps.close()
            self._remove(trial)
            self.send(trial.task, TrainingPruned(epoch))

    def advance_trials_to_next_epoch(self) -> None:
        """Run each trial until its next epoch, a question to the pruner, its evaluation, or its end."""
        for trial in list(self._trials):
            if (
                trial.has_begun
                or trial.may_be_fused
                or not any(of.has_begun and not of.may_be_fused for of in self._trials)
            ):
                self._advance_trial(trial)

    def _advance_trial(self, trial: _Trial) -> None:
        trial.is_before_evaluation = False
        while trial in self._trials:
            if trial.is_pending or trial.asked_after is not None or trial.is_before_evaluation:
                return
            self._take_step(trial)

    def train_fusible_pending_epochs(self) -> None:
        """Train the next epoch of every trial; those that fit together as one program."""
        by_key: dict[Hashable, list[_Trial]] = {}
        for trial in [] if self.environment.runs_one_trial else self._trials:
            if trial.run is None or not trial.is_pending or trial.trains_alone:
                continue
            key = find_stacking_key(trial.run, trial.task.trial)
            if key is not None:  # others train the epoch themselves
                by_key.setdefault(key, []).append(trial)
        programs: _Programs = {}
        for key, trials in by_key.items():
            size = self._largest_program.get(key, len(trials))
            for start in range(0, len(trials), size):
                programs.update(self._train_together(key, trials[start : start + size]))
        self._programs = programs
        for trial in self._trials:
            trial.is_pending = False

    def _take_step(self, trial: _Trial) -> None:
        device = torch.device(self.environment.device)
        if trial.generators is not None:
            restore_global_generator_states(trial.generators, device)
        failure: TaskFailed | None = None
        try:
            step = next(trial.steps, _ENDED)
        except Exception as error:  # noqa: BLE001 - every failure becomes a message
            failure = make_task_failed_message(error)
        if failure is not None:  # the error holds its memory no longer
            self._fail(trial, failure)
            release_freed_memory()
            return
        trial.generators = read_global_generator_states(device)
        if step is _ENDED:
            self._remove(trial)
        elif isinstance(step, EpochToTrain):
            trial.run, trial.is_pending = step.run, True
        elif step is None:
            trial.is_before_evaluation = True
            self._drop_programs_of(trial)
        elif isinstance(step, EpochRecord) and trial.task.prunable:
            trial.asked_after = step.epoch

    def _fail(self, trial: _Trial, failure: TaskFailed) -> None:
        self._remove(trial)
        self.send(trial.task, failure)

    def _remove(self, trial: _Trial) -> None:
        self._trials.remove(trial)
        self._drop_programs_of(trial)

    def _drop_programs_of(self, trial: _Trial) -> None:
        """Free the memory of the program that trained the last epoch of a trial, which does not train on."""
        self._programs = {runs: program for runs, program in self._programs.items() if trial.run not in runs}

    def _train_together(self, key: Hashable, trials: Sequence[_Trial]) -> _Programs:
        """Train the next epoch of trials as one program; in halves if memory runs out, alone after any other error.

        Returns:
            What trained them, by their runs.
        """
        runs = tuple(trial.run for trial in trials if trial.run is not None)
        if len(runs) == 1 and not (self.environment.cuda_graphs and can_capture_steps_as_cuda_graph(runs[0])):
            return {}  # the trial trains the epoch itself, which is not slower
        program = self._take_steps_together(runs)
        if isinstance(program, TaskFailed):
            return self._train_otherwise(key, trials, program)
        try:
            program.end_epoch()
        except Exception as error:  # noqa: BLE001 - whatever it is, the state of the runs is unknown
            self._fail_all(trials, make_task_failed_message(error))
            return {}
        return {runs: program}

    def _take_steps_together(self, runs: tuple[TrainingRun, ...]) -> StackedTraining | TaskFailed:
        """Return the program that took the steps of an epoch, or the failure after which the runs are as before."""
        program, restore_runs = self._programs.pop(runs, None), None
        try:
            program = program or StackedTraining(runs, records_steps=self.environment.cuda_graphs)
            restore_runs = program.snapshot_runs_for_undo()
            program.take_all_steps_of_epoch()
        except Exception as error:  # noqa: BLE001 - whatever fails together may work alone
            if restore_runs is not None:
                restore_runs()
            return make_task_failed_message(error)
        return program

    def _train_otherwise(self, key: Hashable, trials: Sequence[_Trial], failure: TaskFailed) -> _Programs:
        if failure.process_unusable:
            self._fail_all(trials, failure)
            return {}
        if failure.failure is not FailureClass.OUT_OF_MEMORY or len(trials) == 1:
            _log.warning("%d trials are not trained as one program but alone: %s", len(trials), failure.reason)
            for trial in trials:
                trial.trains_alone = True
            return {}
        size = self._largest_program[key] = (len(trials) + 1) // 2
        _log.info("memory does not suffice for %d trials as one program: at most %d now", len(trials), size)
        release_freed_memory()
        programs: _Programs = {}
        for part in (trials[:size], trials[size:]):
            programs |= self._train_together(key, part)
        return programs

    def _fail_all(self, trials: Sequence[_Trial], failure: TaskFailed) -> None:
        for trial in trials:
            trial.steps.close()
            self._fail(trial, failure)
