"""A new study: from a listed file, edited as a form or as YAML, its plan beside it."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Annotated

from fastapi import APIRouter, Request
from fastapi.responses import HTMLResponse
from pydantic import BaseModel, ConfigDict, StringConstraints

from bln_search.core.configuration import Method
from bln_search.core.enums import PopulationEstimate
from bln_search.core.errors import SpecError
from bln_search.core.registry import data_sets, models
from bln_search.settings import Settings
from bln_search.specs.load import parse_study
from service.context import Here
from service.limits import checked_plan
from service.pages.form import FIELDS, read_fields, set_field
from service.pages.render import page
from service.pages.viewer import visitor_of
from service.plan import plan_view
from service.problems import RefusedError
from service.schemas import PlanOut
from service.security import Reader, Writer

router = APIRouter(prefix="/studies", include_in_schema=False)
_LINE = re.compile(r"line (\d+): (.*)", re.DOTALL)
_START = "quickstart"


class Draft(BaseModel):
    """A study in the making. field, value: one entry of the form that was just changed."""

    model_config = ConfigDict(extra="forbid")

    text: Annotated[str, StringConstraints(max_length=50_000)]
    field: str | None = None
    value: str | list[str] | None = None


class Mistake(BaseModel):
    """What is wrong, and in which line; 0 for the whole."""

    line: int
    message: str


class Checked(BaseModel):
    """A draft as it stands: its text, its form, what is wrong or what it stands for."""

    text: str
    fields: dict[str, str | list[str]]
    mistakes: list[Mistake]
    plan: PlanOut | None


@router.get("/new")
def new(request: Request, context: Here, writer: Writer, file: str = _START) -> HTMLResponse:
    """The editor, with the study of a listed file in it."""
    files = listed_files(context.settings)
    text = files[file].read_text(encoding="utf-8") if file in files else _BARE
    return page(
        request,
        "new.html",
        visitor=visitor_of(writer),
        files=sorted(files),
        file=file,
        text=text,
        fields=FIELDS,
        choices={
            "data": data_sets(),
            "model": models(),
            "methods": [one.value for one in Method],
            "population": [one.value for one in PopulationEstimate if one is not PopulationEstimate.MEMORY],
        },
    )


_BARE = "name: my-study\ndata:\n  name: digits\nmodel:\n  name: mlp\narms:\n- method: bln\nseeds: [0, 1, 2]\n"


@router.post("/new/check")
def check(draft: Draft, context: Here, _reader: Reader) -> Checked:
    """What a draft stands for, or what is wrong with it and where; nothing is kept."""
    text = draft.text if draft.field is None else set_field(draft.text, draft.field, draft.value)
    fields = read_fields(text)
    try:
        study = parse_study(text)
        plan = plan_view(study, checked_plan(study, context.settings), context.engine)
    except SpecError as error:
        return Checked(text=text, fields=fields, mistakes=[_mistake(one) for one in error.problems], plan=None)
    except RefusedError as refusal:
        lines = [Mistake(line=_line_of(text, one.pointer), message=one.message) for one in refusal.errors]
        return Checked(text=text, fields=fields, mistakes=lines or [Mistake(line=0, message=refusal.detail)], plan=None)
    return Checked(text=text, fields=fields, mistakes=[], plan=plan)


def _mistake(problem: str) -> Mistake:
    found = _LINE.match(problem)
    return Mistake(line=int(found[1]), message=found[2]) if found else Mistake(line=0, message=problem)


def _line_of(text: str, pointer: str) -> int:
    """The line of the top-level key that a pointer starts with."""
    key = pointer.strip("/").split("/")[0]
    lines = text.splitlines()
    return next((place for place, line in enumerate(lines, start=1) if line.startswith(f"{key}:")), 0)


def listed_files(settings: Settings) -> dict[str, Path]:
    """The study files that are offered, by name."""
    folder = settings.studies_folder
    return {} if folder is None else {file.stem: file for file in sorted(folder.glob("*.yaml"))}
