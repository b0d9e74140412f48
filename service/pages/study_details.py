"""Title, tags, priority and notes on the page of a study, as a fragment: a script saves them and reads them again."""

from __future__ import annotations

from fastapi import APIRouter
from fastapi.responses import HTMLResponse

from service.context import ContextDep
from service.http.problems import ProblemException
from service.pages.rendering.templates import render_fragment_response
from service.pages.rendering.viewer import make_viewer_variables
from service.security import ReadableStudy
from service.serializers import serialize_study

router = APIRouter(prefix="/studies/{study_id:number}", include_in_schema=False)


@router.get("/parts/details")
def study_details_fragment(study: ReadableStudy, context: ContextDep) -> HTMLResponse:
    """The present title, tags, priority and notes."""
    listed = context.ledger.study_lists.find_study_item(study.id)
    if listed is None:
        raise ProblemException(404, "not-found", f"there is no study {study.id}")
    viewer = make_viewer_variables(study.bearer)
    return render_fragment_response("parts/study_fields.html", study=serialize_study(listed), viewer=viewer)
