"""Latency of the service: 100,000 evaluations in one database, 16 clients without pauses.

The service and its clients share this machine. Every client asks for the first page of a ranked table of a study drawn
at random (no ETag is sent, nothing is answered with 304), then all of them for the list of studies. Milliseconds from
the first byte sent to the last byte read, the 95th percentile over every request.
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
from multiprocessing import get_context
from pathlib import Path
from typing import Any

from bench.support.reporting import finish, make_parser, spread
from bench.support.service_overhead import measure_overhead
from bench.support.service_process import serve
from bench.support.synthetic_studies import EVALUATIONS_PER_STUDY, create_studies
from bln_search.core.enums import Scope
from bln_search.settings import Settings
from bln_search.storage.ledger import open_and_upgrade_ledger

CLIENTS = 16


def run_clients(host: str, port: int, secret: str, paths: list[str], seconds: float, results: Any) -> None:
    """Send requests from sixteen threads, each with one connection."""
    times: list[float] = []
    errors: list[int] = []
    deadline = time.monotonic() + seconds
    threads = [
        threading.Thread(target=run_client, args=(host, port, secret, paths, deadline, number, times, errors))
        for number in range(CLIENTS)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    results.put((times, errors))


def run_client(
    host: str,
    port: int,
    secret: str,
    paths: list[str],
    deadline: float,
    number: int,
    times: list[float],
    errors: list[int],
) -> None:
    """Send requests one after another without pauses."""
    rng = random.Random(number)
    connection = http.client.HTTPConnection(host, port, timeout=30)
    while time.monotonic() < deadline:
        start = time.perf_counter()
        connection.request("GET", rng.choice(paths), headers={"Authorization": f"Bearer {secret}"})
        response = connection.getresponse()
        response.read()
        times.append(1000 * (time.perf_counter() - start))
        if response.status != 200:
            errors.append(response.status)
    connection.close()


def measure(address: tuple[str, int], secret: str, paths: list[str], seconds: float) -> tuple[list[float], list[int]]:
    """Return latencies and errors of sixteen clients, which run in a separate process."""
    context = get_context("spawn")
    results = context.Queue()
    process = context.Process(target=run_clients, args=(*address, secret, paths, seconds, results))
    process.start()
    measurements: tuple[list[float], list[int]] = results.get()
    process.join()
    return measurements


def run(database: str | None, rows: int, seconds: float, rounds: int) -> dict[str, Any]:
    """Return the measurements for one database."""
    with tempfile.TemporaryDirectory() as folder:
        home = Path(folder)
        url = database or Settings(home=home).database_url
        ledger = open_and_upgrade_ledger(url)
        study_ids = create_studies(ledger, rows)
        secret, _ = ledger.tokens.create_token("bench", Scope.READ)
        ledger.close()
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


def main() -> None:
    parser = make_parser(__doc__ or "")
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.add_argument("--database", help="an empty Postgres database; by default SQLite")
    parser.add_argument("--rounds", type=int, default=5, help="number of measurements of each")
    options = parser.parse_args()
    rows, seconds, rounds = (20_000, 3.0, 2) if options.quick else (100_000, 8.0, options.rounds)
    result = run(options.database, rows, seconds, rounds)
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
