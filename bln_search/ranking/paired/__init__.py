"""Configurations compared example by example and seed by seed. Needs SciPy, so the service never imports it."""

from bln_search.ranking.paired.compare import compare
from bln_search.ranking.paired.table import OutcomeTable

__all__ = ["OutcomeTable", "compare"]
