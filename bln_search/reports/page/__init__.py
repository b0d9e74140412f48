"""A whole study on one static page: sections of plain blocks, put into HTML by one template."""

from bln_search.reports.page.blocks import Section
from bln_search.reports.page.context import Material
from bln_search.reports.page.sections import SECTIONS

__all__ = ["SECTIONS", "Material", "Section"]
