"""Render Jinja templates, as the signed-in user sees them."""

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

from bln_search.core.enums import Scope
from bln_search.core.method import StatisticSource
from bln_search.core.tags import TAG_PATTERN, TAG_RULE
from bln_search.core.version import VERSION
from bln_search.reports.formatting import (
    format_interval,
    format_metric_interval,
    format_signed,
    format_signed_interval,
)
from bln_search.reports.sentences.leaderboard import find_test_ranking_warning, find_unranked_reason
from bln_search.specs.sections.space import format_encoded_point, format_point
from bln_search.storage.tokens import Bearer, TokenKind
from service.http.root_path import ROOT_PATH, add_root_path_to_page
from service.pages.rendering import labels
from service.pages.rendering.assets import assets_version, get_plotly_script_version
from service.pages.rendering.documentation import find_document_url
from service.pages.rendering.markdown import render_markdown
from service.pages.study_actions import ACTION_LABELS, list_actions_allowed_by_state

TEMPLATES = Path(__file__).parents[2] / "templates"
CHART_HEADERS = {
    "Content-Security-Policy": (
        "default-src 'self'; style-src 'self' 'unsafe-inline'; img-src 'self' data: blob:; "
        "frame-ancestors 'none'; base-uri 'none'; form-action 'self'"
    )
}
"""Headers of pages with charts: Plotly uses inline styles and data URLs for images."""


@lru_cache(maxsize=1)
def get_template_environment() -> Environment:
    """Return the template environment; values are escaped automatically."""
    templates = Environment(
        loader=FileSystemLoader(TEMPLATES),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    templates.filters |= {
        "rounded": format_interval,
        "metric": format_metric_interval,
        "signed": format_signed_interval,
        "signed_number": format_signed,
        "duration": labels.format_duration,
        "minus_signs": labels.replace_hyphens_by_minus_signs,
        "bytes": labels.format_bytes,
        "switches": labels.list_switch_codes_and_descriptions,
        "parameters": format_encoded_point,
        "point": format_point,
        "leaderboard_warning": find_test_ranking_warning,
        "row_reason": find_unranked_reason,
        "time": _time_element,
        "markdown": render_markdown,
        "ago": _relative_time_element,
        "code_spans": _backticks_to_code_elements,
    }
    templates.globals |= {
        "version": VERSION,
        "assets": assets_version(),
        "plotly": get_plotly_script_version(),
        "marks": labels.STATE_SYMBOLS,
        "sources": tuple(StatisticSource),
        "address": url_with_query,
        "action_labels": ACTION_LABELS,
        "allowed_actions": list_actions_allowed_by_state,
        "tag_pattern": TAG_PATTERN,
        "tag_rule": TAG_RULE,
        "document_url": find_document_url,
    }
    return templates


def compile_all_templates() -> None:
    """Compile every template, so that no request waits for it."""
    templates = get_template_environment()
    for name in templates.list_templates():
        templates.get_template(name)


def render_page_response(
    request: Request, template: str, *, status: int = 200, charts: bool = False, **values: Any
) -> HTMLResponse:
    """Render a page.

    Args:
        request: The request.
        template: Name of the template.
        status: HTTP status.
        charts: The page contains charts.
        values: Variables of the template.
    """
    values |= {"path": request.url.path, "root_path": ROOT_PATH.get(), "charts": charts}
    return HTMLResponse(render_fragment_text(template, **values), status, headers=CHART_HEADERS if charts else None)


def render_fragment_response(template: str, **values: Any) -> HTMLResponse:
    """Render a part of a page, which a script inserts."""
    return HTMLResponse(render_fragment_text(template, **values))


def render_fragment_text(template: str, **values: Any) -> str:
    """Render a part of a page as text."""
    return add_root_path_to_page(get_template_environment().get_template(template).render(**values))


def url_with_query(path: str, **parameters: Any) -> str:
    """Return a path with a query of those parameters that have a value."""
    query = {name: value for name, value in parameters.items() if value not in (None, "", [])}
    return f"{path}?{urlencode(query, doseq=True)}" if query else path


def _backticks_to_code_elements(text: str) -> Markup:
    """Return the escaped text; what stands between backticks is a code element."""
    parts = str(text).split("`")
    if len(parts) % 2 == 0:
        return Markup("{}").format(text)
    return Markup("").join(
        Markup("<code>{}</code>").format(part) if index % 2 else Markup("{}").format(part)
        for index, part in enumerate(parts)
    )


def _time_element(at: datetime | None) -> Markup:
    """Return a time element that a script converts to the browser's time zone."""
    if at is None:
        return Markup("–")
    utc = at.astimezone(UTC)
    return Markup('<time datetime="{}">{}</time>').format(utc.isoformat(), labels.format_time(utc))


def _relative_time_element(at: datetime) -> Markup:
    """Return a time element that a script converts to the time since then, with the time itself as its title."""
    utc = at.astimezone(UTC)
    return Markup('<time datetime="{}" data-relative>{}</time>').format(utc.isoformat(), labels.format_time(utc))


def make_viewer_variables(bearer: Bearer) -> dict[str, Any]:
    """Return the template variable `viewer`."""
    shared = bearer.kind is TokenKind.SHARE
    return {
        "account": "shared link" if shared else bearer.account,
        "scope": bearer.scope.value,
        "writes": not shared and bearer.scope.allows(Scope.WRITE),
        "admin": bearer.scope is Scope.ADMIN,
        "shared": shared,
        "home": f"/studies/{bearer.study_id}" if shared else "/studies",
    }
