"""Operations per second that processes without other work make on one database."""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import closing
from functools import partial
from multiprocessing import get_context
from typing import Any

from bench.support.ledgers import RUNNER, SEEDS, database, list_open_trials, start_study_with_points
from bench.support.reporting import spread
from bln_search.core.records import EpochRecord
from bln_search.storage.engine import make_engine
from bln_search.storage.ledger import Ledger, open_and_upgrade_ledger

OPERATIONS = ("heartbeat", "claim", "look", "append", "append_twenty")


def make_operations(url: str, number: int, study_id: int, token: int) -> dict[str, Callable[[], object]]:
    """Return the database operations of a worker; `claim` asks an empty queue, `look` for a stop request."""
    ledger, epoch = Ledger(make_engine(url)), EpochRecord(1, 0.5, 0.5, 0.6, 0.5, 0.05)
    return {
        "heartbeat": partial(ledger.attempts.record_heartbeats, [token], study_id, RUNNER),
        "claim": partial(ledger.queue.claim_next_study, f"bench/{number}/0", lambda _: True, 4),
        "look": partial(ledger.studies.find_stop_request, study_id, RUNNER),
        "append": partial(ledger.attempts.record_epochs, token, [epoch]),
        "append_twenty": partial(ledger.attempts.record_epochs, token, [epoch] * 20),
    }


def run_operations(arguments: tuple[str, int, int, int], seconds: float, barrier: Any, results: Any) -> None:
    """Count the operations of one process in this number of seconds, at the same time as the others."""
    operations = make_operations(*arguments)
    for name in OPERATIONS:
        operations[name]()
        operations["heartbeat"]()
        barrier.wait()
        count, until = 0, time.monotonic() + seconds
        while time.monotonic() < until:
            operations[name]()
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
