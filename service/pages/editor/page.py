"""Page of a new study: a study file as a starting point, edited as a form or as YAML, with its plan."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Annotated

from fastapi import APIRouter, Query, Request
from fastapi.responses import HTMLResponse, Response
from pydantic import BaseModel, ConfigDict, Field, StringConstraints, computed_field

from bln_search.core.configuration import InferenceConfiguration
from bln_search.core.enums import PopulationEstimate
from bln_search.core.errors import SpecError
from bln_search.core.method import Method
from bln_search.core.registry import CORRUPTIONS, DATA_SETS, MODELS
from bln_search.settings import Settings
from bln_search.specs.load import parse_study
from bln_search.specs.study import StudySpec
from bln_search.specs.study_yaml import (
    render_study_yaml,
    render_study_yaml_of_fine_tuned_arm,
    render_study_yaml_with_added_seeds,
)
from bln_search.storage.tokens import Bearer
from service.admission import check_limits_and_compute_study_size
from service.context import AppContext, ContextDep
from service.http.heavy_work import HEAVY_WORK
from service.http.problems import ProblemException
from service.pages.editor.form import FIELDS, read_form_values_from_yaml, set_field_in_yaml
from service.pages.rendering.templates import make_viewer_variables, render_fragment_text, render_page_response
from service.pages.study_head import get_study_item
from service.plan_estimate import make_plan_with_estimates
from service.request_body import LARGE_BODY
from service.schemas.studies import PlanOut
from service.security import ReadableStudy, Reader, StudyAccess, Writer

router = APIRouter(prefix="/studies", include_in_schema=False)
_LINE_PATTERN = re.compile(r"line (\d+): (.*)", re.DOTALL)
_DEFAULT_FILE = "quickstart"


FieldText = Annotated[str, StringConstraints(max_length=10_000)]
"""Value of a form field."""


class StudyDraft(BaseModel):
    """A study in the editor.

    Attributes:
        text: YAML text.
        field: The form field that the user has just changed; None for a change of the text.
        value: Its new value.
    """

    model_config = ConfigDict(extra="forbid")

    text: Annotated[str, StringConstraints(max_length=50_000)]
    field: str | None = None
    value: FieldText | Annotated[list[FieldText], Field(max_length=1_000)] | None = None


class DraftProblem(BaseModel):
    """An error of a draft.

    Attributes:
        line: Line of the text; 0 if the error concerns the whole draft.
        message: What is wrong.
    """

    line: int
    message: str


class CheckedDraft(BaseModel):
    """A draft's text, its form fields, its errors, and its plan if it has none, also as a part of the page."""

    text: str
    fields: dict[str, str | list[str]]
    mistakes: list[DraftProblem]
    plan: PlanOut | None

    @computed_field  # type: ignore[prop-decorator]
    @property
    def plan_html(self) -> str:
        """The plan as a part of the page."""
        return render_fragment_text("parts/plan.html", plan=self.plan)


@router.get("/new")
def new_study_page(request: Request, context: ContextDep, writer: Writer, file: str = _DEFAULT_FILE) -> HTMLResponse:
    """The editor with the study of a file."""
    files = get_offered_study_files_by_name(context.settings)
    text = files[file].read_text(encoding="utf-8") if file in files else _MINIMAL_STUDY
    return _render_editor_page(request, context, writer, text, file)


@router.get("/{study_id:number}/repeat")
def repeat_study_page(
    request: Request,
    study: ReadableStudy,
    context: ContextDep,
    writer: Writer,
    seeds: Annotated[int, Query(ge=0, le=100)] = 0,
) -> HTMLResponse:
    """The editor with a submitted study and, if requested, further seeds."""
    return _render_editor_page(
        request, context, writer, render_study_yaml_with_added_seeds(_get_trained_study_spec(study, context), seeds), ""
    )


@router.get("/{study_id:number}/fine-tune")
def fine_tune_page(
    request: Request,
    study: ReadableStudy,
    context: ContextDep,
    writer: Writer,
    arm: Annotated[str, Query(max_length=100)],
    configuration: Annotated[str, Query(max_length=4)],
) -> HTMLResponse:
    """The editor with an arm of a submitted study, and the same arm fine-tuned under a configuration."""
    try:
        code = InferenceConfiguration(configuration)
    except ValueError as error:
        raise ProblemException(404, "not-found", str(error)) from None
    text = render_study_yaml_of_fine_tuned_arm(_get_trained_study_spec(study, context), arm, code)
    return _render_editor_page(request, context, writer, text, "")


@router.get("/{study_id:number}/study.yaml")
def download_study_file(study: ReadableStudy, context: ContextDep) -> Response:
    """The study as a study file."""
    return Response(render_study_yaml(_get_trained_study_spec(study, context)), media_type="application/yaml")


def _get_trained_study_spec(study: StudyAccess, context: AppContext) -> StudySpec:
    spec = StudySpec.model_validate_json(get_study_item(context, study.id).spec_json)
    if spec.external is not None:
        detail = f"study {study.id} has external results: its networks were not trained here, so it has no study file"
        raise ProblemException(409, "external-results", detail)
    return spec


def _render_editor_page(request: Request, context: AppContext, writer: Bearer, text: str, file: str) -> HTMLResponse:
    """The editor with a text.

    Args:
        request: The request.
        context: The application's context.
        writer: The viewer.
        text: YAML text of a study.
        file: Name of the study file that the text is from; empty for another source.
    """
    return render_page_response(
        request,
        "new.html",
        viewer=make_viewer_variables(writer),
        files=sorted(get_offered_study_files_by_name(context.settings)),
        file=file,
        text=text,
        fields=FIELDS,
        choices={
            "data": DATA_SETS.list_names(),
            "model": MODELS.list_names(),
            "conditions": CORRUPTIONS.list_names(),
            "methods": [method.value for method in Method],
            "population": [estimate.value for estimate in PopulationEstimate if not estimate.has_own_source_letter],
        },
    )


_MINIMAL_STUDY = "name: my-study\ndata:\n  name: digits\nmodel:\n  name: mlp\narms:\n- method: bln\nseeds: [0, 1, 2]\n"


@router.post("/new/check")
def check_and_plan_draft(draft: StudyDraft, context: ContextDep, _reader: Reader) -> CheckedDraft:
    """The plan of a draft, or its errors with their lines. Nothing is stored."""
    if len(draft.text) <= LARGE_BODY:
        return _check_and_plan(draft, context)
    with HEAVY_WORK.wait_for_turn():
        return _check_and_plan(draft, context)


def _check_and_plan(draft: StudyDraft, context: AppContext) -> CheckedDraft:
    text = draft.text if draft.field is None else set_field_in_yaml(draft.text, draft.field, draft.value)
    fields = read_form_values_from_yaml(text)
    try:
        study = parse_study(text)
        plan = make_plan_with_estimates(
            study, check_limits_and_compute_study_size(study, context.settings), context.ledger
        )
    except SpecError as error:
        errors = [_make_draft_problem(problem) for problem in error.problems]
        return CheckedDraft(text=text, fields=fields, mistakes=errors, plan=None)
    except ProblemException as problem:
        if problem.status != 422:
            raise
        errors = [
            DraftProblem(line=_find_line_of_pointer(text, error.json_pointer), message=error.message)
            for error in problem.errors
        ]
        errors = errors or [DraftProblem(line=0, message=problem.detail)]
        return CheckedDraft(text=text, fields=fields, mistakes=errors, plan=None)
    return CheckedDraft(text=text, fields=fields, mistakes=[], plan=plan)


def _make_draft_problem(problem: str) -> DraftProblem:
    match = _LINE_PATTERN.match(problem)
    return DraftProblem(line=int(match[1]), message=match[2]) if match else DraftProblem(line=0, message=problem)


def _find_line_of_pointer(text: str, pointer: str) -> int:
    """Return the line of the top-level key that a JSON pointer starts with; 0 if there is none."""
    key = pointer.strip("/").split("/")[0]
    lines = text.splitlines()
    return next((number for number, line in enumerate(lines, start=1) if line.startswith(f"{key}:")), 0)


def get_offered_study_files_by_name(settings: Settings) -> dict[str, Path]:
    """Return the study files that the editor offers, by name."""
    folder = settings.study_files_folder
    return {} if folder is None else {file.stem: file for file in sorted(folder.glob("*.yaml"))}
