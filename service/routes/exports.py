"""Routes of exports: workers build them on request, and their archives are downloaded."""

from __future__ import annotations

import logging
from typing import Annotated

from fastapi import APIRouter, Path, Response

from bln_search.core.exports import ARCHIVE_SUFFIX, ExportRecord, export_archive_base_name
from bln_search.core.states import ExportState
from service.api_route import ApiRoute
from service.context import ContextDep
from service.http.pagination import Limit
from service.http.problems import MEDIA_TYPE as PROBLEM_MEDIA_TYPE
from service.http.problems import ProblemException
from service.results.exports import get_export_record, request_export, serialize_export, serialize_exports
from service.results.stored_files import MEDIA_TYPE, DamagedFileError, make_stored_file_response
from service.schemas.base import ListPage
from service.schemas.exports import Export, ExportRequest
from service.security import ReadableStudy, Reader, WritableStudy

_log = logging.getLogger(__name__)
router = APIRouter(prefix="/studies/{study_id:number}/exports", tags=["results"], route_class=ApiRoute)
ExportId = Annotated[int, Path(description="`id` of an export")]
_RETRY_SECONDS = "2"


@router.post(
    "",
    operation_id="request_export",
    status_code=202,
    responses={200: {"model": Export, "description": "It was built before: it is ready"}},
)
def request_study_export(study: WritableStudy, body: ExportRequest, context: ContextDep, response: Response) -> Export:
    """Let a worker export a trained network under a row of the leaderboard. The same request is the same export.

    The answer is 200 if the archive is ready, otherwise 202; a failed or expired export is built again.
    """
    record = request_export(context, study, body)
    _log.info("export %d of study %d is requested by %s", record.id, study.id, study.bearer.account)
    response.status_code = 200 if record.state is ExportState.READY else 202
    response.headers["Location"] = f"/api/v1/studies/{study.id}/exports/{record.id}"
    return serialize_export(context, study.name, record)


@router.get("", operation_id="list_exports")
def list_exports(study: ReadableStudy, context: ContextDep, _reader: Reader, limit: Limit = 50) -> ListPage[Export]:
    """The exports of a study that were requested last, newest first; there are no further pages."""
    records = context.ledger.exports.list_newest_exports(study.id, limit)
    return ListPage(items=serialize_exports(context, study.name, records), next_cursor=None)


@router.get("/{export_id:number}", operation_id="get_export")
def get_export(study: ReadableStudy, export_id: ExportId, context: ContextDep, _reader: Reader) -> Export:
    """An export: its state, what the worker is doing, its place in the queue."""
    return serialize_export(context, study.name, get_export_record(context, study.id, export_id))


@router.get(
    "/{export_id:number}/download",
    operation_id="download_export",
    response_class=Response,
    responses={
        200: {
            "description": "the archive",
            "content": {MEDIA_TYPE: {"schema": {"type": "string", "format": "binary"}}},
        },
        410: {
            "description": "the archive was deleted; it is built again after another request",
            "content": {PROBLEM_MEDIA_TYPE: {"schema": {"$ref": "#/components/schemas/ProblemDocument"}}},
        },
    },
)
def download_export(study: ReadableStudy, export_id: ExportId, context: ContextDep, _reader: Reader) -> Response:
    """The archive (ZIP): the files that `bln-search export` writes. Their SHA-256 are in `configuration.json`."""
    record = get_export_record(context, study.id, export_id)
    if record.archive is None:
        raise _make_not_ready_problem(record)
    name = f"{export_archive_base_name(study.name, record)}{ARCHIVE_SUFFIX}"
    settings, archive = context.settings, record.archive
    try:
        return make_stored_file_response(settings.checkpoint_store, archive.file, archive.sha256, name, settings.home)
    except (FileNotFoundError, DamagedFileError) as error:
        if isinstance(error, DamagedFileError):
            _log.error("archive %s is damaged: SHA-256 %s, recorded %s", archive.file, error.digest, archive.sha256)
        context.ledger.checkpoints.check_store(settings.checkpoint_store)
        context.ledger.exports.mark_archive_lost(study.id, record.id)
        raise _make_not_ready_problem(get_export_record(context, study.id, export_id)) from None


def _make_not_ready_problem(record: ExportRecord) -> ProblemException:
    if record.is_waiting_or_running:
        detail = f"export {record.id} is {record.state}: try again when it is ready"
        return ProblemException(409, "not-ready", detail, headers={"Retry-After": _RETRY_SECONDS})
    if record.state is ExportState.FAILED:
        return ProblemException(409, "export-failed", f"export {record.id} cannot be built: {record.reason}")
    return ProblemException(
        410, "export-expired", f"the archive of export {record.id} is not stored any more: request it again"
    )
