"""bln-search: the inference configuration of a normalized network's statistics that works best, and how sure it is.

    import bln_search

    model = bln_search.convert(model)                      # BatchNorm and LayerNorm layers become BLN; then train it
    ranked = bln_search.evaluate_configurations(model, train_loader, validation_loader)
    print(ranked)
    bln_search.apply_configuration(model, ranked.recommended)

    layered = bln_search.search_layers(model, train_loader, validation_loader)  # per-layer configurations

    model = bln_search.load("folder")                      # what `bln-search export` wrote

What needs torch is loaded when it is first used, so that importing this package stays light.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from bln_search.core.version import VERSION

if TYPE_CHECKING:
    from bln_search.api import (
        RankedConfigurations,
        RankedLayers,
        apply_configuration,
        convert,
        evaluate_configurations,
        load,
        search_layers,
    )
    from bln_search.core.configuration import InferenceConfiguration
    from bln_search.norms import BLN, BN, BRN, LN, MBN

__version__ = VERSION
__all__ = [
    "BLN",
    "BN",
    "BRN",
    "LN",
    "MBN",
    "InferenceConfiguration",
    "RankedConfigurations",
    "RankedLayers",
    "apply_configuration",
    "convert",
    "evaluate_configurations",
    "load",
    "search_layers",
]

_HOMES = {
    "BLN": "bln_search.norms",
    "BN": "bln_search.norms",
    "BRN": "bln_search.norms",
    "MBN": "bln_search.norms",
    "LN": "bln_search.norms",
    "InferenceConfiguration": "bln_search.core.configuration",
    "RankedConfigurations": "bln_search.api",
    "RankedLayers": "bln_search.api",
    "apply_configuration": "bln_search.api",
    "convert": "bln_search.api",
    "evaluate_configurations": "bln_search.api",
    "load": "bln_search.api",
    "search_layers": "bln_search.api",
}


def __dir__() -> list[str]:
    """The public names."""
    return [*__all__, "__version__"]


def __getattr__(name: str) -> Any:
    """The public names, each loaded from its home on first use."""
    if name not in _HOMES:
        raise AttributeError(f"module 'bln_search' has no attribute {name!r}")
    return getattr(import_module(_HOMES[name]), name)
