"""Templates to pages."""

from __future__ import annotations

from datetime import UTC, datetime
from functools import lru_cache
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

from fastapi import Request
from fastapi.responses import HTMLResponse
from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup

from bln_search.core.version import VERSION
from bln_search.reports.formatting import rounded, signed
from bln_search.specs.space import written_label
from service.pages import labels
from service.pages.assets import assets_version, plotly_version

TEMPLATES = Path(__file__).parents[1] / "templates"
CHARTS_ALLOWED = {
    "Content-Security-Policy": (
        "default-src 'self'; style-src 'self' 'unsafe-inline'; img-src 'self' data: blob:; "
        "frame-ancestors 'none'; base-uri 'none'; form-action 'self'"
    )
}
"""Plotly styles what it draws in place, and hands pictures over as data."""


@lru_cache(maxsize=1)
def environment() -> Environment:
    """The templates; everything put into them is escaped."""
    made = Environment(
        loader=FileSystemLoader(TEMPLATES),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    made.filters |= {
        "rounded": rounded,
        "signed": signed,
        "duration": labels.duration,
        "switches": labels.switches,
        "computed": labels.computed,
        "parameters": written_label,
        "time": _time,
    }
    made.globals |= {
        "version": VERSION,
        "assets": assets_version(),
        "plotly": plotly_version(),
        "marks": labels.STATE_MARKS,
        "address": address,
    }
    return made


def page(request: Request, template: str, *, status: int = 200, charts: bool = False, **values: Any) -> HTMLResponse:
    """A whole page. charts: whether it draws any."""
    text = environment().get_template(template).render(path=request.url.path, charts=charts, **values)
    return HTMLResponse(text, status, headers=CHARTS_ALLOWED if charts else None)


def fragment(template: str, **values: Any) -> HTMLResponse:
    """A part of a page, for a script that puts it in its place."""
    return HTMLResponse(environment().get_template(template).render(**values))


def address(path: str, **parameters: Any) -> str:
    """A path with those parameters that have a value."""
    given = {name: value for name, value in parameters.items() if value not in (None, "", [])}
    return f"{path}?{urlencode(given, doseq=True)}" if given else path


def _time(at: datetime | None) -> Markup:
    """A moment that the browser shows in its own zone."""
    if at is None:
        return Markup("–")
    written = at.astimezone(UTC)
    return Markup('<time datetime="{}">{}</time>').format(written.isoformat(), labels.moment(written))
