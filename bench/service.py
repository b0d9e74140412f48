"""Latency of the service: 100,000 evaluations in one database, 16 clients without pauses; and its cost for a study.

The service and its clients share this machine. Every client asks for the first page of a ranked table of a study drawn
at random (no ETag is sent, nothing is answered with 304), then all of them for the list of studies. Milliseconds from
the first byte sent to the last byte read, the 95th percentile over every request. `overhead` is the time of a short
study from acceptance to completion, through the service over `bln-search run`, less one.
"""

from __future__ import annotations

import argparse
import http.client
import json
import random
import statistics
import tempfile
import threading
import time
from collections import Counter
from contextlib import closing
from multiprocessing import get_context
from pathlib import Path
from typing import Any

from bench.support.ledgers import (
    CONFIGURATIONS,
    RUNNER,
    list_open_trials,
    mark_finished,
    start_study,
    store_evaluations,
)
from bench.support.processes import environment_of, run_service, run_study_in_process, seconds_of_study, serve
from bench.support.reporting import finish, make_parser, spread
from bln_search.client import Client
from bln_search.core.enums import Scope
from bln_search.settings import Settings
from bln_search.specs import parse_study
from bln_search.storage.ledger import Ledger, open_and_upgrade_ledger

Address = tuple[str, int]
CLIENTS = 16
SEEDS = 16
EVALUATIONS_PER_STUDY = SEEDS * 2 * len(CONFIGURATIONS) * 2
"""Of every trial (seeds and two arms), under every configuration, on both splits."""

STUDY = """
name: study{number}
data: {{name: digits}}
model: {{name: mlp}}
arms: [{{method: bln}}, {{method: bln, name: other, judged_under: TTTT, population: [epoch]}}]
seeds: [{seeds}]
"""
SHORT_STUDY = """
name: minute
data: {{name: digits}}
model: {{name: mlp, widths: [128, 64]}}
arms: [{{method: bln}}]
training: {{epochs: {epochs}, batch_size: 25}}
seeds: [0, 1, 2, 3]
"""


def create_studies(ledger: Ledger, rows: int) -> list[int]:
    """Create finished studies with this total number of evaluations; return their ids."""
    study_ids, rng = [], random.Random(0)
    for number in range(-(-rows // EVALUATIONS_PER_STUDY)):
        study_id = start_study(ledger, STUDY.format(number=number, seeds=", ".join(map(str, range(SEEDS)))))
        trials = list_open_trials(ledger, study_id)
        store_evaluations(ledger, trials, rng)
        mark_finished(ledger, study_id, trials)
        ledger.studies.finish_run(study_id, runner=RUNNER)
        study_ids.append(study_id)
    return study_ids


def run_clients(host: str, port: int, secret: str, paths: list[str], seconds: float, results: Any) -> None:
    """Send requests from sixteen threads, each with one connection and without pauses."""
    times: list[float] = []
    errors: list[int] = []
    deadline = time.monotonic() + seconds

    def run_client(number: int) -> None:
        rng = random.Random(number)
        with closing(http.client.HTTPConnection(host, port, timeout=30)) as connection:
            while time.monotonic() < deadline:
                start = time.perf_counter()
                connection.request("GET", rng.choice(paths), headers={"Authorization": f"Bearer {secret}"})
                response = connection.getresponse()
                response.read()
                times.append(1000 * (time.perf_counter() - start))
                if response.status != 200:
                    errors.append(response.status)

    threads = [threading.Thread(target=run_client, args=(number,)) for number in range(CLIENTS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    results.put((times, errors))


def measure(address: Address, secret: str, paths: list[str], seconds: float) -> tuple[list[float], list[int]]:
    """Return latencies and errors of sixteen clients, which run in a separate process."""
    context = get_context("spawn")
    results = context.Queue()
    process = context.Process(target=run_clients, args=(*address, secret, paths, seconds, results))
    process.start()
    measurements: tuple[list[float], list[int]] = results.get()
    process.join()
    return measurements


def measure_latencies(database: str | None, rows: int, seconds: float, rounds: int) -> dict[str, Any]:
    """Return the measurements for one database."""
    with tempfile.TemporaryDirectory() as folder:
        home = Path(folder)
        url = database or Settings(home=home).database_url
        with closing(open_and_upgrade_ledger(url)) as ledger:
            study_ids = create_studies(ledger, rows)
            secret, _ = ledger.tokens.create_token("bench", Scope.READ)
        start = time.monotonic()
        with serve(home, url) as address:
            start_seconds = time.monotonic() - start
            boards = [f"/api/v1/studies/{number}/leaderboard" for number in study_ids]
            paths_by_list = {"leaderboard": boards, "studies": ["/api/v1/studies"]}
            latencies: dict[str, list[float]] = {name: [] for name in paths_by_list}
            rates: dict[str, list[float]] = {name: [] for name in paths_by_list}
            errors: Counter[int] = Counter()
            for _ in range(rounds):
                for name, paths in paths_by_list.items():
                    times, failures = measure(address, secret, paths, seconds)
                    latencies[name].append(statistics.quantiles(times, n=20)[-1])
                    rates[name].append(len(times) / seconds)
                    errors.update(failures)
    if errors:
        raise RuntimeError(f"these latencies mean nothing: requests failed with the statuses {dict(errors)}")
    return {
        "leaderboard_p95_ms": statistics.median(latencies["leaderboard"]),
        "leaderboard_p95_spread": spread(latencies["leaderboard"]),
        "studies_p95_ms": statistics.median(latencies["studies"]),
        "studies_p95_spread": spread(latencies["studies"]),
        "requests_a_second": {name: statistics.median(values) for name, values in rates.items()},
        "rows": len(study_ids) * EVALUATIONS_PER_STUDY,
        "studies": len(study_ids),
        "clients": CLIENTS,
        "rounds": rounds,
        "errors": errors.total(),
        "start_seconds": start_seconds,
    }


def measure_overhead(epochs: int, pairs: int) -> dict[str, float]:
    """Return the time of a study in the service over that of `bln-search run`, minus one, over pairs.

    The time is that from acceptance to completion in the ledger: waiting in the queue, data, trials and evaluations.
    """
    study, overheads = SHORT_STUDY.format(epochs=epochs), []
    for _ in range(pairs):
        with tempfile.TemporaryDirectory() as alone, tempfile.TemporaryDirectory() as served:
            run_study_in_process(Path(alone), study)
            run_study_in_service(Path(served), study)
            overheads.append(seconds_of_study(Path(served)) / seconds_of_study(Path(alone)) - 1)
    return spread(overheads)


def run_study_in_service(home: Path, study: str) -> None:
    """Run a study in a service with an idle worker."""
    with run_service(home, environment_of(home)) as (host, port):
        while not _is_ready(host, port):
            time.sleep(0.1)
        with Client(f"http://{host}:{port}", (home / "token").read_text().strip()) as client:
            study_id = client.submit(parse_study(study))["id"]
            for _ in client.follow_events(study_id):
                pass


def _is_ready(host: str, port: int) -> bool:
    with closing(http.client.HTTPConnection(host, port, timeout=10)) as connection:
        connection.request("GET", "/readyz")
        return connection.getresponse().status == 200


def main() -> None:
    parser = make_parser(__doc__ or "")
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.add_argument("--database", help="an empty Postgres database; by default SQLite")
    parser.add_argument("--rounds", type=int, default=5, help="number of measurements of each")
    options = parser.parse_args()
    rows, seconds, rounds = (20_000, 3.0, 2) if options.quick else (100_000, 8.0, options.rounds)
    result = measure_latencies(options.database, rows, seconds, rounds)
    result["pairs"] = 1 if options.quick else 2
    result["overhead_spread"] = measure_overhead(20 if options.quick else 200, result["pairs"])
    result["overhead"] = result["overhead_spread"]["median"]
    for name in ("leaderboard", "studies"):
        low, high = (result[f"{name}_p95_spread"][part] for part in ("min", "max"))
        rate = result["requests_a_second"][name]
        print(f"{name:12} p95 {result[f'{name}_p95_ms']:6.1f} ms [{low:.1f}, {high:.1f}], {rate:.0f} requests a second")
    print(f"through the service over run: {result['overhead']:+.1%}")
    print(f"the service started after {result['start_seconds']:.2f} s")
    finish("service", json.loads(json.dumps(result)), save=options.save)


if __name__ == "__main__":
    main()
