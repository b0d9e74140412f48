"""The sections of the page, in their order. A new one is a function here: material in, section (or None) out."""

from __future__ import annotations

from collections.abc import Callable

from bln_search.reports.page.blocks import Section
from bln_search.reports.page.charts import charts, layers
from bln_search.reports.page.context import Material
from bln_search.reports.page.interpretation import meaning, probes
from bln_search.reports.page.per_layer import per_layer
from bln_search.reports.page.provenance import again, manifest, trials
from bln_search.reports.page.ranking import ranking
from bln_search.reports.page.specification import asked

SECTIONS: tuple[Callable[[Material], Section | None], ...] = (
    ranking,
    meaning,
    per_layer,
    asked,
    charts,
    probes,
    layers,
    trials,
    manifest,
    again,
)
"""One that has nothing to say of a study is None, and left out."""
