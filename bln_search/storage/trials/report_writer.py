"""Writes the reports of many attempts in one transaction, with a number of statements that does not grow with them."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from datetime import datetime
from typing import TypeGuard, get_args

from sqlalchemy import delete, select
from sqlalchemy.orm import Session

from bln_search.core.errors import StaleAttemptError
from bln_search.core.records import EVALUATION_PEAK_MEMORY, CheckpointRecord, EpochRecord
from bln_search.storage.bulk_insert import insert_rows, insert_rows_and_return_ids
from bln_search.storage.events import NewEvent, append_events
from bln_search.storage.outcome_codec import encode_losses_and_correctness
from bln_search.storage.row_factories import (
    make_checkpoint_column_values,
    make_evaluation_column_values,
    make_probe_column_values,
    make_snapshot_column_values,
)
from bln_search.storage.tables import (
    AttemptRow,
    CheckpointRow,
    EpochWeightsRow,
    EvaluationRow,
    EventRow,
    OutcomesRow,
    ProbeRow,
)
from bln_search.storage.trials.reports import (
    AttemptReport,
    CheckpointReport,
    EndReport,
    EpochsReport,
    EvaluationReport,
    ResumptionReport,
    describe_end,
)
from bln_search.storage.trials.running_attempts import (
    RunningAttempt,
    end_attempts_and_count_results_by_study,
    lock_still_running_attempts,
)


def write_reports(session: Session, reports: Sequence[AttemptReport], now: datetime) -> None:
    """Write reports, in their order.

    Raises:
        StaleAttemptError: An attempt no longer runs, or ended by an earlier one of the reports.
    """
    attempts = lock_still_running_attempts(session, [report.token for report in reports])
    _check_attempts_run(session, reports, attempts)
    checkpoints = [report for report in reports if isinstance(report, CheckpointReport)]
    _write_checkpoints(session, {attempts[report.token].trial_id: report.checkpoint for report in checkpoints}, now)
    evaluated = {attempts[report.token].trial_id: report for report in reports if isinstance(report, EvaluationReport)}
    _write_evaluations_probes_and_streams(session, evaluated)
    ends = [(attempts[report.token], describe_end(report)[0]) for report in reports if _ends_attempt(report)]
    results = end_attempts_and_count_results_by_study(session, ends, now)
    resumed = [attempts[report.token].trial_id for report in reports if isinstance(report, ResumptionReport)]
    recorded = _read_recorded_epochs(session, resumed)
    events: dict[int, list[NewEvent]] = {}
    for report in reports:
        attempt = attempts[report.token]
        events.setdefault(attempt.study_id, []).extend(_make_events(report, attempt, recorded))
    for study_id in sorted(events):
        append_events(session, study_id, now, events[study_id], results=results.get(study_id, 0))


def _make_epoch_events(records: Sequence[EpochRecord], attempt: RunningAttempt) -> list[NewEvent]:
    return [
        NewEvent("epoch", {"attempt": attempt.number, **record.epoch_values_by_name}, attempt.trial_id)
        for record in records
    ]


def _ends_attempt(report: AttemptReport) -> TypeGuard[EndReport]:
    return isinstance(report, get_args(EndReport))


def _check_attempts_run(
    session: Session, reports: Sequence[AttemptReport], attempts: Mapping[int, RunningAttempt]
) -> None:
    ended: set[int] = set()
    for report in reports:
        token = report.token
        if token not in attempts or token in ended:
            stored = (
                "ended" if token in ended else session.scalar(select(AttemptRow.state).where(AttemptRow.id == token))
            )
            raise StaleAttemptError(
                f"attempt {token} is {stored or 'unknown'}: its report came too late and was rejected"
            )
        if _ends_attempt(report):
            ended.add(token)


def _write_checkpoints(session: Session, checkpoints: Mapping[int, CheckpointRecord], now: datetime) -> None:
    """Store the network of each trial, in place of an earlier one whose file was lost."""
    if not checkpoints:
        return
    session.execute(delete(CheckpointRow).where(CheckpointRow.trial_id.in_(checkpoints)))
    rows = [make_checkpoint_column_values(record, trial_id, now) for trial_id, record in checkpoints.items()]
    ids = insert_rows_and_return_ids(session, CheckpointRow, rows)
    records = zip(checkpoints.values(), ids, strict=True)
    insert_rows(
        session,
        EpochWeightsRow,
        [row for record, new_id in records for row in make_snapshot_column_values(record, new_id)],
    )


def _write_evaluations_probes_and_streams(session: Session, reports: Mapping[int, EvaluationReport]) -> None:
    """Store the evaluations, outcomes, probes and streams of the reports, by trial."""
    if not reports:
        return
    stored = session.execute(
        select(CheckpointRow.trial_id, CheckpointRow.id).where(CheckpointRow.trial_id.in_(reports))
    )
    checkpoints = {row.trial_id: row.id for row in stored}
    _add_peaks_to_provenance(
        session, {checkpoints[trial_id]: report.peak_memory for trial_id, report in reports.items()}
    )
    evaluations = [
        (checkpoints[trial_id], evaluation) for trial_id, report in reports.items() for evaluation in report.evaluations
    ]
    rows = [make_evaluation_column_values(evaluation, checkpoint) for checkpoint, evaluation in evaluations]
    outcomes = []
    for (_, evaluation), new_id in zip(
        evaluations, insert_rows_and_return_ids(session, EvaluationRow, rows), strict=True
    ):
        if evaluation.outcomes is not None:
            losses, correct = encode_losses_and_correctness(evaluation.outcomes)
            outcomes.append({"evaluation_id": new_id, "losses": losses, "correct": correct})
    insert_rows(session, OutcomesRow, outcomes)
    session.execute(delete(ProbeRow).where(ProbeRow.checkpoint_id.in_(checkpoints.values())))
    probes = [
        make_probe_column_values(probe, checkpoints[trial_id])
        for trial_id, report in reports.items()
        for probe in report.probes
    ]
    insert_rows(session, ProbeRow, probes)
    streams = {checkpoints[trial_id]: report.streams for trial_id, report in reports.items() if report.streams}
    if streams:
        from bln_search.storage.results.stream_codec import write_streams  # noqa: PLC0415 - it imports NumPy

        write_streams(session, streams)


def _add_peaks_to_provenance(session: Session, peaks: Mapping[int, int | None]) -> None:
    """Add the peak of GPU memory of the evaluation to the provenance of each checkpoint that has one."""
    for checkpoint_id, peak in peaks.items():
        if peak is not None:
            checkpoint = session.get_one(CheckpointRow, checkpoint_id)
            checkpoint.provenance = {**checkpoint.provenance, EVALUATION_PEAK_MEMORY: peak}
    session.flush()


def _read_recorded_epochs(session: Session, trial_ids: Sequence[int]) -> set[tuple[int, int]]:
    """The recorded epochs of these trials, each as its trial and its number."""
    if not trial_ids:
        return set()
    epochs = select(EventRow.trial_id, EventRow.data).where(EventRow.trial_id.in_(trial_ids), EventRow.kind == "epoch")
    return {(trial_id or 0, data["epoch"]) for trial_id, data in session.execute(epochs)}


def _make_events(
    report: AttemptReport, attempt: RunningAttempt, recorded: Collection[tuple[int, int]]
) -> list[NewEvent]:
    """The events of a report. recorded: epochs of resumed trials that are not recorded again."""
    trial_id = attempt.trial_id
    match report:
        case EpochsReport(records=records):
            return _make_epoch_events(records, attempt)
        case ResumptionReport(records=records):
            missing = [record for record in records if (trial_id, record.epoch) not in recorded]
            data = {"attempt": attempt.number, "epoch": len(records)}
            return [NewEvent("training_resumed", data, trial_id), *_make_epoch_events(missing, attempt)]
        case CheckpointReport(checkpoint=checkpoint):
            return [NewEvent("trained", {"epoch": checkpoint.epoch}, trial_id)]
        case _:
            return [NewEvent(*describe_end(report)[1:], trial_id)]
