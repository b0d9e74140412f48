"""Records of the ledger as response models."""

from __future__ import annotations

import json
from datetime import UTC, datetime

from bln_search.core.configuration import InferenceConfiguration
from bln_search.core.configuration_explanation import explain_configuration
from bln_search.core.method import Method, describe_origin
from bln_search.core.states import StudyState, TrialState
from bln_search.ranking.selection.row_cost import is_deterministic_configuration
from bln_search.specs.records import TrialRecord
from bln_search.storage.events import EventRecord
from bln_search.storage.listing.studies import StudyListItem, StudyListItemWithSpec
from bln_search.storage.listing.trials import TrialActivity
from bln_search.storage.results.evaluations import EvaluationRecord
from service.schemas.base import project
from service.schemas.results import ConfigurationOut, EvaluationOut, EventOut, Trial
from service.schemas.studies import Progress, Study, StudyDetail


def serialize_study(item: StudyListItem) -> Study:
    """Convert a study of a list."""
    trials = max(item.planned, sum(item.trials.values()))
    finished = item.num_trials_with_result + item.finished_fractions
    progress = Progress(
        trials=trials,
        ended=item.num_trials_with_result,
        running=item.trials.get(TrialState.RUNNING, 0),
        failed=item.trials.get(TrialState.FAILED, 0),
        fraction=min(1.0, finished / trials) if trials else 0.0,
    )
    return project(Study, item, progress=progress, eta_seconds=_estimate_remaining_seconds(item, trials))


def _estimate_remaining_seconds(item: StudyListItem, trials: int) -> float | None:
    """Seconds from the throughput; None before the first epoch."""
    if item.state == StudyState.COMPLETE:
        return 0.0
    if item.throughput is None:
        return None
    started = item.num_trials_with_result + item.trials.get(TrialState.FAILED, 0) + len(item.throughput.running)
    seconds = item.throughput.estimate_remaining_seconds(max(0, trials - started), datetime.now(UTC))
    return None if seconds is None else round(seconds, 1)


def serialize_study_detail(item: StudyListItemWithSpec) -> StudyDetail:
    """Convert a study with its specification."""
    return StudyDetail(
        **serialize_study(item).model_dump(), spec=json.loads(item.spec_json), code_changes=item.code_changes
    )


def serialize_trial(trial: TrialRecord, activity: TrialActivity, now: datetime) -> Trial:
    """Convert a trial.

    Args:
        trial: The trial.
        activity: Its attempts and last epoch.
        now: The present time, until which a running attempt has lasted.
    """
    seconds = activity.total_attempt_seconds(now)
    rounded = None if seconds is None else round(seconds, 2)
    return project(Trial, trial, activity, planned_epochs=trial.spec.epochs, seconds=rounded)


def serialize_evaluation(record: EvaluationRecord) -> EvaluationOut:
    """Convert an evaluation of a trial."""
    key = record.evaluation.key
    return project(EvaluationOut, record, record.evaluation, key, configuration=str(key.configuration))


def serialize_event(row: EventRecord, *, with_accounts: bool) -> EventOut:
    """Convert an event. with_accounts: whether the names of accounts are shown; a share link shows none."""
    data = {name: value for name, value in row.data.items() if with_accounts or name != "account"}
    return project(EventOut, row, data=data)


def serialize_configuration(
    configuration: InferenceConfiguration, method: Method, *, per_slot: bool = False
) -> ConfigurationOut:
    """Convert a configuration, with an explanation.

    Args:
        configuration: The configuration.
        method: Method of the normalization layers.
        per_slot: Whether the population has a value for each position in the mini-batch.
    """
    sources = {statistic.value: source.value for statistic, source in configuration.source_by_statistic.items()}
    meaning = "; ".join(
        f"{statistic.label} {describe_origin(source, 'the data at hand')}"
        for statistic, source in configuration.source_by_statistic.items()
        if not source.is_absent
    )
    return ConfigurationOut(
        code=str(configuration),
        method=method.value,
        sources=sources,
        deterministic=is_deterministic_configuration(configuration, per_slot=per_slot),
        meaning=meaning,
        explanation=explain_configuration(configuration),
    )
