"""Trials that run side by side in one process give what they give alone, and end, fail and are pruned alone."""

from __future__ import annotations

import dataclasses
import json
import weakref
from contextlib import ExitStack

import pytest
import torch

from bln_search.core.checkpoints import FolderStore
from bln_search.core.records import FUSED_EPOCHS
from bln_search.core.states import FailureClass
from bln_search.execution.environment import ExecutionEnvironment
from bln_search.execution.executors import trial_group
from bln_search.execution.executors.trial_group import TrialGroup
from bln_search.execution.messages import (
    EpochDone,
    EvaluationDone,
    PruneDecision,
    TaskFailed,
    TrainingDiverged,
    TrainingDone,
    TrainingPruned,
    TrialTask,
)
from bln_search.execution.trial import iter_epochs_of_trial_task
from bln_search.norms.precision import read_precision_flags
from bln_search.specs import list_planned_trial_specs, parse_study
from bln_search.training.stacked.training import StackedTraining

TOLERANCE = 1e-4
"""Of losses after three epochs in single precision, relative."""


def make_trials(arms=("bln",), seeds=(0, 1, 2), **training):
    return list_planned_trial_specs(
        parse_study(
            json.dumps(
                {
                    "name": "group",
                    "data": {"name": "digits", "fraction": 0.2, "validation": 200},
                    "model": {"name": "mlp", "widths": [8]},
                    "arms": [{"method": method} for method in arms],
                    "training": {"epochs": 3, **training},
                    "seeds": list(seeds),
                }
            )
        )
    )


@pytest.fixture
def environment(tmp_path):
    return ExecutionEnvironment(tmp_path, tmp_path, FolderStore(tmp_path / "checkpoints"), runs_one_trial=False)


@pytest.fixture
def make_group(environment):
    """Makes a group; it ends with the test."""
    with ExitStack() as stack:

        def make(trials, **options):
            group = Group(environment, trials, **options)
            stack.enter_context(group.group)
            return group

        yield make


class Group:
    """A group with the messages of each trial, by token."""

    def __init__(self, environment, trials, *, in_environment=None, **options):
        self.messages = {token: [] for token in range(len(trials))}
        environment = in_environment or environment
        self.group = TrialGroup(environment, lambda task, message: self.messages[task.token].append(message))
        self.tasks = [TrialTask(token, trial, **options) for token, trial in enumerate(trials)]

    def add(self, *tokens):
        for token in tokens:
            self.group.add(self.tasks[token])
        self.group.advance_trials_to_next_epoch()

    def run(self):
        while len(self.group):
            self.group.train_fusible_pending_epochs()
            self.group.advance_trials_to_next_epoch()

    def last(self, token):
        return self.messages[token][-1]

    def fused_epochs(self, token):
        (done,) = (message for message in self.messages[token] if isinstance(message, TrainingDone))
        return done.checkpoint.provenance.get(FUSED_EPOCHS, 0)

    def epochs(self, token):
        return [message.record.epoch for message in self.messages[token] if isinstance(message, EpochDone)]


def run_alone(environment, trial):
    sent = []
    for _ in iter_epochs_of_trial_task(TrialTask(1, trial), environment, sent.append):
        pass
    return sent


def losses(messages):
    return [evaluation.loss for evaluation in messages[-1].evaluations]


def test_each_trial_gives_what_it_gives_alone(environment, make_group):
    """Two arms and three seeds: two programs of three trials."""
    trials = make_trials(arms=("bln", "mbn"))
    group = make_group(trials)
    group.add(*range(len(trials)))
    group.run()
    for token, trial in enumerate(trials):
        alone = run_alone(environment, trial)
        assert [type(message) for message in group.messages[token]] == [type(message) for message in alone]
        assert losses(group.messages[token]) == pytest.approx(losses(alone), rel=TOLERANCE)
        assert group.fused_epochs(token) == 3


def test_a_trial_without_company_is_bit_for_bit_what_it_is_alone(environment, make_group):
    trials = make_trials(seeds=(0,)) + make_trials(seeds=(0,), fused_norms=True)
    group = make_group(trials)
    group.add(0, 1)
    group.run()
    for token, trial in enumerate(trials):
        assert losses(group.messages[token]) == losses(run_alone(environment, trial))
        assert group.fused_epochs(token) == 0


def test_a_trial_joins_those_that_run(make_group):
    group = make_group(make_trials())
    group.add(0, 1)
    group.group.train_fusible_pending_epochs()
    group.group.advance_trials_to_next_epoch()
    group.add(2)
    group.run()
    assert [group.fused_epochs(token) for token in range(3)] == [3, 3, 2]
    assert all(group.epochs(token) == [1, 2, 3] for token in range(3))


def test_the_pruner_stops_one_trial_of_several(make_group):
    group = make_group(make_trials(), prunable=True)
    group.add(0, 1, 2)
    while len(group.group):
        group.group.train_fusible_pending_epochs()
        group.group.advance_trials_to_next_epoch()
        assert group.group.is_awaiting_prune_decision or not len(group.group)
        for token in range(3) if len(group.group) else ():
            if group.epochs(token) and not isinstance(group.last(token), TrainingPruned):
                decision = PruneDecision.STOP if token == 1 else PruneDecision.CONTINUE
                group.group.apply_prune_decision(token, decision)
        group.group.advance_trials_to_next_epoch()
    assert group.last(1) == TrainingPruned(1)
    assert isinstance(group.last(0), EvaluationDone)
    assert group.epochs(2) == [1, 2, 3]


def test_a_diverged_trial_ends_alone(make_group):
    (diverging,) = make_trials(seeds=(1,), learning_rate=1e38)
    group = make_group([*make_trials(seeds=(0, 2)), diverging])
    group.add(0, 1, 2)
    group.run()
    assert isinstance(group.last(2), TrainingDiverged)
    assert [group.fused_epochs(token) for token in (0, 1)] == [3, 3]


def test_a_trial_that_cannot_be_built_fails_alone(make_group):
    (broken,) = make_trials(seeds=(3,))
    broken = broken.model_copy(update={"data": broken.data.model_copy(update={"name": "mnist"})})
    group = make_group([*make_trials(seeds=(0, 1)), broken])
    group.add(2, 0, 1)
    group.run()
    assert isinstance(group.last(2), TaskFailed)
    assert [group.fused_epochs(token) for token in (0, 1)] == [3, 3]


@pytest.fixture
def limited_programs(monkeypatch):
    """Memory for two trials in one program, missing in the first step; the memory of a failed program is free then.

    The sizes of the programs that trained an epoch.
    """
    take_step, begin_epoch, sizes, failed = StackedTraining._read_mini_batches, StackedTraining._begin_epoch, [], []

    def begin(self):
        assert [program for program in failed if program() is not None] == []
        if len(self.runs) <= 2:
            sizes.append(len(self.runs))
        begin_epoch(self)

    def read(self):
        if len(self.runs) > 2:
            failed.append(weakref.ref(self))
            raise MemoryError("made for the test")
        return take_step(self)

    monkeypatch.setattr(StackedTraining, "_begin_epoch", begin)
    monkeypatch.setattr(StackedTraining, "_read_mini_batches", read)
    return sizes


def test_trials_that_do_not_fit_into_memory_train_in_halves(environment, make_group, limited_programs):
    trials = make_trials(seeds=range(5))
    group = make_group(trials)
    group.add(*range(5))
    group.run()
    assert limited_programs == [2, 2] * 3  # the fifth trial trains alone
    for token, trial in enumerate(trials):
        assert losses(group.messages[token]) == pytest.approx(losses(run_alone(environment, trial)), rel=TOLERANCE)


@pytest.fixture
def recorded_steps(environment, monkeypatch):
    """The environment of a GPU on which steps are recorded, but they are taken one by one."""
    monkeypatch.setattr(trial_group, "can_capture_steps_as_cuda_graph", lambda _run: True)
    return dataclasses.replace(environment, cuda_graphs=True)


def test_a_recorded_step_is_worth_a_program_of_one(environment, recorded_steps, make_group):
    (trial,) = trials = make_trials(seeds=(0,))
    group = make_group(trials, in_environment=recorded_steps)
    group.add(0)
    group.run()
    assert losses(group.messages[0]) == pytest.approx(losses(run_alone(environment, trial)), rel=TOLERANCE)
    assert group.fused_epochs(0) == 3


def test_a_program_of_one_that_runs_out_of_memory_is_left(environment, recorded_steps, make_group, monkeypatch):
    def fail(_self):
        raise torch.OutOfMemoryError("made for the test")

    monkeypatch.setattr(StackedTraining, "_begin_epoch", fail)
    (trial,) = trials = make_trials(seeds=(0,))
    group = make_group(trials, in_environment=recorded_steps)
    group.add(0)
    group.run()
    assert losses(group.messages[0]) == losses(run_alone(environment, trial))
    assert group.fused_epochs(0) == 0


@pytest.mark.parametrize(
    "order", [(2, 0, 3, 1), *(pytest.param(order, marks=pytest.mark.slow) for order in ((0, 1, 2, 3), (0, 2, 1, 3)))]
)
def test_trials_that_fit_with_no_other_run_one_after_another(make_group, order):
    """Trials 0 and 1, so that one of their networks is in memory; those that fit together train together meanwhile."""
    group = make_group(make_trials(seeds=(0, 1), fused_norms=True) + make_trials(seeds=(0, 1)))
    ends, send = [], group.group.send

    def note_ends(task, message):
        send(task, message)
        if isinstance(message, EpochDone | EvaluationDone):
            ends.append((task.token, message.record.epoch if isinstance(message, EpochDone) else "end"))

    group.group.send = note_ends
    group.add(*order)
    group.run()
    assert [end for end in ends if end[0] < 2] == [(token, end) for token in (0, 1) for end in (1, 2, 3, "end")]
    assert [group.fused_epochs(token) for token in range(4)] == [0, 0, 3, 3]


def test_an_error_at_the_end_of_an_epoch_fails_its_trials(make_group, monkeypatch):
    """They cannot go on, because some of them have what the epoch computed and others do not."""
    end_epoch = trial_group.StackedTraining.end_epoch

    def fail(self):
        end_epoch(self)
        raise MemoryError("made for the test")

    monkeypatch.setattr(StackedTraining, "end_epoch", fail)
    group = make_group(make_trials())
    group.add(0, 1, 2)
    group.run()
    assert [group.last(token).failure for token in range(3)] == [FailureClass.OUT_OF_MEMORY] * 3


def test_trials_that_fail_together_train_alone(environment, make_group, monkeypatch):
    def fail(_self):
        raise ValueError("made for the test")

    monkeypatch.setattr(StackedTraining, "_begin_epoch", fail)
    trials = make_trials()
    group = make_group(trials)
    group.add(0, 1, 2)
    group.run()
    for token, trial in enumerate(trials):
        assert losses(group.messages[token]) == pytest.approx(losses(run_alone(environment, trial)), rel=TOLERANCE)
        assert group.fused_epochs(token) == 0


def test_an_error_of_the_accelerator_fails_every_trial_of_the_program(make_group, monkeypatch):
    failure = TaskFailed(FailureClass.INFRASTRUCTURE, "made for the test", process_unusable=True)
    monkeypatch.setattr(trial_group, "make_task_failed_message", lambda _error: failure)

    def fail(_self):
        raise RuntimeError("made for the test")

    monkeypatch.setattr(StackedTraining, "_begin_epoch", fail)
    group = make_group(make_trials())
    group.add(0, 1, 2)
    group.run()
    assert [group.last(token) for token in range(3)] == [failure] * 3


def test_a_group_leaves_the_flags_of_torch_as_they_were(environment):
    """Its trials set and restore them in any order."""
    flags, threads = read_precision_flags(), torch.get_num_threads()
    group = Group(environment, make_trials(seeds=(0, 1)) + make_trials(seeds=(2,), epochs=1))
    with group.group:
        group.add(0, 1, 2)
        group.run()
        assert torch.get_deterministic_debug_mode() == 2
    assert (read_precision_flags(), torch.get_num_threads()) == (flags, threads)
    assert torch.get_deterministic_debug_mode() == 0
    assert isinstance(torch.backends.cudnn.allow_tf32, bool)
