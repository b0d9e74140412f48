"""Scaling with trials, rows, workers and events: capacity of one core, one database and one driver.

- trials: wall seconds and processor seconds of the driver per trial, over trials of negligible duration; the first
  quarter of each run is excluded, because processes start then.
- rows: the leaderboard of one study by its number of evaluations, from SQLite.
- results: what one trial stores, 32 evaluations with the outcomes of 10,000 examples each.
- workers, events: database operations per second of all processes together, which do nothing else and share this
  machine with the database.
- new_result, a file of its own: time until the leaderboard that the service holds contains a new result, against
  computing it anew; SQLite, a study with 800,000 evaluations of 25,000 trials.

Rates are medians of rounds with the smallest and the largest. The template of docs/growing.md computes from
these how many workers one database sustains.
"""

from __future__ import annotations

import os
import random
from contextlib import closing
from functools import partial
from typing import Any

from bench.support.database_rates import measure_rates
from bench.support.ledgers import (
    CONFIGURATIONS,
    KINDS,
    RUNNER,
    SEEDS,
    TrialEnds,
    database,
    list_open_trials,
    start_study_with_points,
    store_evaluations,
    temporary_environment,
)
from bench.support.null_executor import make_evaluations
from bench.support.reporting import finish, make_parser, spread
from bench.support.timing import time_call
from bln_search.core.records import CheckpointRecord, Evaluation
from bln_search.core.states import StudyState
from bln_search.execution.environment import ExecutionEnvironment
from bln_search.execution.executors.base import Executor
from bln_search.execution.executors.local import LocalExecutor
from bln_search.specs import parse_study
from bln_search.storage.ledger import Ledger, open_and_upgrade_ledger
from bln_search.worker import run_study
from service.caching.leaderboard_cache import LeaderboardCache

EXAMPLES = 10_000
EVALUATIONS = 2 * len(CONFIGURATIONS)
"""Evaluations of a trial: every configuration on two splits."""

STUDY = """
name: instant
data: {{name: digits, fraction: 0.2, validation: 200}}
model: {{name: mlp, widths: [4]}}
arms: [{{method: bln}}]
training: {{epochs: 1}}
seeds: [{seeds}]
"""


def measure_instant_trials(url: str, executor: Executor, trials: int) -> tuple[float, float]:
    """Return wall and processor seconds per trial, from the first quarter of the trials to the last."""
    study = parse_study(STUDY.format(seeds=", ".join(str(seed) for seed in range(trials))))
    with closing(open_and_upgrade_ledger(url)) as ledger:
        ends = TrialEnds()
        state = run_study(ledger, ledger.studies.store_study_once(study), executor, ends)
        assert state is StudyState.COMPLETE, ledger.studies.get_by_name_or_id("instant")
    first, count = trials // 4, trials - 1 - trials // 4
    wall, processor = ((values[-1] - values[first]) / count for values in (ends.moments, ends.processor))
    return wall, processor


def measure_with_executor(
    name: str, workers: int, environment: ExecutionEnvironment, url: str, trials: int
) -> tuple[float, float]:
    """Return wall and processor seconds per instant trial with an executor."""
    if name == "local":
        return measure_instant_trials(url, LocalExecutor(environment, workers), trials)
    from bln_search.execution.executors.ray.executor import RayExecutor

    with RayExecutor(environment, workers) as executor:
        return measure_instant_trials(url, executor, trials)


def measure_trials(trials: int, rounds: int) -> dict[str, Any]:
    """Measure every executor and number of parallel trials, each over several studies one after another."""
    timings: dict[str, Any] = {}
    for name, workers in (("local", 1), ("local", 2), ("ray", 2)):
        measured = []
        for _ in range(rounds):
            with temporary_environment() as (url, environment):
                measured.append(measure_with_executor(name, workers, environment, url, trials))
        wall, driver = ([1000 * values[part] for values in measured] for part in (0, 1))
        timings[f"{name} {workers}"] = {
            "seconds": spread([value / 1000 for value in wall]),
            "driver_seconds": spread([value / 1000 for value in driver]),
        }
        print(
            f"{name} {workers}: {spread(wall)} ms per trial, {spread(driver)} ms of the driver's processor", flush=True
        )
    return {"trials": timings, "trials_each": trials}


def count_points(evaluations: int) -> int:
    """Return the points of a study with about this number of evaluations."""
    return max(1, round(evaluations / (SEEDS * EVALUATIONS)))


def measure_leaderboard(evaluations: int, runs: int) -> dict[str, Any]:
    """Return seconds for the leaderboard of a study with this number of evaluations, and the size of the database."""
    points = count_points(evaluations)
    with database("sqlite") as url, closing(open_and_upgrade_ledger(url)) as ledger:
        study_id = start_study_with_points(ledger, points)
        trials = list_open_trials(ledger, study_id)
        store_evaluations(ledger, trials, random.Random(0))
        rank_rows = partial(ledger.results.rank_rows_of_study, study_id, ledger.studies.get(study_id).spec)
        rows, size = len(trials) * EVALUATIONS, measure_size(ledger)
        measured = {
            "rows": rows,
            "ranked": points * len(CONFIGURATIONS),
            "seconds": spread([time_call(rank_rows) for _ in range(runs)]),
            "bytes_a_row": size / rows,
        }
    print(f"{rows} rows: {measured['seconds']} s, {size / rows:.0f} bytes each", flush=True)
    return measured


def measure_trial_results(kind: str, trials: int) -> dict[str, Any]:
    """Return seconds and bytes of a trial's results: 32 evaluations with the outcomes of 10,000 examples each."""
    with database(kind) as url, closing(open_and_upgrade_ledger(url)) as ledger:
        study_id = start_study_with_points(ledger, -(-trials // SEEDS))
        size_before = measure_size(ledger)
        seconds = []
        for number, trial in enumerate(list_open_trials(ledger, study_id)[:trials]):
            finish_trial = prepare_end_of_trial(ledger, trial, make_evaluations(EXAMPLES, number))
            seconds.append(time_call(finish_trial))
        bytes_per_trial = (measure_size(ledger) - size_before) / trials
    print(f"{kind}: {spread(seconds)} s and {bytes_per_trial:.0f} bytes per trial result", flush=True)
    return {"seconds": spread(seconds), "bytes": bytes_per_trial, "trials": trials}


def prepare_end_of_trial(ledger: Ledger, trial: int, evaluations: tuple[Evaluation, ...]) -> partial[None]:
    """Store a checkpoint of a trial; return the function that stores its evaluations, as its driver does."""
    token = ledger.attempts.claim_trial(trial, RUNNER)
    assert token is not None
    ledger.attempts.record_checkpoint(token, CheckpointRecord("x.safetensors", "0" * 64, 1, "FFFF", 0.5, {}))
    return partial(ledger.attempts.finish_trial, token, evaluations)


def measure_size(ledger: Ledger) -> int:
    """Return the size of the database on disk."""
    return ledger.monitoring.measure_ledger_metrics().size


def measure_operations(*, quick: bool) -> dict[str, Any]:
    """Measure the operations per second of each database by workers and readers."""
    seconds, rounds = (0.5, 1) if quick else (1.5, 3)
    by_database: dict[str, Any] = {kind: {} for kind in KINDS}
    for kind in KINDS:
        for processes in (1, 4) if quick else (1, 8):
            by_database[kind][str(processes)] = by_operation = measure_rates(kind, processes, seconds, rounds)
            text = ", ".join(f"{operation} {rate['median']:.0f}" for operation, rate in by_operation.items())
            print(f"{kind}, {processes} processes, a second: {text}", flush=True)
    return by_database


def measure_new_results(evaluations: int, new_results: int) -> dict[str, Any]:
    """Return seconds to read a leaderboard: the first time, after each new result, and anew."""
    with database("sqlite") as url, closing(open_and_upgrade_ledger(url)) as ledger:
        study_id = start_study_with_points(ledger, count_points(evaluations))
        trials = list_open_trials(ledger, study_id)
        open_trials, finished = trials[:new_results], len(trials) - new_results
        store_evaluations(ledger, trials[new_results:], random.Random(0))
        cache = LeaderboardCache(ledger)
        first_seconds = time_call(partial(cache.get_or_compute, study_id, finished))
        seconds = []
        for number, trial in enumerate(open_trials, start=1):
            prepare_end_of_trial(ledger, trial, make_evaluations(0, number))()
            seconds.append(time_call(partial(cache.get_or_compute, study_id, finished + number)))
        new_cache = LeaderboardCache(ledger)
        seconds_anew = time_call(partial(new_cache.get_or_compute, study_id, len(trials)))
        board, expected = (each.get_or_compute(study_id, len(trials)).leaderboard for each in (cache, new_cache))
        assert board == expected
    return {
        "evaluations": len(trials) * EVALUATIONS,
        "ranked_rows": len(expected.rows),
        "first_seconds": first_seconds,
        "new_result_seconds": spread(seconds),
        "new_results": new_results,
        "anew_seconds": seconds_anew,
    }


def main() -> None:
    quick = (options := make_parser(__doc__ or "").parse_args()).quick
    load = os.getloadavg()[0]
    result = measure_trials(*((24, 1) if quick else (96, 3)))
    sizes = (1_000, 10_000) if quick else (1_000, 10_000, 100_000, 800_000)
    result["rows"] = [measure_leaderboard(size, 2 if quick else 3) for size in sizes]
    result["results"] = {kind: measure_trial_results(kind, 4 if quick else 20) for kind in KINDS}
    result |= {"examples": EXAMPLES, "evaluations": EVALUATIONS, "a_second": measure_operations(quick=quick)}
    result["load"] = [load, os.getloadavg()[0]]
    new_results = measure_new_results(*((100_000, 5) if quick else (800_000, 9)))
    finish("new_result", new_results, save=options.save)
    finish("growth", result, save=options.save)


if __name__ == "__main__":
    main()
