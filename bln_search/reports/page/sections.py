"""Sections of the page in their order. A new section is a function from a `ReportContext` to a `Section` or None."""

from __future__ import annotations

from collections.abc import Callable

from bln_search.reports.page.blocks import Section
from bln_search.reports.page.charts import charts, drift
from bln_search.reports.page.context import ReportContext
from bln_search.reports.page.interpretation import interpretation, probes
from bln_search.reports.page.per_layer import per_layer
from bln_search.reports.page.provenance import manifest, reproduce, trials
from bln_search.reports.page.ranking import ranking
from bln_search.reports.page.specification import specification

SECTIONS: tuple[Callable[[ReportContext], Section | None], ...] = (
    ranking,
    interpretation,
    per_layer,
    specification,
    charts,
    probes,
    drift,
    trials,
    manifest,
    reproduce,
)
"""A function returns None where its section does not apply to the study; the section is then omitted."""
