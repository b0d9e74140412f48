"""Python interface: convert, evaluate, search and configure a network; corrupt images; export and load a network."""

from bln_search.api.apply import LayeredConfiguration, apply_configuration
from bln_search.api.convert import convert
from bln_search.api.corrupt import corrupt
from bln_search.api.evaluate import evaluate_configurations
from bln_search.api.export import export_network
from bln_search.api.exported import ExportedNetwork, load
from bln_search.api.layer_search import search_layers
from bln_search.api.metrics import Metric
from bln_search.api.ranked import RankedConfigurations
from bln_search.api.ranked_layers import RankedLayers
from bln_search.api.ranked_row import RankedConfiguration
from bln_search.api.trained_export import TrainedRow

__all__ = [
    "ExportedNetwork",
    "LayeredConfiguration",
    "Metric",
    "RankedConfiguration",
    "RankedConfigurations",
    "RankedLayers",
    "TrainedRow",
    "apply_configuration",
    "convert",
    "corrupt",
    "evaluate_configurations",
    "export_network",
    "load",
    "search_layers",
]
