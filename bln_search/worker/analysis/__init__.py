"""Analyses a complete study where SciPy and the networks are available, and stores the result for all readers."""

from bln_search.worker.analysis.comparison import find_comparison_of_best_rows
from bln_search.worker.analysis.study_analysis import (
    AnalysisLayerSearchOptions,
    LayerSearchOutcome,
    compute_analysis,
    get_or_compute_analysis,
)

__all__ = [
    "AnalysisLayerSearchOptions",
    "LayerSearchOutcome",
    "compute_analysis",
    "find_comparison_of_best_rows",
    "get_or_compute_analysis",
]
