"""Replacement of normalization layers of torch and of other libraries by layers of bln-search."""

from bln_search.norms.replacement.factory import NormFactory, ReplaceFunction
from bln_search.norms.replacement.registry import class_path, register_norm_layer, registered_class, replace_layer
from bln_search.norms.replacement.wrappers import MergedAxesNorm, NormWithActivation

__all__ = [
    "MergedAxesNorm",
    "NormFactory",
    "NormWithActivation",
    "ReplaceFunction",
    "class_path",
    "register_norm_layer",
    "registered_class",
    "replace_layer",
]
