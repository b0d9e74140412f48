"""Studies for trackers that are run without training, and what a tracker has of them, counted in its own files."""

from __future__ import annotations

import sqlite3
from collections import Counter
from collections.abc import Iterable
from contextlib import closing
from pathlib import Path

from bench.support.ledgers import SEEDS, STUDY, TrialEnds
from bench.support.null_executor import NullExecutor
from bln_search.core.states import StudyState
from bln_search.specs import parse_study
from bln_search.storage.ledger import Ledger
from bln_search.worker import run_study

_PARALLEL_TRIALS = 50


def run_simulated_study(ledger: Ledger, trials: int, epochs: int) -> int:
    """Run a study whose trials end at once, with random results; return its id. trials: a multiple of `SEEDS`."""
    rates = [round(1e-4 * 1.0005**index, 10) for index in range(trials // SEEDS)]
    study_id = ledger.studies.store_study_once(parse_study(STUDY.format(rates=rates)))
    executor = NullExecutor(_PARALLEL_TRIALS, epochs, seconds=0, examples=0)
    assert run_study(ledger, study_id, executor, TrialEnds()) is StudyState.COMPLETE
    return study_id


def count_mlflow_epochs(database_file: Path) -> dict[str, list[int]]:
    """Return the epochs of every finished run in the database of an MLflow server, by id, with those of doubles."""
    query = (
        "SELECT runs.run_uuid, metrics.step FROM runs JOIN metrics ON metrics.run_uuid = runs.run_uuid "
        "WHERE metrics.key = 'validation_loss' AND runs.status = 'FINISHED' AND runs.lifecycle_stage = 'active'"
    )
    epochs: dict[str, list[int]] = {}
    with closing(sqlite3.connect(database_file)) as connection:
        for run_id, step in connection.execute(query):
            epochs.setdefault(run_id, []).append(step)
    return epochs


def list_mlflow_trials(database_file: Path) -> list[str]:
    """Return the key of the trial of every run in the database of an MLflow server, without that of the study."""
    query = (
        "SELECT tags.value FROM tags JOIN runs ON runs.run_uuid = tags.run_uuid WHERE tags.key = 'bln_search.trial' "
        "AND tags.value != 'study' AND runs.lifecycle_stage = 'active'"
    )
    with closing(sqlite3.connect(database_file)) as connection:
        return [key for (key,) in connection.execute(query)]


def count_doubles(values: Iterable[object]) -> int:
    """Return how many values are there more than once, each counted as often as it is too much."""
    return sum(count - 1 for count in Counter(values).values())
