"""Python interface: convert, initialize, evaluate, search, configure, export, load; corrupt images; compare scores."""

from bln_search.api.apply import apply_configuration
from bln_search.api.compare import compare
from bln_search.api.compared_scores import ComparedScore, ComparedScores
from bln_search.api.convert import convert
from bln_search.api.corrupt import corrupt
from bln_search.api.evaluate import evaluate_configurations
from bln_search.api.export.loading import load
from bln_search.api.export.own_export import ExportReport, export
from bln_search.api.export.study_export import TrainedRow, export_trained_row
from bln_search.api.export.study_network import ExportedNetwork
from bln_search.api.fine_tune import FineTuningResult, fine_tune
from bln_search.api.initialize import initialize
from bln_search.api.layer_search import search_layers
from bln_search.api.ranked.conditions import RankedConditions
from bln_search.api.ranked.layers import PerLayerConfigurationWithPopulations, RankedLayers
from bln_search.api.ranked.row import RankedConfiguration
from bln_search.api.ranked.several_networks import load_ranked
from bln_search.api.ranked.table import RankedConfigurations
from bln_search.evaluation.split_metrics import Metric
from bln_search.norms.replacement import register_norm_layer
from bln_search.tasks.score import ExampleScores

__all__ = [
    "ComparedScore",
    "ComparedScores",
    "ExampleScores",
    "ExportReport",
    "ExportedNetwork",
    "FineTuningResult",
    "Metric",
    "PerLayerConfigurationWithPopulations",
    "RankedConditions",
    "RankedConfiguration",
    "RankedConfigurations",
    "RankedLayers",
    "TrainedRow",
    "apply_configuration",
    "compare",
    "convert",
    "corrupt",
    "evaluate_configurations",
    "export",
    "export_trained_row",
    "fine_tune",
    "initialize",
    "load",
    "load_ranked",
    "register_norm_layer",
    "search_layers",
]
