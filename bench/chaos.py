"""Fault injection: processes of a study are killed repeatedly, and the same command resumes it.

Each run takes a fresh database. At random moments, drawn from the seed, the driver, a worker or (with Ray) the raylet
is killed with SIGKILL; whenever the command has ended without being done it is started again, until it says it is done.
Then every cell must be there once, and the leaderboard must be, byte by byte, that of an undisturbed run.
Executors take turns: local, ray, local, ...
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
from contextlib import suppress
from pathlib import Path
from typing import Any

import psutil

from bench.reporting import arguments, finish

STUDY = """
name: chaos
data: {name: digits, validation: 0.2}
model: {name: mlp, widths: [64]}
arms: [{method: bln}, {method: mbn, lambda: {0: 0.1, 0.4: 0.5, 0.6: 0.9}, double_forward: true}]
training: {epochs: 12, batch_size: 25}
seeds: [0, 1]
"""
CELLS = 2 * 2 * 16 + 2 * 2 * 9
"""Evaluations: seeds × splits × configurations of each arm."""

_COMMAND = "import sys; from bln_search.cli.main import main; main()"
_KILLS = 3
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

    def cells(self) -> Counter[tuple[Any, ...]]:
        """Return how often each evaluation is in the database."""
        with sqlite3.connect(self.folder / "home" / "ledger.sqlite3") as database:
            rows = database.execute(
                "SELECT t.arm, t.seed, e.configuration, e.estimate, e.batch_size, e.split FROM evaluation e"
                " JOIN checkpoint c ON c.id = e.checkpoint_id JOIN trial t ON t.id = c.trial_id"
            )
            return Counter(tuple(row) for row in rows)


def victims(driver: psutil.Process) -> dict[str, list[psutil.Process]]:
    """Return the processes of a running command that may be killed, by kind."""
    found: dict[str, list[psutil.Process]] = {"driver": [driver]}
    for child in driver.children(recursive=True):
        with suppress(psutil.Error):
            line = " ".join(child.cmdline())
            if child.name().startswith("ray::TaskTrain") or ("forkserver" in line and child.ppid() != driver.pid):
                found.setdefault("worker", []).append(child)
            elif child.name() == "raylet":
                found.setdefault("raylet", []).append(child)
    return found


def disturbed(run: Run, draw: random.Random, kills: int = _KILLS) -> tuple[str, Counter[str]]:
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
                kinds = victims(driver)
                kind = draw.choice(sorted(kinds))
                draw.choice(kinds[kind]).send_signal(signal.SIGKILL)
                killed[kind] += 1
        out, err = command.communicate(timeout=300)
        if command.returncode == 0:
            return out, killed
        if command.returncode > 0 and "Traceback" in err:
            raise RuntimeError(f"the command ended with a traceback:\n{err[-3000:]}")
    raise RuntimeError(f"the study was not done after 20 starts:\n{err[-3000:]}")


def main() -> None:
    parser = arguments(__doc__ or "")
    parser.add_argument("--runs", type=int, default=50)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--executors", default="local,ray", help="taken in turn")
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
        expected, _ = disturbed(Run(undisturbed, "local"), draw, kills=0)
        for number in range(runs):
            place = Path(folder) / str(number)
            place.mkdir()
            run = Run(place, executors[number % len(executors)])
            board, kills = disturbed(run, draw)
            cells = run.cells()
            lost += CELLS - len(cells)
            duplicated += sum(count - 1 for count in cells.values())
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
