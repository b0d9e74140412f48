"""Analyses a complete study where SciPy and the networks are available, and stores the result for all readers."""

from bln_search.worker.analysis.comparison import compare_best_rows
from bln_search.worker.analysis.study_analysis import (
    AnalysisOptions,
    LayerSearchOutcome,
    compute_analysis,
    get_or_create_analysis,
)

__all__ = ["AnalysisOptions", "LayerSearchOutcome", "compare_best_rows", "compute_analysis", "get_or_create_analysis"]
