"""Records of the ledger as response models."""

from __future__ import annotations

import json
from datetime import UTC, datetime

from bln_search.core.configuration import InferenceConfiguration, Method, Statistic
from bln_search.core.states import StudyState, TrialState
from bln_search.specs.records import TrialRecord
from bln_search.storage.events import EventRecord
from bln_search.storage.listing.studies import StudyItemWithSpec, StudyListItem
from bln_search.storage.results.evaluations import EvaluationRecord
from service.schemas.results import Checkpoint, ConfigurationOut, EvaluationOut, EventOut, Trial
from service.schemas.studies import Progress, Study, StudyDetail

_STUDY_FIELDS = (
    *("id", "name", "title", "state", "request", "reason", "owner", "priority", "notes", "revision", "digest"),
    *("created_at", "started_at", "ended_at"),
)
"""Fields that are equal in the record and in the response."""


def serialize_study(line: StudyListItem) -> Study:
    """Convert a study of a list."""
    trials = max(line.planned, sum(line.trials.values()))
    running = line.trials.get(TrialState.RUNNING, 0)
    return Study(
        **{name: getattr(line, name) for name in _STUDY_FIELDS},
        progress=Progress(
            trials=trials,
            ended=line.ended_trials,
            running=running,
            failed=line.trials.get(TrialState.FAILED, 0),
            fraction=line.ended_trials / trials if trials else 0.0,
        ),
        eta_seconds=_eta(line, trials),
    )


def _eta(line: StudyListItem, trials: int) -> float | None:
    """Seconds from the throughput of ended trials; None before the first has ended or while none runs."""
    if line.state == StudyState.COMPLETE:
        return 0.0
    if line.throughput is None:
        return None
    begun = line.ended_trials + line.trials.get(TrialState.FAILED, 0) + len(line.throughput.running)
    return round(line.throughput.remaining_seconds(max(0, trials - begun), datetime.now(UTC)), 1)


def serialize_study_detail(line: StudyItemWithSpec) -> StudyDetail:
    """Convert a study with its specification."""
    return StudyDetail(**serialize_study(line).model_dump(), spec=json.loads(line.spec_json))


def serialize_trial(trial: TrialRecord) -> Trial:
    """Convert a trial."""
    checkpoint_out = (
        None if trial.checkpoint is None else Checkpoint.model_validate(trial.checkpoint, from_attributes=True)
    )
    names = ("id", "position", "arm", "method", "seed", "parameters", "state", "reason")
    return Trial(**{name: getattr(trial, name) for name in names}, checkpoint=checkpoint_out)


def serialize_evaluation(record: EvaluationRecord) -> EvaluationOut:
    """Convert an evaluation of a trial."""
    evaluation, key = record.evaluation, record.evaluation.key
    return EvaluationOut(
        id=record.id,
        trial_id=record.trial_id,
        arm=record.arm,
        seed=record.seed,
        configuration=str(key.configuration),
        estimate=key.estimate,
        batch_size=key.batch_size,
        split=key.split,
        state=evaluation.state,
        n=evaluation.n,
        loss=evaluation.loss,
        accuracy=evaluation.accuracy,
        reason=evaluation.reason,
    )


def serialize_event(row: EventRecord) -> EventOut:
    """Convert an event."""
    return EventOut(number=row.number, at=row.at, kind=row.kind, trial_id=row.trial_id, data=row.data)


_SOURCES = {
    "T": "from the population",
    "F": "from the data at hand",
    "M": "from the memory of recent training mini-batches",
}


def serialize_configuration(configuration: InferenceConfiguration, method: Method) -> ConfigurationOut:
    """Convert a configuration, with an explanation."""
    sources = {statistic.value: source.value for statistic, source in configuration.sources.items()}
    meaning = "; ".join(f"{Statistic(name).label} {_SOURCES[code]}" for name, code in sources.items() if code != "-")
    return ConfigurationOut(
        word=str(configuration),
        method=method.value,
        sources=sources,
        deterministic=configuration.deterministic,
        meaning=meaning,
    )
