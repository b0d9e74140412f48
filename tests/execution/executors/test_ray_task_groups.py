"""Groups of tasks in one process of Ray, without a cluster."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from bln_search.core.checkpoints import FolderStore
from bln_search.core.states import FailureClass
from bln_search.execution.environment import ExecutionEnvironment
from bln_search.execution.executors.ray.executor import RayExecutor, _TuneRun
from bln_search.execution.executors.ray.nodes import Cluster, Node
from bln_search.execution.executors.ray.task_groups import SequenceGrouper
from bln_search.execution.messages import EvaluationDone, PruneDecision, TaskFailed, TrialTask
from bln_search.specs import list_planned_trial_specs, parse_study

STUDY = """
name: sequences
data: {name: digits}
model: {name: mlp, widths: [4]}
arms: [{method: bn}]
training: {epochs: %d, batch_size: 25}
seeds: [0]
"""
SHORT, OTHER = (list_planned_trial_specs(parse_study(STUDY % epochs))[0] for epochs in (2, 3))
PROCESSES = 2


def make_task(token, trial=SHORT, *, seed=None, **attributes):
    return TrialTask(token, trial.model_copy(update={"seed": token if seed is None else seed}), **attributes)


def make_tasks(count, trial=SHORT, **attributes):
    return [make_task(token, trial, **attributes) for token in range(count)]


def make_grouper(trials=100, seconds=1.0):
    """A grouper that knows the duration of a short task."""
    grouper = SequenceGrouper(trials)
    grouper.note_duration(make_task(0), seconds, "host")
    return grouper


def length_of_sequence(grouper, tasks):
    """How many of the tasks the next process gets."""
    waiting = iter(tasks)
    return len(grouper.take_tasks(lambda: next(waiting, None), PROCESSES))


def test_tasks_of_unknown_duration_run_alone():
    assert length_of_sequence(SequenceGrouper(100), make_tasks(50)) == 1
    assert length_of_sequence(make_grouper(), make_tasks(50, OTHER)) == 1


@pytest.mark.parametrize(
    ("seconds", "length"), [(0.01, 10), (0.5, 10), (1.0, 5), (2.0, 2), (2.5, 2), (2.6, 1), (600.0, 1)]
)
def test_a_sequence_takes_at_most_five_seconds(seconds, length):
    assert length_of_sequence(make_grouper(seconds=seconds), make_tasks(50)) == length


@pytest.mark.parametrize(("waiting", "length"), [(17, 5), (12, 3), (8, 2), (5, 2), (4, 1), (1, 1)])
def test_a_process_takes_a_small_share_of_the_waiting_trials(waiting, length):
    assert length_of_sequence(make_grouper(waiting), make_tasks(50)) == length


def test_the_slowest_host_decides():
    grouper = make_grouper(seconds=1.0)
    grouper.note_duration(make_task(1), 2.5, "slow")
    assert length_of_sequence(grouper, make_tasks(50)) == 2
    grouper.note_duration(make_task(2), 0.5, "slow")
    assert length_of_sequence(grouper, make_tasks(50)) == 5


@pytest.mark.parametrize("attribute", ["prunable", "informs_sampler"])
def test_a_task_whose_messages_matter_to_others_is_in_no_sequence(attribute):
    assert length_of_sequence(make_grouper(), make_tasks(50, **{attribute: True})) == 1
    grouper = make_grouper()
    assert length_of_sequence(grouper, [*make_tasks(2), make_task(9, **{attribute: True})]) == 2
    assert grouper.postponed_task.token == 9


@pytest.fixture
def make_run(tmp_path):
    """The driver's part of a run of these tasks in two processes, without Tune."""

    def make(tasks, **options):
        executor = RayExecutor(ExecutionEnvironment(tmp_path, tmp_path, FolderStore(tmp_path)), PROCESSES, **options)
        cluster = Cluster(list_nodes=lambda: [Node(float(PROCESSES), 0.0)])
        waiting, received = iter(tasks), []

        def record(task, message):
            received.append((task.token, message))
            return PruneDecision.CONTINUE

        run = _TuneRun(executor, cluster, lambda: next(waiting, None), record, lambda tokens: None, len(tasks))
        run.received = received
        return run

    return make


def start_process(run):
    """A trial of Tune with the next tasks."""
    return SimpleNamespace(config={"tasks": run._next_tasks()}, trial_id="1")


def end_tasks(run, trial, seconds=1.0):
    tokens = [task.token for task in trial.config["tasks"]]
    messages, durations = [(token, EvaluationDone(())) for token in tokens], [(token, seconds) for token in tokens]
    result = {"messages": messages, "seconds": durations}
    assert not run._report_messages_of_result(trial, result)


def tokens_of(trial):
    return [task.token for task in trial.config["tasks"]]


def test_every_task_starts_once_and_the_last_ones_alone(make_run):
    run = make_run(make_tasks(40))
    sequences = []
    while tokens_of(trial := start_process(run)):
        sequences.append(tokens_of(trial))
        end_tasks(run, trial)
    assert [token for tokens in sequences for token in tokens] == list(range(40))
    assert max(map(len, sequences)) == 5
    assert [len(tokens) for tokens in sequences[-3:]] == [1, 1, 1]


@pytest.mark.parametrize(
    ("options", "expected"),
    [({}, [[0], [1, 2], [3], [4, 5, 6, 7]]), ({"trials_per_process": 3}, [[0, 1, 2], [3], [4, 5, 6], [7, 8, 9]])],
)
def test_a_task_that_may_not_follow_is_the_first_of_the_next_process(make_run, options, expected):
    tasks = make_tasks(20)
    tasks[3] = make_task(3, prunable=True)
    run = make_run(tasks, **options)
    processes = []
    for _ in expected:
        processes.append(start_process(run))
        end_tasks(run, processes[-1])
    assert [tokens_of(trial) for trial in processes] == expected


def test_a_postponed_task_keeps_the_run_open(make_run):
    tasks = [*make_tasks(3), make_task(3, prunable=True)]
    run = make_run(tasks, trials_per_process=4)
    first = start_process(run)
    end_tasks(run, first)
    assert tokens_of(first) == [0, 1, 2]
    assert run._may_get_more_tasks()
    last = start_process(run)
    assert tokens_of(last) == [3]
    end_tasks(run, last)
    assert not run._may_get_more_tasks()


def lose_process(run, trial):
    run._report_lost_process(trial, "killed")
    return [(token, message.process_lost) for token, message in run.received if isinstance(message, TaskFailed)]


def test_a_lost_process_counts_as_no_attempt_of_the_tasks_of_its_sequence_which_then_run_alone(make_run):
    """Which of them ran is unknown, since results wait for some seconds."""
    retried = [make_task(100 + seed, seed=seed) for seed in (2, 3, 4, 5)]
    run = make_run([*make_tasks(6), *retried, *(make_task(token) for token in range(6, 40))])
    end_tasks(run, start_process(run))
    sequence = start_process(run)
    assert tokens_of(sequence) == [1, 2, 3, 4, 5]
    run._report_messages_of_result(sequence, {"messages": [(1, EvaluationDone(()))]})
    assert lose_process(run, sequence) == [(2, True), (3, True), (4, True), (5, True)]
    assert {message.failure for _, message in run.received[2:]} == {FailureClass.INFRASTRUCTURE}
    again = start_process(run)
    assert tokens_of(again) == [102]
    assert lose_process(run, again)[-1] == (102, False)
    for token in (103, 104, 105):
        again = start_process(run)
        assert tokens_of(again) == [token]
        end_tasks(run, again)
    assert tokens_of(start_process(run)) == [6, 7, 8, 9, 10]


def test_a_lost_process_counts_as_an_attempt_of_all_tasks_of_a_program(make_run):
    run = make_run(make_tasks(40), trials_per_process=3)
    assert lose_process(run, start_process(run)) == [(0, False), (1, False), (2, False)]
    assert tokens_of(start_process(run)) == [3]
