"""Tracing of a forward pass into a graph in which normalization layers are single nodes."""

from __future__ import annotations

from torch import fx, nn

from bln_search.models.recurrent.layer import RecurrentLayer
from bln_search.norms import Normalization


class NormTracer(fx.Tracer):
    """Treats normalization and recurrent layers as leaves, and torch's modules without normalization layers inside."""

    def is_leaf_module(self, m: nn.Module, module_qualified_name: str) -> bool:
        """Return whether a module is one node of the graph."""
        if isinstance(m, Normalization | RecurrentLayer):
            return True
        has_norms = any(isinstance(inner, Normalization) for inner in m.modules())
        return not has_norms and super().is_leaf_module(m, module_qualified_name)
