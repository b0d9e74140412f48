"""Render the page as one self-contained HTML document: styles, scripts and charts are embedded."""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import Callable, Sequence
from functools import lru_cache
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup

from bln_search.core.method import StatisticSource
from bln_search.core.version import VERSION
from bln_search.reports.page.blocks import MAX_TABLE_ROWS, ChartFigure, Section
from bln_search.reports.page.context import StudyReportContext
from bln_search.reports.page.sections import SECTIONS

_TEMPLATES = Path(__file__).parents[1] / "templates"
_SOURCE_STYLES = {source.value: source.description.css_class for source in StatisticSource}
"""Class of the style sheet by letter."""

_ROW_CLASSES = {"bold": "first", "dim": "unranked"}
"""Class of the style sheet by style of a row."""


def render_study_report_html(
    context: StudyReportContext, sections: Sequence[Callable[[StudyReportContext], Section | None]] = SECTIONS
) -> str:
    """Render the page.

    Args:
        context: Data of the study.
        sections: Functions that make the sections.
    """
    study = context.study
    reason = f": {study.reason}" if study.reason else ""
    return render_page_html(
        study.name,
        study.spec.title or study.name,
        f"Study {study.name} (number {study.id}), {study.state.value}{reason}; "
        f"report written at {context.manifest['written_at']}.",
        [section for make in sections if (section := make(context)) is not None],
    )


def render_page_html(name: str, heading: str, subtitle: str, sections: Sequence[Section]) -> str:
    """Render sections as a page.

    Args:
        name: Title of the browser's window.
        heading: Heading of the page.
        subtitle: Line below it.
        sections: The sections.
    """
    scripts = [_read_embeddable_template_file("report.js")]
    if any(isinstance(block, ChartFigure) for section in sections for block in section.blocks):
        scripts.insert(0, load_plotly_script())
    return (
        _make_template_environment()
        .get_template("report.html")
        .render(
            name=name,
            heading=heading,
            subtitle=subtitle,
            sections=sections,
            scripts=[Markup(script) for script in scripts],  # noqa: S704 - trusted scripts, see _as_script
            styles=Markup(_read_embeddable_template_file("report.css")),  # noqa: S704 - a trusted file
            policy=_content_security_policy(scripts),
            version=VERSION,
        )
    )


@lru_cache(maxsize=1)
def load_plotly_script() -> str:
    """Script of the installed Plotly, which is not imported."""
    package = find_spec("plotly")
    assert package is not None, "bln-search requires it"
    assert package.submodule_search_locations, "it is a folder"
    folder = Path(package.submodule_search_locations[0])
    return _to_embeddable_script((folder / "package_data" / "plotly.min.js").read_text(encoding="utf-8"))


def figure_to_script_json(figure: dict[str, Any]) -> Markup:
    """JSON of a figure for a <script> element, in which no character can end the element or start another."""
    text = json.dumps(figure, allow_nan=False, separators=(",", ":"))
    for character in "<>&":
        text = text.replace(character, f"\\u{ord(character):04x}")
    return Markup(text)  # noqa: S704 - characters with a meaning in HTML are escaped above


@lru_cache(maxsize=1)
def _make_template_environment() -> Environment:
    """Environment of the template, with autoescape."""
    environment = Environment(
        loader=FileSystemLoader(_TEMPLATES),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters["figure"] = figure_to_script_json
    environment.globals |= {"styles_of": _SOURCE_STYLES, "row_classes": _ROW_CLASSES, "max_rows": MAX_TABLE_ROWS}
    return environment


def _read_embeddable_template_file(name: str) -> str:
    return _to_embeddable_script((_TEMPLATES / name).read_text(encoding="utf-8"))


def _to_embeddable_script(script: str) -> str:
    """Text that can be embedded in a <script> element, with normalized line ends, which its hash depends on."""
    assert "</script" not in script.lower()
    return script.replace("\r\n", "\n")


def _content_security_policy(scripts: Sequence[str]) -> str:
    """Content security policy: these scripts only, and no requests."""
    digests = (hashlib.sha256(script.encode()).digest() for script in scripts)
    hashes = " ".join(f"'sha256-{base64.b64encode(digest).decode()}'" for digest in digests)
    return (
        f"default-src 'none'; script-src {hashes}; style-src 'unsafe-inline'; img-src data: blob:; "
        "base-uri 'none'; form-action 'none'"
    )
