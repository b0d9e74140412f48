"""For a researcher's own network: convert, evaluate, apply."""

from bln_search.api.apply import apply_configuration
from bln_search.api.convert import convert
from bln_search.api.evaluate import evaluate_configurations
from bln_search.api.ranked import RankedConfiguration, RankedConfigurations

__all__ = [
    "RankedConfiguration",
    "RankedConfigurations",
    "apply_configuration",
    "convert",
    "evaluate_configurations",
]
