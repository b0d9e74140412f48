"""Sections of the page in their order. A section is a function from `StudyReportContext` to `Section` or None."""

from __future__ import annotations

from collections.abc import Callable

from bln_search.reports.page.analysis import (
    analysis_section,
    charts_section,
    drift_section,
    geometry_section,
    probes_section,
)
from bln_search.reports.page.blocks import Section
from bln_search.reports.page.context import StudyReportContext
from bln_search.reports.page.ranking import leaderboard_section, per_layer_section
from bln_search.reports.page.specification import (
    manifest_section,
    reproduction_section,
    specification_section,
    trials_section,
)
from bln_search.reports.page.streams import streams_section

SECTIONS: tuple[Callable[[StudyReportContext], Section | None], ...] = (
    leaderboard_section,
    analysis_section,
    per_layer_section,
    streams_section,
    specification_section,
    charts_section,
    probes_section,
    drift_section,
    geometry_section,
    trials_section,
    manifest_section,
    reproduction_section,
)
"""A function returns None where its section does not apply to the study; the section is then omitted."""
