"""Requests for exports of trained networks: the row, the network, and what the responses show."""

from __future__ import annotations

from collections.abc import Sequence
from types import SimpleNamespace

from bln_search.core.configuration import InferenceConfiguration
from bln_search.core.errors import ExportError
from bln_search.core.exports import ExportKey, ExportRecord, export_archive_base_name
from bln_search.core.states import ExportState
from bln_search.ranking.leaderboard import LeaderboardRow
from bln_search.ranking.row_choice import BEST, RECOMMENDED, RowQuery, get_matching_row, get_recommended_row
from bln_search.specs.sections.space import format_encoded_point
from service.admission import check_free_disk_space
from service.context import AppContext
from service.http.problems import ProblemException
from service.schemas.base import project
from service.schemas.exports import Export, ExportRequest
from service.security import StudyAccess, make_missing_analysis_problem

_NO_ARCHIVE = SimpleNamespace(size=None, sha256=None)


def request_export(context: AppContext, study: StudyAccess, body: ExportRequest) -> ExportRecord:
    """Store the request for an export, or find the equal one.

    Raises:
        ProblemException: 404 if the recommended row is requested before it is known, 507 if the disk is nearly full.
        ExportError: The row or its network does not exist, or cannot be exported.
        ExportLimitError: The account has too many open exports.
    """
    check_free_disk_space(context.settings, "export")
    row = _choose_requested_row(context, study, body)
    trial = context.ledger.exports.get_trial_to_export(study.id, row.key, body.seed)
    return context.ledger.exports.request_export(
        study.id,
        ExportKey(trial.id, row.key, body.format),
        study.bearer.account,
        keep=context.settings.export_lifetime,
        limit=context.settings.most_exports,
    )


def get_export_record(context: AppContext, study_id: int, export_id: int) -> ExportRecord:
    """Return an export. Raises ProblemException (404) if the study has none with that id."""
    record = context.ledger.exports.find_export(study_id, export_id) if 0 < export_id < 2**31 else None
    if record is None:
        raise ProblemException(404, "not-found", f"study {study_id} has no export {export_id}")
    return record


def serialize_export(context: AppContext, study_name: str, record: ExportRecord) -> Export:
    """Convert an export."""
    (export,) = serialize_exports(context, study_name, [record])
    return export


def serialize_exports(context: AppContext, study_name: str, records: Sequence[ExportRecord]) -> list[Export]:
    """Convert exports of a study."""
    has_worker = bool(records) and bool(context.ledger.workers.list_live_workers())
    return [
        project(
            Export,
            record,
            record.key,
            record.key.row,
            record.archive or _NO_ARCHIVE,
            name=export_archive_base_name(study_name, record),
            parameters=format_encoded_point(record.key.row.point),
            configuration=record.key.row.configuration.code,
            waiting_before=(
                context.ledger.exports.count_exports_waiting_before(record)
                if record.state is ExportState.REQUESTED
                else 0
            ),
            has_worker=has_worker,
        )
        for record in records
    ]


def _choose_requested_row(context: AppContext, study: StudyAccess, body: ExportRequest) -> LeaderboardRow:
    board = context.leaderboards.get_or_compute(study.id, study.results)
    if board.spec.external is not None:
        raise ExportError(
            f"study {study.id} has external results: its networks were trained elsewhere and are not stored"
        )
    if body.configuration == RECOMMENDED:
        if (body.estimate, body.arm, body.batch_size, body.parameters) != (None, None, None, None):
            raise ExportError("the recommended row is determined: leave out what describes a row, or use `best`")
        analysis = context.analyses.find_or_load_current_analysis(study.id)
        if analysis is None:
            raise make_missing_analysis_problem(study)
        return get_recommended_row(board.leaderboard, analysis)
    return get_matching_row(board.leaderboard, _parse_row_choice(body))


def _parse_row_choice(body: ExportRequest) -> RowQuery:
    try:
        code = None if body.configuration == BEST else InferenceConfiguration(body.configuration)
    except ValueError as error:
        raise ExportError(str(error)) from None
    return RowQuery(code, body.estimate, body.arm, body.batch_size, body.parameters)
