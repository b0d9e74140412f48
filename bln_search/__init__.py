"""bln-search: the inference configuration of a normalized network's statistics that works best, and how sure it is.

    import bln_search

    model = bln_search.convert(model)                      # BatchNorm and LayerNorm layers become BLN; then train it
    ranked = bln_search.evaluate_configurations(model, train_loader, validation_loader)
    print(ranked)
    bln_search.apply_configuration(model, ranked.recommended)

    layered = bln_search.search_layers(model, train_loader, validation_loader)  # per-layer configurations

    print(bln_search.check(model, train_loader, validation_loader))             # is eval() worse, why, what to do
    model = bln_search.recalibrate(model, train_loader)                         # as update_bn

    model = bln_search.adaptive(model, train_loader)       # choose statistics online, for each mini-batch

    noisy = bln_search.corrupt(images, "gaussian_noise", severity=3)            # to evaluate under distribution shift

    tuned, result = bln_search.fine_tune(model, "TTFF", train_loader, validation_loader, learning_rate=2e-4)

    model = bln_search.initialize(model, inputs)           # scaled first weights, before training

    bln_search.export(model, "folder", example_inputs=inputs)                   # weights, torch.export, ONNX

    print(bln_search.compare({"sgd": scores_of_sgd, "adam": scores_of_adam}))   # any scores under the same seeds

    bln_search.assert_not_worse(model, baseline, test_loader, margin=0.01)      # in tests, with pytest or unittest

    model = bln_search.load("folder")                      # what `export` or `bln-search export` wrote

    client = bln_search.Client("http://127.0.0.1:8000", token="bln_...")        # a service

What needs torch or httpx is loaded when it is first used, so that importing this package stays light. Every error that
is raised on purpose is a `BlnSearchError`, a ValueError or a TypeError.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from bln_search.core.errors import (
    BatchDependenceWarning,
    BlnSearchError,
    DataError,
    MissingPackageError,
    ModelError,
    ShiftWarning,
)
from bln_search.core.version import VERSION

if TYPE_CHECKING:
    from bln_search.adaptation.adaptive_network import AdaptiveNetwork
    from bln_search.api.adaptive import adaptive
    from bln_search.api.apply import apply_configuration
    from bln_search.api.check.check import check
    from bln_search.api.check.recalibrate import Certificate, recalibrate
    from bln_search.api.check.report import CheckReport
    from bln_search.api.compare import compare
    from bln_search.api.compared_scores import ComparedScore, ComparedScores
    from bln_search.api.convert import convert
    from bln_search.api.corrupt import corrupt
    from bln_search.api.evaluate import evaluate_configurations
    from bln_search.api.export.loading import load
    from bln_search.api.export.own_export import ExportReport, export
    from bln_search.api.fine_tune import fine_tune
    from bln_search.api.initialize import initialize
    from bln_search.api.layer_search import search_layers
    from bln_search.api.not_worse.assertion import assert_not_worse
    from bln_search.api.not_worse.report import NotWorseReport
    from bln_search.api.ranked.conditions import RankedConditions
    from bln_search.api.ranked.layers import RankedLayers
    from bln_search.api.ranked.several_networks import load_ranked
    from bln_search.api.ranked.table import RankedConfigurations
    from bln_search.api.streams.evaluate import evaluate_streams
    from bln_search.api.streams.ranked import RankedStreams
    from bln_search.client import Client, ServiceError
    from bln_search.core.configuration import InferenceConfiguration, all_configurations
    from bln_search.core.enums import PopulationEstimate, Split
    from bln_search.core.method import Method
    from bln_search.evaluation.split_metrics import Metric
    from bln_search.models.analytic import estimate_from_weights
    from bln_search.norms import BLN, BN, BRN, LN, MBN
    from bln_search.norms.network.layers import reset_stream
    from bln_search.norms.replacement import NormFactory, NormWithActivation, register_norm_layer
    from bln_search.tasks.score import ExampleScores

__version__ = VERSION
__all__ = [
    "BLN",
    "BN",
    "BRN",
    "LN",
    "MBN",
    "AdaptiveNetwork",
    "BatchDependenceWarning",
    "BlnSearchError",
    "Certificate",
    "CheckReport",
    "Client",
    "ComparedScore",
    "ComparedScores",
    "DataError",
    "ExampleScores",
    "ExportReport",
    "InferenceConfiguration",
    "Method",
    "Metric",
    "MissingPackageError",
    "ModelError",
    "NormFactory",
    "NormWithActivation",
    "NotWorseReport",
    "PopulationEstimate",
    "RankedConditions",
    "RankedConfigurations",
    "RankedLayers",
    "RankedStreams",
    "ServiceError",
    "ShiftWarning",
    "Split",
    "adaptive",
    "all_configurations",
    "apply_configuration",
    "assert_not_worse",
    "check",
    "compare",
    "convert",
    "corrupt",
    "estimate_from_weights",
    "evaluate_configurations",
    "evaluate_streams",
    "export",
    "fine_tune",
    "initialize",
    "load",
    "load_ranked",
    "recalibrate",
    "register_norm_layer",
    "reset_stream",
    "search_layers",
]

_HOMES = {
    "BLN": "bln_search.norms",
    "BN": "bln_search.norms",
    "BRN": "bln_search.norms",
    "LN": "bln_search.norms",
    "MBN": "bln_search.norms",
    "AdaptiveNetwork": "bln_search.adaptation.adaptive_network",
    "Certificate": "bln_search.api.check.recalibrate",
    "CheckReport": "bln_search.api.check.report",
    "Client": "bln_search.client",
    "ComparedScore": "bln_search.api.compared_scores",
    "ComparedScores": "bln_search.api.compared_scores",
    "ExampleScores": "bln_search.tasks.score",
    "ExportReport": "bln_search.api.export.own_export",
    "InferenceConfiguration": "bln_search.core.configuration",
    "Method": "bln_search.core.method",
    "Metric": "bln_search.evaluation.split_metrics",
    "NormFactory": "bln_search.norms.replacement",
    "NormWithActivation": "bln_search.norms.replacement",
    "NotWorseReport": "bln_search.api.not_worse.report",
    "PopulationEstimate": "bln_search.core.enums",
    "RankedConditions": "bln_search.api.ranked.conditions",
    "RankedConfigurations": "bln_search.api.ranked.table",
    "RankedLayers": "bln_search.api.ranked.layers",
    "RankedStreams": "bln_search.api.streams.ranked",
    "ServiceError": "bln_search.client",
    "Split": "bln_search.core.enums",
    "all_configurations": "bln_search.core.configuration",
    "adaptive": "bln_search.api.adaptive",
    "apply_configuration": "bln_search.api.apply",
    "assert_not_worse": "bln_search.api.not_worse.assertion",
    "check": "bln_search.api.check.check",
    "compare": "bln_search.api.compare",
    "convert": "bln_search.api.convert",
    "corrupt": "bln_search.api.corrupt",
    "estimate_from_weights": "bln_search.models.analytic",
    "evaluate_configurations": "bln_search.api.evaluate",
    "evaluate_streams": "bln_search.api.streams.evaluate",
    "export": "bln_search.api.export.own_export",
    "fine_tune": "bln_search.api.fine_tune",
    "initialize": "bln_search.api.initialize",
    "load": "bln_search.api.export.loading",
    "load_ranked": "bln_search.api.ranked.several_networks",
    "recalibrate": "bln_search.api.check.recalibrate",
    "register_norm_layer": "bln_search.norms.replacement",
    "reset_stream": "bln_search.norms.network.layers",
    "search_layers": "bln_search.api.layer_search",
}


def __dir__() -> list[str]:
    """The public names."""
    return [*__all__, "__version__"]


def __getattr__(name: str) -> Any:
    """Public names that are loaded from their home on first use.

    Raises:
        AttributeError: There is no such name.
        MissingPackageError: A package that the name needs is not installed.
    """
    if name not in _HOMES:
        raise AttributeError(f"module 'bln_search' has no attribute {name!r}")
    home = _HOMES[name]
    try:
        return getattr(import_module(home), name)
    except ModuleNotFoundError as error:
        if (error.name or "").startswith("bln_search"):
            raise
        extra = "service" if home == "bln_search.client" else None  # all else needs what is always installed
        raise MissingPackageError(error.name, extra) from error
