"""Paired comparisons over seeds and examples. Needs SciPy, so the service does not import it."""

from bln_search.ranking.paired.compare import compare_rows
from bln_search.ranking.paired.table import OutcomeTable

__all__ = ["OutcomeTable", "compare_rows"]
