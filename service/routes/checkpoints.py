"""Route of a study's checkpoint files."""

from __future__ import annotations

import logging
from typing import Annotated

from fastapi import APIRouter, Path, Response
from fastapi.responses import FileResponse

from bln_search.core.errors import BlnSearchError
from bln_search.core.records import CheckpointRecord
from service.api_route import ApiRoute
from service.context import AppContext, ContextDep
from service.http.problems import MEDIA_TYPE as PROBLEM_MEDIA_TYPE
from service.http.problems import ProblemException
from service.results.stored_files import MEDIA_TYPE, DamagedFileError, make_stored_file_response
from service.security import ReadableStudy, Reader

_log = logging.getLogger(__name__)
router = APIRouter(prefix="/studies/{study_id:number}", tags=["results"], route_class=ApiRoute)


@router.get(
    "/checkpoints/{checkpoint_id:number}",
    operation_id="get_checkpoint",
    response_class=FileResponse,
    responses={
        200: {
            "description": "the weights as safetensors",
            "content": {MEDIA_TYPE: {"schema": {"type": "string", "format": "binary"}}},
        },
        502: {
            "description": "the file is damaged",
            "content": {PROBLEM_MEDIA_TYPE: {"schema": {"$ref": "#/components/schemas/ProblemDocument"}}},
        },
    },
)
def get_checkpoint(
    study: ReadableStudy,
    checkpoint_id: Annotated[int, Path(description="`checkpoint.id` of a trial")],
    context: ContextDep,
    _reader: Reader,
) -> Response:
    """The checkpoint as a safetensors file, with the population statistics."""
    record = context.ledger.checkpoints.find_checkpoint(study.id, checkpoint_id) if 0 < checkpoint_id < 2**31 else None
    if record is None:
        raise ProblemException(404, "not-found", f"study {study.id} has no checkpoint {checkpoint_id}")
    settings = context.settings
    try:
        return make_stored_file_response(
            settings.checkpoint_store, record.file, record.sha256, record.file, settings.home
        )
    except FileNotFoundError:
        freed_at = context.ledger.checkpoints.find_freed_time(study.id, record.file)
        if freed_at is None:
            context.ledger.checkpoints.check_store(settings.checkpoint_store)
            reason = "is missing in the checkpoint store"
        else:
            reason = f"was removed on {freed_at:%Y-%m-%d} to free disk space; its results are kept"
        raise ProblemException(404, "file-gone", f"the file {record.file} {reason}") from None
    except DamagedFileError as error:
        _record_damage(context, study.id, record, error.digest)
        raise ProblemException(
            502,
            "damaged",
            f"the file {record.file} is damaged: its content is not the trained network; the operator of this service "
            "can restore it from a backup",
        ) from None


def _record_damage(context: AppContext, study_id: int, record: CheckpointRecord, digest: str) -> None:
    """Log the damage, and record it as an event of the study."""
    assert record.trial_id is not None, "it was read from the ledger"
    extra = {"study_id": study_id}
    _log.error("checkpoint %s is damaged: SHA-256 %s, recorded %s", record.file, digest, record.sha256, extra=extra)
    try:
        context.ledger.checkpoints.record_damaged_file(study_id, record.trial_id, record.file)
    except BlnSearchError as error:
        _log.warning("the damage cannot be recorded as an event of the study: %s", error, extra=extra)
