"""Latency of `/healthz` in milliseconds while the service is overloaded or attacked.

- endless header: four connections send one header without end, and begin again when they are cut off;
- half open: 300 connections with half a request each, opened again when they are closed; with 256 open files, and with
  as many as this system allows;
- clients: 160 clients ask for lists and ranked tables, one request after the other, and heed no Retry-After.

A health check opens a connection, asks and closes, twenty times a second. The service, the load and the health checks
share this machine. Every load is against 127.0.0.1 and ends by itself.
"""

from __future__ import annotations

import argparse
import http.client
import json
import random
import resource
import select
import socket
import statistics
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager, suppress
from multiprocessing import get_context
from pathlib import Path
from typing import Any

from bench.reporting import arguments, finish
from bench.service import fill, served
from bln_search.core.enums import Scope
from bln_search.settings import Settings
from bln_search.storage.ledger import open_ledger

Place = tuple[str, int]
HEAD = b"GET /healthz HTTP/1.1\r\nHost: 127.0.0.1\r\n"
HALF_OPEN = 300
CLIENTS = 160
PROCESSES = 2
FEW_FILES = 256
_PIECE = b"x" * 65_536
_MOST_BYTES = 200_000_000
_PATIENCE = 60.0


def endless_header(place: Place, until: float, _secret: str, _paths: list[str]) -> Counter[str]:
    """Send endless headers on four connections."""
    counted: Counter[str] = Counter()

    def send() -> None:
        while time.monotonic() < until and counted["bytes"] < _MOST_BYTES:
            with closing(socket.create_connection(place, timeout=_PATIENCE)) as connection, suppress(OSError):
                connection.sendall(HEAD + b"X: ")
                while time.monotonic() < until and counted["bytes"] < _MOST_BYTES:
                    connection.sendall(_PIECE)
                    counted["bytes"] += len(_PIECE)
            counted["cut"] += time.monotonic() < until
            time.sleep(0.01)

    _in_threads(4, send)
    return counted


def half_open(place: Place, until: float, _secret: str, _paths: list[str]) -> Counter[str]:
    """Open connections with half a request."""
    held: list[socket.socket] = []
    counted: Counter[str] = Counter()
    while time.monotonic() < until:
        while len(held) < HALF_OPEN and time.monotonic() < until:
            with suppress(OSError):
                held.append(socket.create_connection(place, timeout=1))
                held[-1].sendall(HEAD)
                counted["opened"] += 1
        ended, _, _ = select.select(held, [], [], 0.05)
        for one in ended:
            held.remove(one)
            one.close()
            counted["closed"] += 1
    for one in held:
        one.close()
    return counted


def clients(place: Place, until: float, secret: str, paths: list[str]) -> Counter[str]:
    """Run half of the clients; another process runs the other half."""
    counted: Counter[str] = Counter()
    slowest = [0.0]

    def ask() -> None:
        drawn = random.Random(threading.get_ident())
        with closing(http.client.HTTPConnection(*place, timeout=_PATIENCE)) as connection:
            while time.monotonic() < until:
                start = time.monotonic()
                try:
                    connection.request("GET", drawn.choice(paths), headers={"Authorization": f"Bearer {secret}"})
                    answer = connection.getresponse()
                    answer.read()
                    counted[str(answer.status)] += 1
                except (OSError, http.client.HTTPException) as error:
                    counted[type(error).__name__] += 1
                    connection.close()
                slowest[0] = max(slowest[0], time.monotonic() - start)

    _in_threads(CLIENTS // PROCESSES, ask)
    counted["slowest_ms"] = round(1000 * slowest[0])
    return counted


def _in_threads(number: int, work: Callable[[], None]) -> None:
    threads = [threading.Thread(target=work) for _ in range(number)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


LOADS: dict[str, tuple[Callable[..., Counter[str]], int]] = {
    "endless_header": (endless_header, 1),
    "half_open": (half_open, 1),
    "clients": (clients, PROCESSES),
}
"""Function that makes the load, and its number of processes."""


def _load(name: str, place: Place, seconds: float, secret: str, paths: list[str], ends: Any) -> None:
    ends.put("begins")
    ends.put(LOADS[name][0](place, time.monotonic() + seconds, secret, paths))


def under_load(name: str, place: Place, seconds: float, secret: str, paths: list[str]) -> dict[str, Any]:
    """Return latencies of health checks during the load, and the outcome of the load."""
    context = get_context("spawn")
    ends = context.Queue()
    number = LOADS[name][1]
    processes = [context.Process(target=_load, args=(name, place, seconds, secret, paths, ends)) for _ in range(number)]
    for process in processes:
        process.start()
    for _ in processes:
        ends.get(timeout=_PATIENCE)
    times, failed = health_checks(place, time.monotonic() + seconds)
    counted: Counter[str] = Counter()
    for _ in processes:
        part = ends.get(timeout=2 * _PATIENCE)
        slowest = max(counted["slowest_ms"], part["slowest_ms"])
        counted.update(part)
        counted["slowest_ms"] = slowest
    for process in processes:
        process.join()
    return {**summary(times), "failed": failed, "load": dict(counted)}


def health_checks(place: Place, until: float) -> tuple[list[float], int]:
    """Return latencies in milliseconds and the number of failed checks."""
    times: list[float] = []
    failed = 0
    while time.monotonic() < until:
        start = time.monotonic()
        with closing(http.client.HTTPConnection(*place, timeout=_PATIENCE)) as connection:
            try:
                connection.request("GET", "/healthz")
                failed += connection.getresponse().status != 200
            except (OSError, http.client.HTTPException):
                failed += 1
        times.append(1000 * (time.monotonic() - start))
        time.sleep(0.05)
    return times, failed


def summary(times: list[float]) -> dict[str, Any]:
    """Return median, 99th percentile and maximum."""
    p99 = statistics.quantiles(times, n=100, method="inclusive")[-1] if len(times) > 1 else times[0]
    return {"p50_ms": statistics.median(times), "p99_ms": p99, "max_ms": max(times), "checks": len(times)}


@contextmanager
def open_files(most: int | None) -> Iterator[None]:
    """Limit the number of open files of processes that are started inside the block."""
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    if most is not None:
        resource.setrlimit(resource.RLIMIT_NOFILE, (most, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, before)


def run(rows: int, seconds: float) -> dict[str, Any]:
    """Return the measurements of every load, each with a newly started service."""
    with tempfile.TemporaryDirectory() as folder:
        home = Path(folder)
        url = Settings(home=home).database_url
        with closing(open_ledger(url)) as ledger:
            numbers = fill(ledger, rows)
            secret, _ = ledger.tokens.create("bench", Scope.READ)
        paths = ["/api/v1/studies", *(f"/api/v1/studies/{number}/leaderboard" for number in numbers)]
        found = {}
        for name, files in (("endless_header", None), ("half_open", FEW_FILES), ("half_open", None), ("clients", None)):
            with open_files(files):
                service = served(home, url)
                place = service.__enter__()
            try:
                label = name if files is None else f"{name}_{files}_files"
                found[label] = under_load(name, place, seconds, secret, paths)
            finally:
                service.__exit__(None, None, None)
    return {"healthz": found, "seconds": seconds, "half_open": HALF_OPEN, "clients": CLIENTS}


def main() -> None:
    parser = arguments(__doc__ or "")
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    options = parser.parse_args()
    rows, seconds = (5_000, 8.0) if options.quick else (20_000, 15.0)
    result = run(rows, seconds)
    print(f"{'load':24} {'p50 ms':>8} {'p99 ms':>8} {'max ms':>8} {'checks':>7} {'failed':>7}  what became of the load")
    for name, one in result["healthz"].items():
        figures = " ".join(f"{one[key]:8.1f}" for key in ("p50_ms", "p99_ms", "max_ms"))
        load = ", ".join(f"{key} {value:,}" for key, value in sorted(one["load"].items()) if value)
        print(f"{name:24} {figures} {one['checks']:7} {one['failed']:7}  {load}")
    result["p99_ms"] = max(one["p99_ms"] for one in result["healthz"].values())
    result["failed"] = sum(one["failed"] for one in result["healthz"].values())
    finish("service_limits", json.loads(json.dumps(result)), save=options.save)


if __name__ == "__main__":
    main()
