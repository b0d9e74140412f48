"""One network under every configuration, in one pass over the data."""

from bln_search.evaluation.one_pass import evaluate_rows
from bln_search.evaluation.populations import gather_frozen

__all__ = ["evaluate_rows", "gather_frozen"]
