"""A study in a folder of its own whose processes are killed, and what its database holds afterwards."""

from __future__ import annotations

import json
import os
import random
import signal
import sqlite3
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Sequence
from contextlib import closing, suppress
from pathlib import Path
from typing import Any

import psutil

from bench.support.processes import PROGRAM

_MAX_FURTHER_STARTS = 20


class KilledStudy:
    """A study whose processes are killed.

    Args:
        folder: New folder of database and checkpoints.
        text: The study file.
        save_seconds: Value of BLN_SEARCH_SAVE_TRAINING_SECONDS; that of the settings by default.
        options: Further options of `bln-search run`.

    Attributes:
        output: The leaderboard of the last complete command.
    """

    def __init__(self, folder: Path, text: str, save_seconds: str = "", options: Sequence[str] = ()) -> None:
        folder.mkdir(parents=True)
        self.folder, self.options, self.output = folder, options, ""
        self.file = folder / "study.yaml"
        self.file.write_text(text)
        self.environment = {
            **os.environ,
            "BLN_SEARCH_HOME": str(folder / "home"),
            "BLN_SEARCH_CACHE": str(folder / "cache"),
            **({"BLN_SEARCH_SAVE_TRAINING_SECONDS": save_seconds} if save_seconds else {}),
        }

    def start(self) -> subprocess.Popen[str]:
        """Start the command in a separate process group."""
        return subprocess.Popen(
            [sys.executable, "-c", PROGRAM, "run", str(self.file), "--format", "csv", *self.options],
            env=self.environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )

    def run(self) -> str:
        """Run the study undisturbed; return its leaderboard."""
        run_with_kills(self, 0, random.Random(0))
        return self.output

    def read_results(self) -> dict[str, list[tuple[Any, ...]]]:
        """Return networks, evaluations with the losses of examples, and the losses of epochs, all in a fixed order."""
        trial = "t.key, t.state"
        queries = {
            "networks": f"SELECT {trial}, c.sha256, c.epoch, c.validation_loss FROM trial t"
            " LEFT JOIN checkpoint c ON c.trial_id = t.id",
            "evaluations": "SELECT t.key, e.configuration, e.estimate, e.batch_size, e.split, e.state, e.loss,"
            " e.accuracy, o.losses, o.correct FROM evaluation e JOIN checkpoint c ON c.id = e.checkpoint_id"
            " JOIN trial t ON t.id = c.trial_id LEFT JOIN outcomes o ON o.evaluation_id = e.id",
        }
        results = {name: sorted(self._query(query), key=repr) for name, query in queries.items()}
        epochs = self._query("SELECT t.key, e.data FROM event e JOIN trial t ON t.id = e.trial_id WHERE kind = 'epoch'")
        curves = {(key, *_figures_of_epoch(data)) for key, data in epochs}
        return {**results, "epochs": sorted(curves, key=repr)}

    def count_evaluations(self) -> Counter[tuple[Any, ...]]:
        """Return how often each evaluation is in the database."""
        return Counter(evaluation[:5] for evaluation in self.read_results()["evaluations"])

    def wait_for_further_epoch(self, command: subprocess.Popen[str]) -> bool:
        """Wait until the running command has recorded another epoch; returns False if the command ends before."""
        before = self.count_epochs()
        while command.poll() is None:
            if self.count_epochs() > before:
                return True
            time.sleep(0.05)
        return False

    def count_epochs(self) -> int:
        """Return the number of epochs that all attempts reported."""
        return len(self._query("SELECT id FROM event WHERE kind = 'epoch'"))

    def list_resumed_epochs(self) -> list[int]:
        """Return the last finished epoch of each state from which an attempt resumed."""
        return [
            json.loads(data)["epoch"]
            for (data,) in self._query("SELECT data FROM event WHERE kind = 'training_resumed'")
        ]

    def list_state_files(self) -> list[str]:
        """Return the names of files with states of trainings."""
        return [path.name for path in (self.folder / "home" / "checkpoints").glob("*.state")]

    def _query(self, query: str) -> list[tuple[Any, ...]]:
        """The rows of a query; none while the database has no tables."""
        path = self.folder / "home" / "ledger.sqlite3"
        if not path.exists():
            return []
        with closing(sqlite3.connect(path, timeout=30)) as database:
            try:
                return database.execute(query).fetchall()
            except sqlite3.OperationalError as error:
                if "no such table" in str(error):
                    return []
                raise


def run_with_kills(
    study: KilledStudy,
    kills: int,
    draw: random.Random,
    *,
    kinds: Sequence[str] = (),
    mean_seconds: float | None = None,
) -> Counter[str]:
    """Run the study until it is complete, and kill processes at random moments; returns the number of kills by kind.

    Args:
        study: The study.
        kills: Number of kills; fewer if the study is complete before.
        draw: Draws moments and processes.
        kinds: Kinds of processes that are killed: `driver`, `worker` or `raylet`; all by default.
        mean_seconds: Mean time between two kills. By default each comes up to a second after an epoch was recorded
            that was trained since the last one.

    Raises:
        RuntimeError: The command ended with a traceback, or was started too often.
    """
    killed: Counter[str] = Counter()
    for _ in range(kills + _MAX_FURTHER_STARTS):
        command = study.start()
        driver = psutil.Process(command.pid)
        while command.poll() is None and killed.total() < kills:
            if not _wait_for_moment(study, command, draw, mean_seconds):
                break
            with suppress(psutil.Error):
                processes = _killable_processes(driver)
                kind = draw.choice(kinds or sorted(processes))
                if kind in processes:
                    draw.choice(processes[kind]).send_signal(signal.SIGKILL)
                    killed[kind] += 1
        study.output, errors = command.communicate(timeout=300)
        if command.returncode == 0:
            return killed
        if command.returncode > 0 and "Traceback" in errors:
            raise RuntimeError(f"the command ended with a traceback:\n{errors[-3000:]}")
    raise RuntimeError(f"the study was not done:\n{errors[-3000:]}")


def _wait_for_moment(
    study: KilledStudy, command: subprocess.Popen[str], draw: random.Random, mean_seconds: float | None
) -> bool:
    """Wait for the moment of a kill; returns False if the command ends before."""
    if mean_seconds is None:
        if not study.wait_for_further_epoch(command):
            return False
        time.sleep(draw.uniform(0, 1))
        return True
    with suppress(subprocess.TimeoutExpired):
        command.wait(draw.expovariate(1 / mean_seconds))
    return command.poll() is None


def _killable_processes(driver: psutil.Process) -> dict[str, list[psutil.Process]]:
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


def _figures_of_epoch(data: str) -> tuple[tuple[str, Any], ...]:
    """The values of an epoch without those that depend on the attempt."""
    return tuple(
        sorted((name, value) for name, value in json.loads(data).items() if name not in ("attempt", "seconds"))
    )
