"""One network under every configuration, in one pass over the data."""

from bln_search.evaluation.one_pass import evaluate_rows_per_example
from bln_search.evaluation.populations import collect_moments_with_frozen_weights
from bln_search.evaluation.split_evaluation import evaluate_split

__all__ = ["collect_moments_with_frozen_weights", "evaluate_rows_per_example", "evaluate_split"]
