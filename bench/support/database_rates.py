"""Operations per second that processes without other work make on one database."""

from __future__ import annotations

import time
from contextlib import closing
from multiprocessing import get_context
from typing import Any

from bench.support.ledgers import RUNNER, SEEDS, database, list_open_trials, start_study_with_points
from bench.support.reporting import spread
from bln_search.core.records import EpochRecord
from bln_search.storage.engine import make_engine
from bln_search.storage.ledger import Ledger, open_and_upgrade_ledger

OPERATIONS = ("heartbeat", "claim", "look", "append", "append_twenty")


class WorkerOperations:
    """The database operations of a worker, repeated without pauses."""

    def __init__(self, url: str, number: int, study_id: int, token: int) -> None:
        self.ledger = Ledger(make_engine(url))
        self.queue = self.ledger.queue
        self.name, self.study_id, self.token = f"bench/{number}/0", study_id, token

    def heartbeat(self) -> None:
        """Send the heartbeat of the study and its attempts."""
        self.ledger.attempts.record_heartbeats([self.token], self.study_id, RUNNER)

    def claim(self) -> None:
        """Try to claim a study from an empty queue."""
        assert self.queue.claim_next_study(self.name, lambda _: True, 4) is None

    def look(self) -> None:
        """Check for a stop request."""
        self.ledger.studies.find_stop_request(self.study_id, RUNNER)

    def append(self, epochs: int = 1) -> None:
        """Store epochs of a trial in one transaction."""
        self.ledger.attempts.record_epochs(self.token, [EpochRecord(1, 0.5, 0.5, 0.6, 0.5, 0.05)] * epochs)

    def append_twenty(self) -> None:
        """Store twenty epochs in one transaction."""
        self.append(20)


def run_operations(arguments: tuple[str, int, int, int], seconds: float, barrier: Any, results: Any) -> None:
    """Count the operations of one process in this number of seconds, at the same time as the others."""
    worker = WorkerOperations(*arguments)
    for name in OPERATIONS:
        operation = getattr(worker, name)
        operation()
        worker.heartbeat()
        barrier.wait()
        count, until = 0, time.monotonic() + seconds
        while time.monotonic() < until:
            operation()
            count += 1
        results.put((name, count / seconds))
        barrier.wait()


def measure_rates(kind: str, processes: int, seconds: float, rounds: int) -> dict[str, dict[str, float]]:
    """Return the operations per second of this number of processes together."""
    rates_by_operation: dict[str, list[float]] = {operation: [] for operation in OPERATIONS}
    with database(kind) as url, closing(open_and_upgrade_ledger(url)) as ledger:
        study_id = start_study_with_points(ledger, 1 + processes // SEEDS)
        trials = list_open_trials(ledger, study_id)[:processes]
        workers = [
            (url, number, study_id, ledger.attempts.claim_trial(trial, RUNNER)) for number, trial in enumerate(trials)
        ]
        for _ in range(rounds):
            ledger.attempts.record_heartbeats([token for *_, token in workers], study_id, RUNNER)
            for operation, rate in _run_round(workers, seconds).items():
                rates_by_operation[operation].append(rate)
    return {operation: spread(values) for operation, values in rates_by_operation.items()}


def _run_round(workers: list[tuple[str, int, int, int]], seconds: float) -> dict[str, float]:
    context = get_context("spawn")
    barrier, results = context.Barrier(len(workers)), context.Queue()
    processes = [context.Process(target=run_operations, args=(worker, seconds, barrier, results)) for worker in workers]
    for process in processes:
        process.start()
    totals = dict.fromkeys(OPERATIONS, 0.0)
    for _ in range(len(workers) * len(OPERATIONS)):
        operation, rate = results.get()
        totals[operation] += rate
    for process in processes:
        process.join()
    return totals
