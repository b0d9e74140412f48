"""Rows of the ledger as answers."""

from __future__ import annotations

import json
from datetime import UTC, datetime

from bln_search.core.configuration import InferenceConfiguration, Method
from bln_search.core.records import without_drift
from bln_search.core.states import StudyState, TrialState
from bln_search.storage.browse import StudyLine
from bln_search.storage.tables import CheckpointRow, EvaluationRow, EventRow, TrialRow
from service.schemas import Checkpoint, ConfigurationOut, EvaluationOut, EventOut, Progress, Study, StudyDetail, Trial


def study_view(line: StudyLine) -> Study:
    """A study in a list."""
    trials = max(line.planned, sum(line.trials.values()))
    running = line.trials.get(TrialState.RUNNING, 0)
    return Study(
        **{name: getattr(line, name) for name in _SAME},
        progress=Progress(
            trials=trials,
            ended=line.ended,
            running=running,
            failed=line.trials.get(TrialState.FAILED, 0),
            fraction=line.ended / trials if trials else 0.0,
        ),
        eta_seconds=_eta(line, trials),
    )


_SAME = (
    *("id", "name", "title", "state", "request", "reason", "owner", "priority", "notes", "revision", "digest"),
    *("created_at", "started_at", "ended_at"),
)


def _eta(line: StudyLine, trials: int) -> float | None:
    """By the pace of the trials that have ended; None before the first has, or while nothing runs."""
    if line.state == StudyState.COMPLETE:
        return 0.0
    if line.pace is None:
        return None
    begun = line.ended + line.trials.get(TrialState.FAILED, 0) + len(line.pace.running)
    return round(line.pace.left(max(0, trials - begun), datetime.now(UTC)), 1)


def detail_view(line: StudyLine, spec: str) -> StudyDetail:
    """A study with its specification."""
    return StudyDetail(**study_view(line).model_dump(), spec=json.loads(spec))


def trial_view(trial: TrialRow, checkpoint: CheckpointRow | None) -> Trial:
    """A trial of a study."""
    kept = None if checkpoint is None else Checkpoint.model_validate(checkpoint, from_attributes=True)
    if kept is not None:  # figures of every layer have an address of their own
        kept.provenance = without_drift(kept.provenance)
    names = ("id", "position", "arm", "method", "seed", "parameters", "state", "reason")
    return Trial(**{name: getattr(trial, name) for name in names}, checkpoint=kept)


def evaluation_view(row: EvaluationRow, trial: TrialRow) -> EvaluationOut:
    """An evaluation with what its trial is."""
    names = ("id", "configuration", "batch_size", "split", "state", "n", "loss", "accuracy", "reason")
    same = {name: getattr(row, name) for name in names}
    return EvaluationOut(**same, trial_id=trial.id, arm=trial.arm, seed=trial.seed, estimate=row.estimate or None)


def event_view(row: EventRow) -> EventOut:
    """An event."""
    return EventOut(number=row.number, at=row.at, kind=row.kind, trial_id=row.trial_id, data=row.data)


_NAMES = {
    "E_B": "mini-batch mean",
    "Std_B": "mini-batch deviation",
    "E_F": "feature mean",
    "Std_F": "feature deviation",
}
_SOURCES = {
    "T": "from the population",
    "F": "from the data at hand",
    "M": "from the memory of recent training mini-batches",
}


def configuration_view(configuration: InferenceConfiguration, method: Method) -> ConfigurationOut:
    """What a configuration means."""
    sources = {statistic.value: source.value for statistic, source in configuration.sources.items()}
    meaning = "; ".join(f"{_NAMES[name]} {_SOURCES[letter]}" for name, letter in sources.items() if letter != "-")
    return ConfigurationOut(
        word=str(configuration),
        method=method.value,
        sources=sources,
        deterministic=configuration.deterministic,
        meaning=meaning,
    )
