"""Scaling with trials, rows, workers and events: capacity of one core, one database and one driver.

- trials: wall seconds and processor seconds of the driver per trial, over trials of negligible duration; the first
  quarter of each run is excluded, because processes start then.
- rows: the leaderboard of one study by its number of evaluations, from SQLite.
- results: what one trial stores, 32 evaluations with the outcomes of 10,000 examples each.
- workers, events: database operations per second of all processes together, which do nothing else and share this
  machine with the database.

Rates are medians of rounds with the smallest and the largest. The template of docs/growing.md computes from
these how many workers one database sustains.
"""

from __future__ import annotations

import os
import tempfile
import time
from contextlib import closing
from pathlib import Path
from typing import Any

from bench.support.growth_ledger import EXAMPLES, KINDS, measure_leaderboard, measure_rates, measure_trial_results
from bench.support.reporting import finish, make_parser, spread
from bench.support.synthetic_studies import CONFIGURATIONS
from bln_search.core.checkpoints import FolderStore
from bln_search.core.states import StudyState
from bln_search.execution.environment import ExecutionEnvironment
from bln_search.execution.executors.base import Executor
from bln_search.execution.executors.local import LocalExecutor
from bln_search.execution.messages import EvaluationDone, Message
from bln_search.specs import TrialSpec, parse_study
from bln_search.storage.ledger import open_and_upgrade_ledger
from bln_search.worker import run_study

STUDY = """
name: instant
data: {{name: digits, fraction: 0.2, validation: 200}}
model: {{name: mlp, widths: [4]}}
arms: [{{method: bln}}]
training: {{epochs: 1}}
seeds: [{seeds}]
"""


class EndRecorder:
    """Records the end of each trial and the processor seconds of this process."""

    def __init__(self) -> None:
        self.moments: list[tuple[float, float]] = []

    def on_run_start(self, trials: int) -> None:
        """Do nothing."""

    def on_message(self, trial: TrialSpec, message: Message) -> None:  # noqa: ARG002
        """Record the end of a trial."""
        if isinstance(message, EvaluationDone):
            self.moments.append((time.monotonic(), time.process_time()))


def measure_instant_trials(environment: ExecutionEnvironment, executor: Executor, trials: int) -> tuple[float, float]:
    """Return wall and processor seconds per trial, from the first quarter of the trials to the last."""
    study = parse_study(STUDY.format(seeds=", ".join(str(seed) for seed in range(trials))))
    environment.cache.parent.mkdir(parents=True, exist_ok=True)
    with closing(open_and_upgrade_ledger(f"sqlite:///{environment.cache.parent / 'ledger.sqlite3'}")) as ledger:
        recorder = EndRecorder()
        state = run_study(ledger, ledger.studies.store_study_once(study), executor, recorder)
        assert state is StudyState.COMPLETE, ledger.studies.get_by_name_or_id("instant")
    first, last = recorder.moments[trials // 4], recorder.moments[-1]
    timed_trials = trials - 1 - trials // 4
    return (last[0] - first[0]) / timed_trials, (last[1] - first[1]) / timed_trials


def measure_driver(workers: int, trials: int, rounds: int, *, on_ray: bool) -> dict[str, Any]:
    """Measure instant trials over several studies, one after another."""
    measured = []
    for _ in range(rounds):
        with tempfile.TemporaryDirectory() as folder:
            home = Path(folder)
            environment = ExecutionEnvironment(home / "data", home / "cache", FolderStore(home / "checkpoints"))
            if on_ray:
                from bln_search.execution.executors.ray.executor import RayExecutor

                with RayExecutor(environment, workers) as executor:
                    measured.append(measure_instant_trials(environment, executor, trials))
            else:
                measured.append(measure_instant_trials(environment, LocalExecutor(environment, workers), trials))
    wall, driver = zip(*measured, strict=True)
    return {"seconds": spread(list(wall)), "driver_seconds": spread(list(driver))}


def measure_trials(quick: bool) -> dict[str, Any]:  # noqa: FBT001 - a flag of the command line
    """Measure every executor and number of parallel trials."""
    trials, rounds = (24, 1) if quick else (96, 3)
    timings: dict[str, Any] = {}
    for name, workers, on_ray in (("local 1", 1, False), ("local 2", 2, False), ("ray 2", 2, True)):
        timings[name] = timing = measure_driver(workers, trials, rounds, on_ray=on_ray)
        wall, processor = (1000 * timing[part]["median"] for part in ("seconds", "driver_seconds"))
        print(f"{name}: {wall:.0f} ms per trial, {processor:.0f} ms of the driver's processor", flush=True)
    return {"trials": timings, "trials_each": trials}


def measure_leaderboards(quick: bool) -> list[dict[str, Any]]:  # noqa: FBT001 - a flag of the command line
    """Measure the leaderboard of studies of increasing size."""
    measured = []
    for count in (1_000, 10_000) if quick else (1_000, 10_000, 100_000, 800_000):
        measured.append(measure_leaderboard(count, 2 if quick else 3))
        last = measured[-1]
        print(
            f"{last['rows']} rows: {last['seconds']['median']:.3f} s, {last['bytes_a_row']:.0f} bytes each", flush=True
        )
    return measured


def measure_operations(quick: bool) -> dict[str, Any]:  # noqa: FBT001 - a flag of the command line
    """Measure the operations per second of each database by workers and readers."""
    seconds, rounds = (0.5, 1) if quick else (1.5, 3)
    by_database: dict[str, Any] = {kind: {} for kind in KINDS}
    for kind in KINDS:
        for processes in (1, 4) if quick else (1, 8):
            by_database[kind][str(processes)] = by_operation = measure_rates(kind, processes, seconds, rounds)
            text = ", ".join(f"{operation} {rate['median']:.0f}" for operation, rate in by_operation.items())
            print(f"{kind}, {processes} processes, a second: {text}", flush=True)
    return by_database


def main() -> None:
    options = make_parser(__doc__ or "").parse_args()
    load = os.getloadavg()[0]
    result = {**measure_trials(options.quick), "rows": measure_leaderboards(options.quick)}
    result["results"] = {kind: measure_trial_results(kind, 4 if options.quick else 20) for kind in KINDS}
    for kind, measured in result["results"].items():
        print(
            f"{kind}: {measured['seconds']['median']:.3f} s and {measured['bytes']:.0f} bytes per trial result",
            flush=True,
        )
    result |= {
        "examples": EXAMPLES,
        "evaluations": 2 * len(CONFIGURATIONS),
        "a_second": measure_operations(options.quick),
    }
    result["load"] = [load, os.getloadavg()[0]]
    finish("growth", result, save=options.save)


if __name__ == "__main__":
    main()
