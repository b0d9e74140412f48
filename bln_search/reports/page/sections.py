"""Sections of the page in their order. A section is a function from `StudyReportContext` to `Section` or None."""

from __future__ import annotations

from collections.abc import Callable

from bln_search.reports.page.blocks import Section
from bln_search.reports.page.charts import charts_section, drift_section, geometry_section
from bln_search.reports.page.context import StudyReportContext
from bln_search.reports.page.interpretation import analysis_section, probes_section
from bln_search.reports.page.per_layer import per_layer_section
from bln_search.reports.page.provenance import manifest_section, reproduction_section, trials_section
from bln_search.reports.page.ranking import leaderboard_section
from bln_search.reports.page.specification import specification_section

SECTIONS: tuple[Callable[[StudyReportContext], Section | None], ...] = (
    leaderboard_section,
    analysis_section,
    per_layer_section,
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
