"""Route of a study's checkpoint files."""

from __future__ import annotations

import pathlib
from typing import Annotated

from fastapi import APIRouter, Path, Response
from fastapi.responses import FileResponse

from service.api_route import ApiRoute
from service.context import ContextDep
from service.http.problems import MEDIA_TYPE as PROBLEM_MEDIA_TYPE
from service.http.problems import ProblemException
from service.results.checkpoint_files import get_verified_checkpoint_path_or_bytes
from service.security import ReadableStudy, Reader

router = APIRouter(prefix="/studies/{study_id:number}", tags=["results"], route_class=ApiRoute)


@router.get(
    "/checkpoints/{checkpoint_id:number}",
    operation_id="get_checkpoint",
    response_class=FileResponse,
    responses={
        200: {
            "description": "the weights as safetensors",
            "content": {"application/octet-stream": {"schema": {"type": "string", "format": "binary"}}},
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
    try:
        file = get_verified_checkpoint_path_or_bytes(
            context.settings.checkpoint_store, context.ledger, study.id, record
        )
    except (FileNotFoundError, IsADirectoryError):
        freed_at = context.ledger.checkpoints.find_freed_time(study.id, record.file)
        reason = "is missing in the checkpoint store"
        if freed_at is not None:
            reason = f"was removed on {freed_at:%Y-%m-%d} to free disk space; its results are kept"
        raise ProblemException(404, "file-gone", f"the file {record.file} {reason}") from None
    headers = {"ETag": f'"{record.sha256}"'}
    if isinstance(file, pathlib.Path):
        return FileResponse(file, filename=record.file, media_type="application/octet-stream", headers=headers)
    headers["Content-Disposition"] = f'attachment; filename="{record.file}"'
    return Response(file, media_type="application/octet-stream", headers=headers)
