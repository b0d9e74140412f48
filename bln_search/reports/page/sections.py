"""The sections of the page, in their order. A new one is a function here: material in, section (or None) out."""

from __future__ import annotations

from collections.abc import Callable

from bln_search.reports.page.asked import asked
from bln_search.reports.page.blocks import Section
from bln_search.reports.page.material import Material
from bln_search.reports.page.meaning import meaning, probes
from bln_search.reports.page.origin import again, manifest, trials
from bln_search.reports.page.per_layer import per_layer
from bln_search.reports.page.pictures import charts, layers
from bln_search.reports.page.ranking import ranking

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
