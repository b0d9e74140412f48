"""The report of a study on one static page: sections of blocks, rendered into HTML by one template."""

from bln_search.reports.page.blocks import Section
from bln_search.reports.page.context import StudyReportContext
from bln_search.reports.page.sections import SECTIONS

__all__ = ["SECTIONS", "Section", "StudyReportContext"]
