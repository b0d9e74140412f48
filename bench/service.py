"""Latency of the service: 100,000 evaluations in one database, 16 clients without pauses.

The service and its clients share this machine. Every client asks for the first page of a ranked table of a study drawn
at random (no ETag is sent, nothing is answered with 304), then all of them for the list of studies. Milliseconds from
the first byte sent to the last byte read, the 95th percentile over every request.
"""

from __future__ import annotations

import argparse
import http.client
import json
import os
import random
import re
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from multiprocessing import get_context
from pathlib import Path
from typing import Any

from sqlalchemy import insert

from bench.reporting import finish, make_parser, spread
from bln_search.client import Client
from bln_search.core.configuration import Method, all_configurations
from bln_search.core.enums import Scope
from bln_search.settings import Settings
from bln_search.specs import parse_study
from bln_search.storage.engine import write_session
from bln_search.storage.ledger import Ledger, open_ledger
from bln_search.storage.tables import CheckpointRow, EvaluationRow

STUDY = """
name: study{number}
data: {{name: digits}}
model: {{name: mlp}}
arms: [{{method: bln}}, {{method: bln, name: other, judged_under: TTTT, population: [epoch]}}]
seeds: [{seeds}]
"""
_PROGRAM = "from bln_search.cli.main import main; main()"
SEEDS = 16
CLIENTS = 16
CONFIGURATIONS = [str(configuration) for configuration in all_configurations(Method.BLN)]


def create_studies(ledger: Ledger, rows: int) -> list[int]:
    """Create studies with this total number of evaluations; return their ids."""
    queue = ledger.queue
    rng = random.Random(0)
    evaluations_per_study = SEEDS * 2 * len(CONFIGURATIONS) * 2
    study_ids = []
    for number in range(-(-rows // evaluations_per_study)):
        study = parse_study(STUDY.format(number=number, seeds=", ".join(str(seed) for seed in range(SEEDS))))
        study_id = queue.submit(study, "bench").study_id
        ledger.studies.start(study_id, lambda _: True, "bench/1/0")
        trials = ledger.trials.list_open(study_id)
        with write_session(ledger.database.engine) as session:
            now = ledger.now()
            for trial in trials:
                row = CheckpointRow(
                    trial_id=trial.id,
                    file=f"{trial.id}.safetensors",
                    sha256=f"{trial.id:064x}",
                    epoch=1,
                    judged_under="FFFF",
                    validation_loss=0.5,
                    provenance={},
                    created_at=now,
                )
                session.add(row)
                session.flush()
                session.execute(insert(EvaluationRow), list(evaluation_rows(row.id, rng)))
        for trial in trials:
            ledger.attempts.record_divergence(ledger.attempts.claim_trial(trial.id, "bench/1/0"), "ended")
        ledger.studies.finish(study_id, runner="bench/1/0")
        study_ids.append(study_id)
    return study_ids


def evaluation_rows(checkpoint_id: int, rng: random.Random) -> Iterator[dict[str, Any]]:
    """Return the evaluations of a network under every configuration on both splits."""
    for code in CONFIGURATIONS:
        for split in ("validation", "test"):
            yield evaluation_row(checkpoint_id, code, split, rng.random(), rng.random())


def evaluation_row(checkpoint_id: int, code: str, split: str, loss: float, accuracy: float) -> dict[str, Any]:
    """Return the database row of a measured evaluation."""
    return {
        "checkpoint_id": checkpoint_id,
        "configuration": code,
        "estimate": "frozen" if "T" in code else "",
        "batch_size": 25,
        "split": split,
        "state": "measured",
        "reason": None,
        "n": 360,
        "loss": loss,
        "accuracy": accuracy,
    }


@contextmanager
def serve(home: Path, database: str) -> Iterator[tuple[str, int]]:
    """Run the service without a worker in a separate process; yield host and port."""
    environment = {"BLN_SEARCH_HOME": str(home), "BLN_SEARCH_DATABASE": database}
    quiet = {"BLN_SEARCH_REQUESTS_A_MINUTE": "100000000", "PYTHONPATH": ":".join(sys.path)}
    with (home / "service.log").open("wb") as log:
        process = subprocess.Popen(
            [sys.executable, "-c", _PROGRAM, "serve", "--port", "0", "--no-worker"],
            stdout=subprocess.PIPE,
            stderr=log,
            text=True,
            env={**environment, **quiet},
        )
    assert process.stdout is not None
    try:
        match = re.search(r"http://([^/:]+):(\d+)", process.stdout.readline())
        assert match, (home / "service.log").read_text()
        yield match[1], int(match[2])
    finally:
        process.terminate()
        process.wait()
        process.stdout.close()


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
        ledger = open_ledger(url)
        study_ids = create_studies(ledger, rows)
        secret, _ = ledger.tokens.create("bench", Scope.READ)
        ledger.close()
        start = time.monotonic()
        with serve(home, url) as address:
            start_seconds = time.monotonic() - start
            boards = [f"/api/v1/studies/{number}/leaderboard" for number in study_ids]
            paths_by_list = {"leaderboard": boards, "studies": ["/api/v1/studies"]}
            latencies: dict[str, list[float]] = {name: [] for name in paths_by_list}
            rates: dict[str, list[float]] = {name: [] for name in paths_by_list}
            errors = 0
            for _ in range(rounds):
                for name, paths in paths_by_list.items():
                    times, failures = measure(address, secret, paths, seconds)
                    latencies[name].append(statistics.quantiles(times, n=20)[-1])
                    rates[name].append(len(times) / seconds)
                    errors += len(failures)
    return {
        "leaderboard_p95_ms": statistics.median(latencies["leaderboard"]),
        "leaderboard_p95_spread": spread(latencies["leaderboard"]),
        "studies_p95_ms": statistics.median(latencies["studies"]),
        "studies_p95_spread": spread(latencies["studies"]),
        "requests_a_second": {name: statistics.median(values) for name, values in rates.items()},
        "rows": len(study_ids) * SEEDS * 2 * len(CONFIGURATIONS) * 2,
        "studies": len(study_ids),
        "clients": CLIENTS,
        "rounds": rounds,
        "errors": errors,
        "start_seconds": start_seconds,
    }


OVERHEAD_STUDY = """
name: minute
data: {{name: digits}}
model: {{name: mlp, widths: [128, 64]}}
arms: [{{method: bln}}]
training: {{epochs: {epochs}, batch_size: 25}}
seeds: [0, 1, 2, 3]
"""


def measure_overhead(epochs: int, pairs: int) -> dict[str, float]:
    """Return the wall time of a study in the service over that of `bln-search run`, minus one.

    The time is that from acceptance to completion in the ledger: waiting in the queue, data, trials and evaluations.
    It excludes the start of Python and torch.
    """
    ratios = []
    for _ in range(pairs):
        with tempfile.TemporaryDirectory() as folder:
            run_seconds = _time_run(Path(folder), epochs)
        with tempfile.TemporaryDirectory() as folder:
            ratios.append(_time_service(Path(folder), epochs) / run_seconds - 1)
    return spread(ratios)


def _environment(home: Path) -> dict[str, str]:
    folders = {"BLN_SEARCH_HOME": str(home), "BLN_SEARCH_CACHE": str(home / "cache")}
    return {**os.environ, **folders, "PYTHONPATH": ":".join(sys.path)}


def _time_run(folder: Path, epochs: int) -> float:
    """Return the seconds from acceptance to completion with `bln-search run`."""
    file = folder / "minute.yaml"
    file.write_text(OVERHEAD_STUDY.format(epochs=epochs))
    command = [sys.executable, "-c", _PROGRAM, "run", str(file), "--format", "csv"]
    subprocess.run(command, env=_environment(folder), check=True, capture_output=True)
    return _study_seconds(folder)


def _time_service(folder: Path, epochs: int) -> float:
    """Return the seconds from acceptance to completion in a service with an idle worker."""
    with (folder / "service.log").open("wb") as log:
        process = subprocess.Popen(
            [sys.executable, "-c", _PROGRAM, "serve", "--port", "0"],
            stdout=subprocess.PIPE,
            stderr=log,
            text=True,
            env=_environment(folder),
        )
    assert process.stdout is not None
    try:
        match = re.search(r"http://[^/]+", process.stdout.readline())
        assert match
        while not _is_ready(match[0]):
            time.sleep(0.1)
        with Client(match[0], (folder / "token").read_text().strip()) as client:
            study_id = client.submit(parse_study(OVERHEAD_STUDY.format(epochs=epochs)))["id"]
            for _ in client.events(study_id):
                pass
    finally:
        process.terminate()
        process.wait()
        process.stdout.close()
    return _study_seconds(folder)


def _is_ready(address: str) -> bool:
    connection = http.client.HTTPConnection(address.removeprefix("http://"), timeout=10)
    connection.request("GET", "/readyz")
    status = connection.getresponse().status
    connection.close()
    return status == 200


def _study_seconds(home: Path) -> float:
    """Return the seconds from acceptance to completion."""
    ledger = open_ledger(Settings(home=home).database_url)
    (study,) = ledger.studies.list_studies()
    ledger.close()
    assert study.ended_at is not None
    return (study.ended_at - study.created_at).total_seconds()


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
