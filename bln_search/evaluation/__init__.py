"""One network under every configuration, in one pass over the data."""

from bln_search.evaluation.one_pass import evaluate_rows
from bln_search.evaluation.populations import collect_frozen_moments
from bln_search.evaluation.split_evaluation import evaluate_split

__all__ = ["collect_frozen_moments", "evaluate_rows", "evaluate_split"]
