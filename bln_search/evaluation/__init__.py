"""One network under every configuration, in one pass over the data."""

from bln_search.evaluation.one_pass import evaluate_rows
from bln_search.evaluation.populations import gather_frozen
from bln_search.evaluation.split import evaluate_split

__all__ = ["evaluate_rows", "evaluate_split", "gather_frozen"]
