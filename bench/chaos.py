"""Fault injection: processes of a study are killed repeatedly, and the same command resumes it.

Each run uses a new database. At random moments, drawn from the seed, the driver, a worker or (with Ray) the raylet is
killed with SIGKILL. A command that ends without success is started again until it succeeds. Then every evaluation must
be stored exactly once, and the leaderboard must be, byte by byte, that of an undisturbed run. Executors alternate:
local, ray, local, ...
"""

from __future__ import annotations

import json
import os
import random
import signal
import sqlite3
import subprocess
import sys
import tempfile
import time
from collections import Counter
from contextlib import closing, suppress
from pathlib import Path
from typing import Any

import psutil

from bench.support.reporting import finish, make_parser

STUDY = """
name: chaos
data: {name: digits, validation: 0.2}
model: {name: mlp, widths: [64]}
arms: [{method: bln}, {method: mbn, lambda: {0: 0.1, 0.4: 0.5, 0.6: 0.9}, double_forward: true}]
training: {epochs: 12, batch_size: 25}
seeds: [0, 1]
"""
EVALUATIONS = 2 * 2 * 16 + 2 * 2 * 9
"""Evaluations: seeds × splits × configurations of each arm."""

_COMMAND = "import sys; from bln_search.cli.main import main; main()"
_MAX_KILLS = 3
"""Largest number of kills of a run, so that it ends."""


class Run:
    """A study in a separate folder."""

    def __init__(self, folder: Path, executor: str) -> None:
        self.folder, self.executor = folder, executor
        self.study = folder / "chaos.yaml"
        self.study.write_text(STUDY)
        self.environment = {
            **os.environ,
            "BLN_SEARCH_HOME": str(folder / "home"),
            "BLN_SEARCH_CACHE": str(folder / "cache"),
        }

    def start(self) -> subprocess.Popen[str]:
        """Start the command in a separate process group."""
        return subprocess.Popen(
            [sys.executable, "-c", _COMMAND, "run", str(self.study), "--format", "csv", "--executor", self.executor],
            env=self.environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )

    def count_evaluations(self) -> Counter[tuple[Any, ...]]:
        """Return how often each evaluation is in the database."""
        with closing(sqlite3.connect(self.folder / "home" / "ledger.sqlite3")) as database:
            rows = database.execute(
                "SELECT t.arm, t.seed, e.configuration, e.estimate, e.batch_size, e.split FROM evaluation e"
                " JOIN checkpoint c ON c.id = e.checkpoint_id JOIN trial t ON t.id = c.trial_id"
            )
            return Counter(tuple(row) for row in rows)


def killable_processes(driver: psutil.Process) -> dict[str, list[psutil.Process]]:
    """Return the processes of a running command that may be killed, by kind."""
    processes: dict[str, list[psutil.Process]] = {"driver": [driver]}
    for child in driver.children(recursive=True):
        with suppress(psutil.Error):
            line = " ".join(child.cmdline())
            if child.name().startswith("ray::TaskTrain") or ("forkserver" in line and child.ppid() != driver.pid):
                processes.setdefault("worker", []).append(child)
            elif child.name() == "raylet":
                processes.setdefault("raylet", []).append(child)
    return processes


def run_disturbed(run: Run, draw: random.Random, kills: int = _MAX_KILLS) -> tuple[str, Counter[str]]:
    """Return the final leaderboard of a disturbed run, and the kills by kind."""
    killed: Counter[str] = Counter()
    for _ in range(20):
        command = run.start()
        driver = psutil.Process(command.pid)
        while sum(killed.values()) < kills and command.poll() is None:
            with suppress(subprocess.TimeoutExpired):
                command.wait(draw.expovariate(1 / (4.0 if run.executor == "local" else 8.0)))
                break
            with suppress(psutil.Error):
                kinds = killable_processes(driver)
                kind = draw.choice(sorted(kinds))
                draw.choice(kinds[kind]).send_signal(signal.SIGKILL)
                killed[kind] += 1
        output, error_output = command.communicate(timeout=300)
        if command.returncode == 0:
            return output, killed
        if command.returncode > 0 and "Traceback" in error_output:
            raise RuntimeError(f"the command ended with a traceback:\n{error_output[-3000:]}")
    raise RuntimeError(f"the study was not done after 20 starts:\n{error_output[-3000:]}")


def main() -> None:
    parser = make_parser(__doc__ or "")
    parser.add_argument("--runs", type=int, default=50)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--executors", default="local,ray", help="executors, used alternately")
    options = parser.parse_args()
    runs = 4 if options.quick else options.runs
    executors = options.executors.split(",")
    draw = random.Random(options.seed)
    killed: Counter[str] = Counter()
    lost = duplicated = differing = 0
    start = time.monotonic()
    with tempfile.TemporaryDirectory(dir="/tmp") as folder:
        undisturbed = Path(folder) / "undisturbed"
        undisturbed.mkdir()
        expected, _ = run_disturbed(Run(undisturbed, "local"), draw, kills=0)
        for number in range(runs):
            run_folder = Path(folder) / str(number)
            run_folder.mkdir()
            run = Run(run_folder, executors[number % len(executors)])
            board, kills = run_disturbed(run, draw)
            evaluation_counts = run.count_evaluations()
            lost += EVALUATIONS - len(evaluation_counts)
            duplicated += sum(count - 1 for count in evaluation_counts.values())
            differing += board != expected
            killed += kills
            outcome = "equal" if board == expected else "NOT EQUAL"
            print(f"run {number} {run.executor}: killed {json.dumps(kills)}, {outcome}", flush=True)
    result = {
        "runs": runs,
        "lost": lost,
        "duplicated": duplicated,
        "differing": differing,
        "killed": dict(killed),
        "seed": options.seed,
        "seconds": time.monotonic() - start,
    }
    finish("chaos", result, save=options.save)


if __name__ == "__main__":
    main()
