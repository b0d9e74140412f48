"""Latency of `/healthz` in milliseconds while the service is overloaded or attacked.

- endless header: four connections send one header without end, and reconnect when they are closed;
- half open: 300 connections with half a request each, opened again when they are closed; with a limit of 256 open
  files, and with the limit of this system;
- clients: 160 clients request lists and leaderboards, one request after the other, and ignore Retry-After.

A health check opens a connection, sends a request and closes, twenty times per second. The service, the load and the
health checks share this machine. Every load is against 127.0.0.1 and ends by itself.
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

from bench.support.reporting import finish, make_parser
from bench.support.service_process import serve
from bench.support.synthetic_studies import create_studies
from bln_search.core.enums import Scope
from bln_search.settings import Settings
from bln_search.storage.ledger import open_and_upgrade_ledger

Address = tuple[str, int]
HEAD = b"GET /healthz HTTP/1.1\r\nHost: 127.0.0.1\r\n"
HALF_OPEN = 300
CLIENTS = 160
PROCESSES = 2
FEW_FILES = 256
_CHUNK = b"x" * 65_536
_MAX_BYTES = 200_000_000
_PATIENCE = 60.0


def send_endless_headers(address: Address, deadline: float, _secret: str, _paths: list[str]) -> Counter[str]:
    """Send endless headers on four connections."""
    counts: Counter[str] = Counter()

    def send() -> None:
        while time.monotonic() < deadline and counts["bytes"] < _MAX_BYTES:
            with closing(socket.create_connection(address, timeout=_PATIENCE)) as connection, suppress(OSError):
                connection.sendall(HEAD + b"X: ")
                while time.monotonic() < deadline and counts["bytes"] < _MAX_BYTES:
                    connection.sendall(_CHUNK)
                    counts["bytes"] += len(_CHUNK)
            counts["cut"] += time.monotonic() < deadline
            time.sleep(0.01)

    _run_in_threads(4, send)
    return counts


def open_half_requests(address: Address, deadline: float, _secret: str, _paths: list[str]) -> Counter[str]:
    """Open connections with half a request."""
    connections: list[socket.socket] = []
    counts: Counter[str] = Counter()
    while time.monotonic() < deadline:
        while len(connections) < HALF_OPEN and time.monotonic() < deadline:
            with suppress(OSError):
                connections.append(socket.create_connection(address, timeout=1))
                connections[-1].sendall(HEAD)
                counts["opened"] += 1
        readable, _, _ = select.select(connections, [], [], 0.05)
        for connection in readable:
            connections.remove(connection)
            connection.close()
            counts["closed"] += 1
    for connection in connections:
        connection.close()
    return counts


def run_clients(address: Address, deadline: float, secret: str, paths: list[str]) -> Counter[str]:
    """Run half of the clients; another process runs the other half."""
    counts: Counter[str] = Counter()
    slowest = [0.0]

    def request_repeatedly() -> None:
        rng = random.Random(threading.get_ident())
        with closing(http.client.HTTPConnection(*address, timeout=_PATIENCE)) as connection:
            while time.monotonic() < deadline:
                start = time.monotonic()
                try:
                    connection.request("GET", rng.choice(paths), headers={"Authorization": f"Bearer {secret}"})
                    response = connection.getresponse()
                    response.read()
                    counts[str(response.status)] += 1
                except (OSError, http.client.HTTPException) as error:
                    counts[type(error).__name__] += 1
                    connection.close()
                slowest[0] = max(slowest[0], time.monotonic() - start)

    _run_in_threads(CLIENTS // PROCESSES, request_repeatedly)
    counts["slowest_ms"] = round(1000 * slowest[0])
    return counts


def _run_in_threads(number: int, work: Callable[[], None]) -> None:
    threads = [threading.Thread(target=work) for _ in range(number)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


LOADS: dict[str, tuple[Callable[..., Counter[str]], int]] = {
    "endless_header": (send_endless_headers, 1),
    "half_open": (open_half_requests, 1),
    "clients": (run_clients, PROCESSES),
}
"""Function that makes the load, and its number of processes."""


def _run_load(name: str, address: Address, seconds: float, secret: str, paths: list[str], results: Any) -> None:
    results.put("begins")
    results.put(LOADS[name][0](address, time.monotonic() + seconds, secret, paths))


def measure_under_load(name: str, address: Address, seconds: float, secret: str, paths: list[str]) -> dict[str, Any]:
    """Return latencies of health checks during the load, and the outcome of the load."""
    context = get_context("spawn")
    results = context.Queue()
    number = LOADS[name][1]
    processes = [
        context.Process(target=_run_load, args=(name, address, seconds, secret, paths, results)) for _ in range(number)
    ]
    for process in processes:
        process.start()
    for _ in processes:
        results.get(timeout=_PATIENCE)
    times, failed = health_checks(address, time.monotonic() + seconds)
    counts: Counter[str] = Counter()
    for _ in processes:
        counts_of_process = results.get(timeout=2 * _PATIENCE)
        slowest = max(counts["slowest_ms"], counts_of_process["slowest_ms"])
        counts.update(counts_of_process)
        counts["slowest_ms"] = slowest
    for process in processes:
        process.join()
    return {**summarize_latencies(times), "failed": failed, "load": dict(counts)}


def health_checks(address: Address, deadline: float) -> tuple[list[float], int]:
    """Return latencies in milliseconds and the number of failed checks."""
    times: list[float] = []
    failed = 0
    while time.monotonic() < deadline:
        start = time.monotonic()
        with closing(http.client.HTTPConnection(*address, timeout=_PATIENCE)) as connection:
            try:
                connection.request("GET", "/healthz")
                failed += connection.getresponse().status != 200
            except (OSError, http.client.HTTPException):
                failed += 1
        times.append(1000 * (time.monotonic() - start))
        time.sleep(0.05)
    return times, failed


def summarize_latencies(times: list[float]) -> dict[str, Any]:
    """Return median, 99th percentile and maximum."""
    p99 = statistics.quantiles(times, n=100, method="inclusive")[-1] if len(times) > 1 else times[0]
    return {"p50_ms": statistics.median(times), "p99_ms": p99, "max_ms": max(times), "checks": len(times)}


@contextmanager
def open_files(limit: int | None) -> Iterator[None]:
    """Limit the number of open files of processes that are started inside the block."""
    previous_limits = resource.getrlimit(resource.RLIMIT_NOFILE)
    if limit is not None:
        resource.setrlimit(resource.RLIMIT_NOFILE, (limit, previous_limits[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, previous_limits)


def run(rows: int, seconds: float) -> dict[str, Any]:
    """Return the measurements of every load, each with a newly started service."""
    with tempfile.TemporaryDirectory() as folder:
        home = Path(folder)
        url = Settings(home=home).database_url
        with closing(open_and_upgrade_ledger(url)) as ledger:
            study_ids = create_studies(ledger, rows)
            secret, _ = ledger.tokens.create_token("bench", Scope.READ)
        paths = ["/api/v1/studies", *(f"/api/v1/studies/{number}/leaderboard" for number in study_ids)]
        latencies = {}
        for name, files in (("endless_header", None), ("half_open", FEW_FILES), ("half_open", None), ("clients", None)):
            with open_files(files):
                service = serve(home, url)
                address = service.__enter__()
            try:
                label = name if files is None else f"{name}_{files}_files"
                latencies[label] = measure_under_load(name, address, seconds, secret, paths)
            finally:
                service.__exit__(None, None, None)
    return {"healthz": latencies, "seconds": seconds, "half_open": HALF_OPEN, "clients": CLIENTS}


def main() -> None:
    parser = make_parser(__doc__ or "")
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    options = parser.parse_args()
    rows, seconds = (5_000, 8.0) if options.quick else (20_000, 15.0)
    result = run(rows, seconds)
    print(f"{'load':24} {'p50 ms':>8} {'p99 ms':>8} {'max ms':>8} {'checks':>7} {'failed':>7}  outcome of the load")
    for name, measured in result["healthz"].items():
        figures = " ".join(f"{measured[key]:8.1f}" for key in ("p50_ms", "p99_ms", "max_ms"))
        load = ", ".join(f"{key} {value:,}" for key, value in sorted(measured["load"].items()) if value)
        print(f"{name:24} {figures} {measured['checks']:7} {measured['failed']:7}  {load}")
    result["p99_ms"] = max(measured["p99_ms"] for measured in result["healthz"].values())
    result["failed"] = sum(measured["failed"] for measured in result["healthz"].values())
    finish("service_limits", json.loads(json.dumps(result)), save=options.save)


if __name__ == "__main__":
    main()
