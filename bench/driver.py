"""Capacity of the driver and its database: many live trials whose messages are invented.

A null executor answers the tasks of a real run with valid messages at a given rate. The run, the ledger, events,
leases and tables are real. Each run reports:

- trials per second; with --rate 0 trials end at once, so that the driver is the limit
- latency of epochs, from their end to the commit that stores them: median and 99th percentile
- leases that expired before they were renewed, and the longest time without a renewal
- share of one core that the driver uses, with the invention of the messages
- what the database has less than was sent, and gaps in the numbers of the events

A proxy delays each round trip to Postgres by --delay-ms. --key names the entry of the result file.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from typing import Any

import numpy as np
from sqlalchemy import create_engine, func, select, text
from sqlalchemy.engine import make_url
from sqlalchemy.orm import Session

from bench.support.delaying_proxy import delaying_proxy
from bench.support.ledgers import KINDS, SEEDS, STUDY, TrialEnds, database
from bench.support.null_executor import EVALUATIONS, NullExecutor
from bench.support.observed_attempts import ObservedAttempts
from bench.support.reporting import finish, make_parser, provenance, read_result
from bln_search.core.states import StudyState, TrialState
from bln_search.specs import parse_study
from bln_search.storage.ledger import Ledger, open_and_upgrade_ledger
from bln_search.storage.tables import AttemptRow, EvaluationRow, EventRow, OutcomesRow, StudyRow, TrialRow
from bln_search.worker import run_study

_ROUND_TRIPS = 50
_MAX_POINTS = 5_000


@contextmanager
def delayed_database(kind: str, delay: float) -> Iterator[str]:
    """Yield the URL of an empty database whose round trips take `delay` seconds longer."""
    with database(kind) as url:
        if not delay:
            yield url
            return
        parsed = make_url(url)
        folder = parsed.query["host"]
        with delaying_proxy(f"{folder}/.s.PGSQL.5432", delay) as port:
            query = {"sslmode": "disable", "gssencmode": "disable"}
            yield parsed.set(host="127.0.0.1", port=port, query=query).render_as_string(hide_password=False)


def measure_round_trip(url: str) -> float:
    """Return the median seconds of a statement that does nothing."""
    engine = create_engine(url)
    seconds = []
    with engine.connect() as connection:
        for _ in range(_ROUND_TRIPS):
            start = time.perf_counter()
            connection.execute(text("SELECT 1"))
            seconds.append(time.perf_counter() - start)
    engine.dispose()
    return statistics.median(seconds)


def measure_run(options: argparse.Namespace) -> dict[str, Any]:
    """Run one study with the null executor; return what was seen."""
    seconds = options.live / options.rate if options.rate else 0.0
    with delayed_database(options.database, options.delay_ms / 1000) as url:
        round_trip = measure_round_trip(url)
        with closing(open_and_upgrade_ledger(url)) as ledger:
            study_id = ledger.studies.store_study_once(parse_study(make_study(options.trials)))
            executor = NullExecutor(options.live, options.epochs, seconds, options.examples)
            ledger.attempts = attempts = ObservedAttempts(ledger.database, executor)
            start, processor = time.monotonic(), time.process_time()
            state = run_study(ledger, study_id, executor, TrialEnds())
            wall, processor = time.monotonic() - start, time.process_time() - processor
            assert state is StudyState.COMPLETE, state
            missing = count_missing(ledger, study_id, executor, with_outcomes=options.examples > 0)
    return {
        "database": options.database,
        "round_trip_ms": 1000 * round_trip,
        **{name: getattr(options, name) for name in ("delay_ms", "live", "trials", "epochs", "rate", "examples")},
        "seconds": wall,
        "trials_per_second": executor.sent["trials"] / wall,
        "epoch_latency_p50": float(np.percentile(attempts.latencies, 50)),
        "epoch_latency_p99": float(np.percentile(attempts.latencies, 99)),
        "epoch_latency_max": max(attempts.latencies),
        "leases_missed": len(attempts.missed),
        "longest_time_without_renewal": attempts.longest_gap,
        "cores": processor / wall,
        "processor_seconds_per_trial": processor / executor.sent["trials"],
        "memory_mb": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024,
        "missing": missing,
    }


def make_study(trials: int) -> str:
    """Return a study with at least this number of trials; large ones have more seeds, as points are limited."""
    seeds = max(SEEDS, -(-trials // _MAX_POINTS))
    learning_rates = [round(1e-4 * 1.0001**index, 12) for index in range(-(-trials // seeds))]
    return STUDY.format(rates=learning_rates).replace("seeds: [0, 1, 2, 3, 4]", f"seeds: {list(range(seeds))}")


def count_missing(ledger: Ledger, study_id: int, executor: NullExecutor, *, with_outcomes: bool) -> dict[str, int]:
    """Return what the database has less (negative: more) than was sent, and the gaps in the events."""
    sent = executor.sent
    finished = (TrialRow.study_id == study_id, TrialRow.state == TrialState.FINISHED)
    counts = {
        "trials": sent["trials"] - _count(ledger, TrialRow, *finished),
        "attempts": sent["trials"] - _count(ledger, AttemptRow),
        "epochs": sent["epochs"] - _count(ledger, EventRow, EventRow.study_id == study_id, EventRow.kind == "epoch"),
        "evaluations": sent["evaluations"] - _count(ledger, EvaluationRow),
        "outcomes": (sent["trials"] * EVALUATIONS if with_outcomes else 0) - _count(ledger, OutcomesRow),
    }
    with ledger.database.read_session() as session:
        study = session.get_one(StudyRow, study_id)
        counts["results"] = sent["trials"] - study.results
        numbers = select(func.count(EventRow.number.distinct()), func.min(EventRow.number), func.max(EventRow.number))
        count, first, last = session.execute(numbers.where(EventRow.study_id == study_id)).one()
        counts["event_numbers"] = last - count + first - 1 + study.last_event - last
    return counts


def _count(ledger: Ledger, table: Any, *conditions: Any) -> int:
    with Session(ledger.database.engine) as session:
        return session.scalar(select(func.count()).select_from(table).where(*conditions)) or 0


QUICK = [("sqlite", 0, 100, 500, 0), ("postgres", 0, 100, 500, 0), ("postgres", 5, 100, 100, 0)]
"""Database, delay (ms), live trials, trials, rate (per second)."""

FULL = [
    ("sqlite", 0, 100, 1_000, 0),
    ("sqlite", 0, 1_000, 3_000, 50),
    ("postgres", 0, 100, 1_000, 0),
    ("postgres", 0, 1_000, 3_000, 50),
    *(("postgres", delay, 100, 500, 0) for delay in (1, 5, 20)),
    *(("postgres", delay, 1_000, 3_000, 50) for delay in (1, 5, 20)),
]


def run_in_own_process(options: argparse.Namespace, run: tuple[str, int, int, int, int]) -> dict[str, Any]:
    """Measure one run in a process of its own, so that processor and memory are those of the driver."""
    kind, delay, live, trials, rate = run
    command = [sys.executable, "-m", "bench.driver", "--database", kind, "--delay-ms", str(delay)]
    command += ["--live", str(live), "--trials", str(trials), "--rate", str(rate)]
    command += ["--epochs", str(options.epochs), "--examples", str(options.examples)]
    process = subprocess.run(command, stdout=subprocess.PIPE, check=True)
    measured: dict[str, Any] = json.loads(process.stdout.splitlines()[-1])
    return measured


def describe(run: dict[str, Any]) -> str:
    """Return one line for people."""
    return (
        f"{run['database']}, {run['round_trip_ms']:.2f} ms a round trip, {run['live']} live, {run['trials']} trials, "
        f"rate {run['rate']:g}: {run['trials_per_second']:.1f} trials/s, epochs p50 {run['epoch_latency_p50']:.2f} s, "
        f"p99 {run['epoch_latency_p99']:.2f} s, leases missed {run['leases_missed']} (longest "
        f"{run['longest_time_without_renewal']:.0f} s), {run['cores']:.2f} cores, missing {run['missing']}"
    )


def main() -> None:
    parser = make_parser(__doc__ or "")
    parser.add_argument("--database", choices=KINDS, help="one run with this database; by default a list of runs")
    parser.add_argument("--delay-ms", type=float, default=0.0, help="added to each round trip to Postgres")
    parser.add_argument("--live", type=int, default=100)
    parser.add_argument("--trials", type=int, default=1_000)
    parser.add_argument("--epochs", type=int, default=10)
    parser.add_argument("--rate", type=float, default=0.0, help="trials per second that end; 0: as many as possible")
    parser.add_argument("--examples", type=int, default=0, help="examples of the outcomes of each evaluation")
    parser.add_argument("--key", default="now", help="entry of the result file")
    options = parser.parse_args()
    load = os.getloadavg()[0]
    if options.database:
        runs = [measure_run(options)]
        print(describe(runs[0]), flush=True)
        if not options.save:
            print(json.dumps(runs[0]))
            return
    else:
        runs = []
        for run in QUICK if options.quick else FULL:
            runs.append(run_in_own_process(options, run))
            print(describe(runs[-1]), flush=True)
    saved = read_result("driver")
    entries = saved["result"] if saved is not None else {}
    earlier = entries.get(options.key, {"runs": []})["runs"]
    entry = {"runs": [*earlier, *runs], "load": [load, os.getloadavg()[0]], "provenance": provenance()}
    finish("driver", {**entries, options.key: entry}, save=options.save)


if __name__ == "__main__":
    main()
