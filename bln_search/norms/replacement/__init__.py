"""Replacement of normalization layers of torch and of other libraries by layers of bln-search."""

from bln_search.norms.replacement.factory import OTHER_STATISTICS, NormFactory, ReplaceFunction
from bln_search.norms.replacement.libraries import KEPT
from bln_search.norms.replacement.registry import (
    NotReplacedReason,
    class_path,
    find_registered_class,
    register_norm_layer,
    replace_layer_or_explain,
)
from bln_search.norms.replacement.wrappers import MergedAxesNorm, NormWithActivation

__all__ = [
    "KEPT",
    "OTHER_STATISTICS",
    "MergedAxesNorm",
    "NormFactory",
    "NormWithActivation",
    "NotReplacedReason",
    "ReplaceFunction",
    "class_path",
    "find_registered_class",
    "register_norm_layer",
    "replace_layer_or_explain",
]
