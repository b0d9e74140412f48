"""The page: sections in a template, with styles, script and charts inside, so that it needs nothing from elsewhere."""

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

from bln_search.core.errors import MissingPackageError
from bln_search.core.version import VERSION
from bln_search.reports.page.blocks import SOURCES, Picture, Section
from bln_search.reports.page.context import Material
from bln_search.reports.page.sections import SECTIONS

_TEMPLATES = Path(__file__).parents[1] / "templates"


def study_page(material: Material, sections: Sequence[Callable[[Material], Section | None]] = SECTIONS) -> str:
    """A whole HTML document. Raises MissingPackageError without Plotly, whose script goes into it."""
    made = [section for make in sections if (section := make(material)) is not None]
    scripts = [_own("report.js")]
    if any(isinstance(block, Picture) for section in made for block in section.blocks):
        scripts.insert(0, plotly_script())
    return (
        _environment()
        .get_template("report.html")
        .render(
            study=material.study,
            title=material.study.spec.title,
            sections=made,
            scripts=[Markup(one) for one in scripts],  # noqa: S704 - ours and Plotly's, see _whole
            styles=Markup(_own("report.css")),  # noqa: S704 - ours
            policy=_policy(scripts),
            written_at=material.manifest["written_at"],
            version=VERSION,
        )
    )


@lru_cache(maxsize=1)
def plotly_script() -> str:
    """The script of the installed Plotly, which is not imported. Raises MissingPackageError without it."""
    found = find_spec("plotly")
    if found is None or not found.submodule_search_locations:
        raise MissingPackageError("plotly", "web")
    folder = Path(found.submodule_search_locations[0])
    return _whole((folder / "package_data" / "plotly.min.js").read_text(encoding="utf-8"))


def figure_json(figure: dict[str, Any]) -> Markup:
    """A figure inside <script>: no sign in it can end that element or begin another."""
    text = json.dumps(figure, allow_nan=False, separators=(",", ":"))
    for sign in "<>&":
        text = text.replace(sign, f"\\u{ord(sign):04x}")
    return Markup(text)  # noqa: S704 - what HTML would read is written out


@lru_cache(maxsize=1)
def _environment() -> Environment:
    """The template; everything put into it is escaped."""
    made = Environment(
        loader=FileSystemLoader(_TEMPLATES),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    made.filters["figure"] = figure_json
    made.globals["styles_of"] = {source.value: name for source, name in SOURCES.items()}
    return made


def _own(name: str) -> str:
    return _whole((_TEMPLATES / name).read_text(encoding="utf-8"))


def _whole(script: str) -> str:
    """A script as it may stand inside an element, with the line ends that a browser reads."""
    assert "</script" not in script.lower()
    return script.replace("\r\n", "\n")


def _policy(scripts: Sequence[str]) -> str:
    """What the browser allows: these scripts and no other, and no request to anywhere."""
    hashes = " ".join(f"'sha256-{base64.b64encode(hashlib.sha256(one.encode()).digest()).decode()}'" for one in scripts)
    return (
        f"default-src 'none'; script-src {hashes}; style-src 'unsafe-inline'; img-src data: blob:; "
        "base-uri 'none'; form-action 'none'"
    )
