"""Trials are claimed together, and never more than the executor can run."""

from __future__ import annotations

import itertools
from types import SimpleNamespace

from bln_search.core.states import FailureClass
from bln_search.execution.messages import TaskFailed
from bln_search.worker.trial_queue import TrialQueue


class Claims:
    def __init__(self, trials, parallel):
        self.batches, self.numbers = [], itertools.count(1)
        self.trials = TrialQueue(self.claim, max_parallel=lambda: parallel)
        self.trials.add_trials(SimpleNamespace(id=number) for number in range(trials))
        self.running = []

    def claim(self, trial_ids):
        self.batches.append(list(trial_ids))
        return [next(self.numbers) for _ in trial_ids]

    def start(self):
        taken = self.trials.take_next(len(self.running))
        if taken is not None:
            self.running.append(taken)
        return taken

    def end(self, count):
        for _ in range(count):
            self.running.pop(0)
            self.trials.note_end()
        self.trials.note_no_more_trials_can_start()


def test_executor_that_fills_up_claims_twice_as_many_each_time_up_to_its_size():
    claims = Claims(trials=100, parallel=13)
    while len(claims.running) < 13:
        claims.start()
    assert [len(batch) for batch in claims.batches] == [1, 1, 2, 4, 5]
    assert claims.trials.num_claimed == 0
    assert [trial.id for _, trial, _ in claims.running] == list(range(13))


def test_as_many_trials_are_claimed_as_ended():
    claims = Claims(trials=100, parallel=10)
    while len(claims.running) < 10:
        claims.start()
    claims.end(6)
    before = len(claims.batches)
    while len(claims.running) < 10:
        claims.start()
    assert [len(batch) for batch in claims.batches[before:]] == [6]


def test_trials_that_ended_are_replaced_one_by_one_when_the_executor_ticks_between():
    claims = Claims(trials=100, parallel=2)
    for _ in range(5):
        claims.start()
        claims.end(1)
    assert {len(batch) for batch in claims.batches} == {1}


def test_nothing_is_claimed_without_waiting_trials():
    claims = Claims(trials=1, parallel=4)
    assert claims.start()[1].id == 0
    assert claims.start() is None
    assert claims.batches == [[0]]


def test_trial_that_runs_alone_is_claimed_alone():
    claims = Claims(trials=0, parallel=4)
    claims.trials.add_trials([SimpleNamespace(id=7), SimpleNamespace(id=8)], alone=True)
    claims.end(0)
    claims.trials.note_end()
    claims.trials.note_end()
    _, trial, alone = claims.start()
    assert (trial.id, alone) == (7, True)
    assert claims.batches == [[7]]
    assert claims.start() is None


def test_attempts_that_saved_their_training_do_not_count():
    queue, task = TrialQueue(lambda ids: ids), SimpleNamespace(alone=False, memory_limit=None)
    lost = TaskFailed(FailureClass.INFRASTRUCTURE, "killed")
    again = []
    for has_saved in (True, False, True, True, False, False, False):
        queue.add_trials([SimpleNamespace(id=1)])
        queue.take_next(0)
        if has_saved:
            queue.note_progress(1)
        again.append(queue.decide_retry(1, task, lost, is_evaluating=False).again)
    assert again == [True, True, True, True, True, False, False]
