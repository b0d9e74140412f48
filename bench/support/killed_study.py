"""A study in a folder of its own that saves its trainings often, and what its database holds afterwards."""

from __future__ import annotations

import json
import os
import sqlite3
import subprocess
import sys
import time
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

_COMMAND = "import sys; from bln_search.cli.main import main; main()"


class KilledStudy:
    """A study whose processes are killed.

    Args:
        folder: New folder of database and checkpoints.
        text: The study file.
        save_seconds: Value of BLN_SEARCH_SAVE_TRAINING_SECONDS.
        options: Further options of `bln-search run`.

    Attributes:
        output: The leaderboard of the last complete command.
    """

    def __init__(self, folder: Path, text: str, save_seconds: str, options: Sequence[str] = ()) -> None:
        folder.mkdir(parents=True)
        self.folder, self.options, self.output = folder, options, ""
        self.file = folder / "study.yaml"
        self.file.write_text(text)
        self.environment = {
            **os.environ,
            "BLN_SEARCH_HOME": str(folder / "home"),
            "BLN_SEARCH_CACHE": str(folder / "cache"),
            "BLN_SEARCH_SAVE_TRAINING_SECONDS": save_seconds,
        }

    def start(self) -> subprocess.Popen[str]:
        """Start the command in a separate process group."""
        return subprocess.Popen(
            [sys.executable, "-c", _COMMAND, "run", str(self.file), "--format", "csv", *self.options],
            env=self.environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )

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


def _figures_of_epoch(data: str) -> tuple[tuple[str, Any], ...]:
    """The values of an epoch without those that depend on the attempt."""
    return tuple(
        sorted((name, value) for name, value in json.loads(data).items() if name not in ("attempt", "seconds"))
    )
