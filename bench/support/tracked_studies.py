"""Studies for trackers that are run without training, and what a tracker has of them, counted in its own files."""

from __future__ import annotations

import sqlite3
from collections import Counter
from collections.abc import Iterable
from contextlib import closing
from pathlib import Path

from bench.support.ledgers import SEEDS, STUDY, TrialEnds
from bench.support.null_executor import NullExecutor
from bench.support.wandb_files import read_offline_run
from bln_search.core.states import StudyState
from bln_search.specs import parse_study
from bln_search.storage.ledger import Ledger
from bln_search.worker import run_study

_PARALLEL_TRIALS = 50

RunsByTrial = dict[str, list[list[int]]]
"""The epochs of each complete run, by the first eight digits of the key of its trial."""


def run_simulated_study(ledger: Ledger, trials: int, epochs: int, name: str = "grown") -> int:
    """Run a study whose trials end at once, with random results; return its id.

    Args:
        ledger: Ledger of the study.
        trials: Number of its trials, a multiple of `SEEDS`.
        epochs: Epochs of each trial.
        name: Its name.
    """
    rates = [round(1e-4 * 1.0005**index, 10) for index in range(trials // SEEDS)]
    study_id = ledger.studies.store_study_once(parse_study(STUDY.format(rates=rates).replace("grown", name)))
    executor = NullExecutor(_PARALLEL_TRIALS, epochs, seconds=0, examples=0)
    assert run_study(ledger, study_id, executor, TrialEnds()) is StudyState.COMPLETE
    return study_id


def read_mlflow_runs(database_file: Path) -> RunsByTrial:
    """Read the finished runs in the database of an MLflow server."""
    of_runs = (
        "SELECT runs.run_uuid, tags.value FROM runs JOIN tags ON tags.run_uuid = runs.run_uuid "
        "WHERE tags.key = 'bln_search.trial' AND tags.value != 'study' AND runs.status = 'FINISHED' "
        "AND runs.lifecycle_stage = 'active'"
    )
    runs: RunsByTrial = {}
    epochs: dict[str, list[int]] = {}
    with closing(sqlite3.connect(database_file)) as connection:
        for run_id, trial in connection.execute(of_runs):
            runs.setdefault(trial[:8], []).append(epochs.setdefault(run_id, []))
        for run_id, step in connection.execute("SELECT run_uuid, step FROM metrics WHERE key = 'validation_loss'"):
            if run_id in epochs:
                epochs[run_id].append(step)
    return runs


def read_tensorboard_runs(folder: Path) -> RunsByTrial:
    """Read the ended runs of a folder of event files, whose names end with the digits of the trial."""
    from bln_search.integrations.trackers.event_file import EventFile

    runs: RunsByTrial = {}
    for file in folder.rglob("events.*"):
        events = EventFile(file).read_events()
        tags = [(event.step, value.tag) for event in events for value in event.summary.value]
        if any(tag == "_hparams_/session_end_info" for _, tag in tags):
            trial = file.parent.name.rpartition("-")[2]
            runs.setdefault(trial, []).append([step for step, tag in tags if tag == "validation_loss"])
    return runs


def read_wandb_runs(folder: Path) -> RunsByTrial:
    """Read the ended offline runs of a folder."""
    runs: RunsByTrial = {}
    for path in (folder / "wandb").glob("offline-run-*"):
        run = read_offline_run(path)
        if run.exit_code is not None and "bln_search.trial" in run.config:
            trial = run.config["bln_search.trial"][:8]
            runs.setdefault(trial, []).append([row["_step"] for row in run.history])
    return runs


def count_doubles(values: Iterable[object]) -> int:
    """Return how many values are there too often: 2 for a value that is there three times."""
    return sum(count - 1 for count in Counter(values).values())
