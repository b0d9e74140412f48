"""Seconds that the service needs for hostile bodies at its size limit, and what other users notice of them.

Ten kinds of bodies are sent to `POST /studies/validate` with a token that may only read: each alone, then 34 clients
send them in parallel for some seconds, while eight other clients, with another account, read the list of studies.
Milliseconds of these reads are from the first byte sent to the last byte read. The service and its clients share this
machine.
"""

from __future__ import annotations

import http.client
import json
import statistics
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable
from contextlib import closing
from multiprocessing import get_context
from pathlib import Path
from typing import Any

from bench.support.reporting import finish, make_parser, spread
from bench.support.service_process import serve
from bench.support.synthetic_studies import create_studies
from bln_search.core.enums import Scope
from bln_search.settings import Settings
from bln_search.storage.ledger import open_and_upgrade_ledger

Address = tuple[str, int]
SIZE: int = Settings.model_fields["largest_body"].default - 1_000
ATTACKERS = 34
READERS = 8
_START = "name: b\ndata: {name: digits}\nmodel: {name: mlp, widths: [8]}\narms: [{method: bln}]\n"
_YAML, _JSON = "application/yaml", "application/json"
_PATIENCE = 120.0


def _repeat(text: str, start: str, end: str = "") -> str:
    """Return `start`, as many copies of `text` as the size permits, and `end`."""
    copies = (SIZE - len((start + end).encode())) // len(text.encode())
    return start + copies * text + end


BODIES: dict[str, tuple[str, str]] = {
    "number": (_YAML, _repeat("9", _START + "seeds: [", "]")),
    "nesting": (_YAML, _repeat("[", _START + "layers: ")),
    "keys": (_YAML, _START + "".join(f"k{number}: 1\n" for number in range(SIZE // 11))),
    "aliases": (_YAML, _repeat("*a, ", _START + "a: &a [x]\nb: [", "1]")),
    "text": (_YAML, _repeat("\\u00e9", _START + 'title: "', '"')),
    "array": (_JSON, _repeat("0,", '{"name": "b", "seeds": [', "0]}")),
    "floats": (_JSON, _repeat("1e-300,", '{"name": "b", "seeds": [', "0]}")),
    "base 60": (_YAML, _repeat("59:", _START + "seeds: [", "59]")),
    "unicode": (_YAML, _repeat("é", _START + "notes: ")),
    "duplicate keys": (_JSON, _repeat('"a": 1, ', '{"name": "b", ', '"a": 1}')),
}
"""Media type and text by kind."""


def send_body(connection: http.client.HTTPConnection, secret: str, kind: str) -> tuple[float, int]:
    """Send one body; return seconds and the status of the answer."""
    media_type, text = BODIES[kind]
    headers = {"Authorization": f"Bearer {secret}", "Content-Type": media_type}
    start = time.perf_counter()
    connection.request("POST", "/api/v1/studies/validate", text.encode(), headers)
    response = connection.getresponse()
    response.read()
    return time.perf_counter() - start, response.status


def measure_alone(address: Address, secret: str, repetitions: int) -> dict[str, dict[str, float]]:
    """Return the seconds of each body without other requests."""
    seconds: dict[str, dict[str, float]] = {}
    with closing(http.client.HTTPConnection(*address, timeout=_PATIENCE)) as connection:
        for kind in BODIES:
            answers = [send_body(connection, secret, kind) for _ in range(repetitions)]
            seconds[kind] = spread([duration for duration, _ in answers])
            statuses = {status for _, status in answers}
            if not statuses <= {400, 413, 422}:
                raise RuntimeError(f"{kind}: the service answered with {sorted(statuses)}")
    return seconds


def attack(address: Address, secret: str, seconds: float, start: Any, results: Any) -> None:
    """Send bodies of all kinds from many threads, one after another without pauses, when all processes are ready."""
    statuses: Counter[int] = Counter()
    start.wait()
    deadline = time.monotonic() + seconds

    def send_repeatedly(number: int) -> None:
        kinds = list(BODIES)
        with closing(http.client.HTTPConnection(*address, timeout=_PATIENCE)) as connection:
            while time.monotonic() < deadline:
                number += 1
                try:
                    _, status = send_body(connection, secret, kinds[number % len(kinds)])
                except (OSError, http.client.HTTPException):
                    status = 0
                    connection.close()
                statuses[status] += 1

    _run_in_threads(ATTACKERS, send_repeatedly)
    results.put(dict(statuses))


def read_lists(address: Address, secret: str, seconds: float, start: Any, results: Any) -> None:
    """Read the list of studies from some threads, at most 20 times a second each, when all processes are ready."""
    durations: list[float] = []
    failures: Counter[str] = Counter()
    start.wait()
    deadline = time.monotonic() + seconds

    def read_repeatedly(_number: int) -> None:
        with closing(http.client.HTTPConnection(*address, timeout=_PATIENCE)) as connection:
            while time.monotonic() < deadline:
                began = time.perf_counter()
                try:
                    connection.request("GET", "/api/v1/studies", headers={"Authorization": f"Bearer {secret}"})
                    response = connection.getresponse()
                    response.read()
                    if response.status != 200:
                        failures[str(response.status)] += 1
                except (OSError, http.client.HTTPException) as error:
                    failures[type(error).__name__] += 1
                    connection.close()
                durations.append(1000 * (time.perf_counter() - began))
                time.sleep(0.05)

    _run_in_threads(READERS, read_repeatedly)
    results.put((durations, dict(failures)))


def _run_in_threads(count: int, work: Callable[[int], None]) -> None:
    threads = [threading.Thread(target=work, args=(number,)) for number in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def measure_readers(address: Address, reader: str, attacker: str | None, seconds: float) -> dict[str, Any]:
    """Return the latencies of the readers, with attackers or without, each in a process of its own."""
    context = get_context("spawn")
    start = context.Barrier(1 if attacker is None else 2)
    read_results, attack_results = context.Queue(), context.Queue()
    processes = [context.Process(target=read_lists, args=(address, reader, seconds, start, read_results))]
    if attacker is not None:
        processes.append(context.Process(target=attack, args=(address, attacker, seconds, start, attack_results)))
    for process in processes:
        process.start()
    durations, failures = read_results.get()
    statuses = {} if attacker is None else attack_results.get()
    for process in processes:
        process.join()
    quantiles = statistics.quantiles(durations, n=100)
    return {
        "p50_ms": quantiles[49],
        "p99_ms": quantiles[98],
        "max_ms": max(durations),
        "reads": len(durations),
        "failures": failures,
        "attack_statuses": statuses,
    }


def run(repetitions: int, seconds: float) -> dict[str, Any]:
    """Return all measurements."""
    with tempfile.TemporaryDirectory() as folder:
        home = Path(folder)
        url = Settings(home=home).database_url
        with closing(open_and_upgrade_ledger(url)) as ledger:
            create_studies(ledger, 20_000)
            attacker, _ = ledger.tokens.create_token("attacker", Scope.READ)
            reader, _ = ledger.tokens.create_token("bench", Scope.READ)
        with serve(home, url) as address:
            alone = measure_alone(address, attacker, repetitions)
            undisturbed = measure_readers(address, reader, None, seconds / 2)
            attacked = measure_readers(address, reader, attacker, seconds)
    slowest = max(figures["max"] for figures in alone.values())
    return {"seconds_alone": alone, "slowest_seconds": slowest, "undisturbed": undisturbed, "attacked": attacked}


def main() -> None:
    """Measure, print, and save."""
    options = make_parser(__doc__ or "").parse_args()
    result = run(1 if options.quick else 5, 10.0 if options.quick else 60.0)
    for kind, figures in result["seconds_alone"].items():
        size = len(BODIES[kind][1].encode())
        print(f"{kind:15} {size:>9,} bytes {figures['median']:6.3f} s, at most {figures['max']:.3f} s")
    for name in ("undisturbed", "attacked"):
        figures = result[name]
        print(
            f"{name:15} p50 {figures['p50_ms']:.0f} ms, p99 {figures['p99_ms']:.0f} ms, at most "
            f"{figures['max_ms']:.0f} ms of {figures['reads']} reads; failures {figures['failures']}"
        )
    finish("hostile_bodies", json.loads(json.dumps(result)), save=options.save)


if __name__ == "__main__":
    main()
