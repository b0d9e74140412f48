"""Scaling with trials, rows, workers and events: capacity of one core, one database and one driver.

trials: seconds of wall time and of the driver's processor a trial, over trials that train for an instant; the first
of each run are left out, as their processes start. rows: the ranked table of one study of so many evaluations, out of
SQLite. results: what one trial leaves in the database, 32 evaluations with the outcomes of 10,000 examples each.
workers, events: how often a second processes that do nothing else speak to the database, all of them together, on
this machine, which they share with it. Rates are medians of rounds with the smallest and the largest.

`python -m bench.documents.growing` reckons from these how many workers or readers one database bears.
"""

from __future__ import annotations

import os
import tempfile
import time
from contextlib import closing
from pathlib import Path
from typing import Any

from bench.growth_ledger import EXAMPLES, KINDS, rates, results_of_a_trial, table_of
from bench.reporting import arguments, finish, spread
from bench.service import WORDS
from bln_search.core.checkpoints import Folder
from bln_search.core.states import StudyState
from bln_search.execution.environment import ExecutionEnvironment
from bln_search.execution.executors.base import Executor
from bln_search.execution.executors.local import LocalExecutor
from bln_search.execution.messages import EvaluationDone, Message
from bln_search.specs import TrialSpec, parse_study
from bln_search.storage.ledger import open_ledger
from bln_search.worker import run_study

STUDY = """
name: instant
data: {{name: digits, fraction: 0.2, validation: 200}}
model: {{name: mlp, widths: [4]}}
arms: [{{method: bln}}]
training: {{epochs: 1}}
seeds: [{seeds}]
"""


class Ends:
    """Records the end of each trial and the processor seconds of this process."""

    def __init__(self) -> None:
        self.moments: list[tuple[float, float]] = []

    def on_start(self, trials: int) -> None:
        """Do nothing."""

    def on_message(self, trial: TrialSpec, message: Message) -> None:  # noqa: ARG002
        """Record the end of a trial."""
        if isinstance(message, EvaluationDone):
            self.moments.append((time.monotonic(), time.process_time()))


def instant_trials(place: ExecutionEnvironment, executor: Executor, trials: int) -> tuple[float, float]:
    """Return wall and processor seconds per trial, from the first quarter of the trials to the last."""
    study = parse_study(STUDY.format(seeds=", ".join(str(seed) for seed in range(trials))))
    place.cache.parent.mkdir(parents=True, exist_ok=True)
    with closing(open_ledger(f"sqlite:///{place.cache.parent / 'ledger.sqlite3'}")) as ledger:
        ends = Ends()
        state = run_study(ledger, ledger.studies.accept(study), executor, ends)
        assert state is StudyState.COMPLETE, ledger.studies.find("instant")
    first, last = ends.moments[trials // 4], ends.moments[-1]
    done = trials - 1 - trials // 4
    return (last[0] - first[0]) / done, (last[1] - first[1]) / done


def driven(workers: int, trials: int, rounds: int, *, on_ray: bool) -> dict[str, Any]:
    """Return the same over several studies, one after another."""
    found = []
    for _ in range(rounds):
        with tempfile.TemporaryDirectory() as folder:
            home = Path(folder)
            place = ExecutionEnvironment(home / "data", home / "cache", Folder(home / "checkpoints"))
            if on_ray:
                from bln_search.execution.executors.ray.executor import RayExecutor

                with RayExecutor(place, workers) as executor:
                    found.append(instant_trials(place, executor, trials))
            else:
                found.append(instant_trials(place, LocalExecutor(place, workers), trials))
    wall, driver = zip(*found, strict=True)
    return {"seconds": spread(list(wall)), "driver_seconds": spread(list(driver))}


def trials_of(quick: bool) -> dict[str, Any]:  # noqa: FBT001 - of the command line
    """Measure every executor and number of parallel trials."""
    trials, rounds = (24, 1) if quick else (96, 3)
    found: dict[str, Any] = {}
    for name, workers, on_ray in (("local 1", 1, False), ("local 2", 2, False), ("ray 2", 2, True)):
        found[name] = one = driven(workers, trials, rounds, on_ray=on_ray)
        whole, own = (1000 * one[part]["median"] for part in ("seconds", "driver_seconds"))
        print(f"{name}: {whole:.0f} ms a trial, of the driver's processor {own:.0f} ms", flush=True)
    return {"trials": found, "trials_each": trials}


def rows_of(quick: bool) -> list[dict[str, Any]]:  # noqa: FBT001 - of the command line
    """Measure the leaderboard of studies of increasing size."""
    found = []
    for count in (1_000, 10_000) if quick else (1_000, 10_000, 100_000, 800_000):
        found.append(table_of(count, 2 if quick else 3))
        last = found[-1]
        print(
            f"{last['rows']} rows: {last['seconds']['median']:.3f} s, {last['bytes_a_row']:.0f} bytes each", flush=True
        )
    return found


def spoken_of(quick: bool) -> dict[str, Any]:  # noqa: FBT001 - of the command line
    """Measure the operations per second of each database by workers and readers."""
    seconds, rounds = (0.5, 1) if quick else (1.5, 3)
    found: dict[str, Any] = {kind: {} for kind in KINDS}
    for kind in KINDS:
        for processes in (1, 4) if quick else (1, 8):
            found[kind][str(processes)] = by = rates(kind, processes, seconds, rounds)
            text = ", ".join(f"{act} {one['median']:.0f}" for act, one in by.items())
            print(f"{kind}, {processes} processes, a second: {text}", flush=True)
    return found


def main() -> None:
    options = arguments(__doc__ or "").parse_args()
    load = os.getloadavg()[0]
    result = {**trials_of(options.quick), "rows": rows_of(options.quick)}
    result["results"] = {kind: results_of_a_trial(kind, 4 if options.quick else 20) for kind in KINDS}
    for kind, one in result["results"].items():
        print(
            f"{kind}: {one['seconds']['median']:.3f} s and {one['bytes']:.0f} bytes for the results of a trial",
            flush=True,
        )
    result |= {"examples": EXAMPLES, "evaluations": 2 * len(WORDS), "a_second": spoken_of(options.quick)}
    result["load"] = [load, os.getloadavg()[0]]
    finish("growth", result, save=options.save)


if __name__ == "__main__":
    main()
