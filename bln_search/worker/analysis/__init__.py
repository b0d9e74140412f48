"""Analyses a complete study where SciPy and the networks are available, and stores the result for all readers."""

from bln_search.worker.analysis.comparison import compare_best_ranked_rows
from bln_search.worker.analysis.seed_plan import StudySeedPlan, plan_seeds_of_study
from bln_search.worker.analysis.study_analysis import (
    AnalysisLayerSearchOptions,
    LayerSearchStatus,
    compute_analysis_of_look,
    compute_and_store_analysis,
    get_or_compute_analysis,
)

__all__ = [
    "AnalysisLayerSearchOptions",
    "LayerSearchStatus",
    "StudySeedPlan",
    "compare_best_ranked_rows",
    "compute_analysis_of_look",
    "compute_and_store_analysis",
    "get_or_compute_analysis",
    "plan_seeds_of_study",
]
