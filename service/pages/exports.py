"""Exports on the page of a configuration: a form, their state, and links to their archives."""

from __future__ import annotations

from typing import Annotated, Any
from urllib.parse import parse_qs

from fastapi import APIRouter, Depends, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import HTMLResponse, RedirectResponse
from pydantic import ValidationError

from bln_search.core.enums import ArchiveContents, ExportStep
from bln_search.core.exports import ExportRecord
from bln_search.core.states import ExportState
from bln_search.ranking.leaderboard import LeaderboardRow
from service.context import AppContext, ContextDep
from service.http.problems import make_invalid_request_problem
from service.pages.rendering.templates import render_fragment_response, url_with_query
from service.results.exports import get_export_record, request_export, serialize_export, serialize_exports
from service.routes.exports import ExportId
from service.schemas.exports import ExportRequest
from service.security import ReadableStudy, Reader, StudyAccess, WritableStudy

router = APIRouter(prefix="/studies/{study_id:number}", include_in_schema=False)
_FORMAT_LABELS = {
    ArchiveContents.ALL: "everything",
    ArchiveContents.ONNX: "ONNX program",
    ArchiveContents.TORCH_EXPORT: "PyTorch program (torch.export)",
    ArchiveContents.SAFETENSORS: "weights (safetensors)",
}
_STEP_LABELS = {
    ExportStep.DATA: "reads the data set",
    ExportStep.FORMS: "writes the network",
    ExportStep.COMPARISON: "compares its outputs",
    ExportStep.ARCHIVE: "stores the archive",
}
_STEPS = list(ExportStep)
_MAX_LISTED = 10


async def parse_export_form(request: Request) -> ExportRequest:
    """Return the request of a form. Raises ProblemException (422) for invalid values."""
    fields = parse_qs((await request.body()).decode(errors="replace"), max_num_fields=20)
    values: dict[str, Any] = {name: value for name, (value, *_) in fields.items()}
    for name in ("batch_size", "seed"):
        if values.get(name, "").isdecimal():
            values[name] = int(values[name])
    try:
        return ExportRequest.model_validate(values)
    except ValidationError as error:
        located = [{**details, "loc": ("body", *details["loc"])} for details in error.errors()]
        raise make_invalid_request_problem(RequestValidationError(located), None) from None


@router.post("/exports")
def request_export_by_form(
    study: WritableStudy, body: Annotated[ExportRequest, Depends(parse_export_form)], context: ContextDep
) -> RedirectResponse:
    """Request an export, and show its state: for a browser without scripts."""
    row = request_export(context, study, body).key.row
    page = url_with_query(
        f"/studies/{study.id}/configurations/{row.configuration}",
        arm=row.arm,
        point=row.point,
        estimate=row.estimate,
        batch_size=row.batch_size,
    )
    return RedirectResponse(f"{page}#use", 303)


@router.get("/parts/exports/{export_id:number}")
def export_state_fragment(
    study: ReadableStudy, export_id: ExportId, context: ContextDep, _reader: Reader
) -> HTMLResponse:
    """The present state of an export."""
    values = _export_state_variables(context, study, get_export_record(context, study.id, export_id))
    return render_fragment_response("parts/export.html", **values)


def exports_template_variables_of_row(context: AppContext, study: StudyAccess, row: LeaderboardRow) -> dict[str, Any]:
    """Return the template variables of the exports of a row: the latest one, and others that are ready."""
    records = context.ledger.exports.list_exports_of_row(study.id, row.key)
    ready = [record for record in records[1:] if record.state is ExportState.READY]
    latest = _export_state_variables(context, study, records[0]) if records else {"export": None}
    return {
        **latest,
        "earlier_exports": serialize_exports(context, study.name, ready[:_MAX_LISTED]),
        "export_formats": _FORMAT_LABELS,
    }


def _export_state_variables(context: AppContext, study: StudyAccess, record: ExportRecord) -> dict[str, Any]:
    """Return the template variables of the state of one export."""
    return {
        "export": serialize_export(context, study.name, record),
        "step_label": None if record.step is None else _STEP_LABELS[record.step],
        "step_number": 0 if record.step is None else 1 + _STEPS.index(record.step),
        "steps": len(_STEPS),
    }
