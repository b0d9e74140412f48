"""Statistics from weights: binding of layers to the layers in front of them, moments of linear layers, BN and BLN."""

from bln_search.models.analytic.binding import bind_analytic_layers, set_ap2_input_moments
from bln_search.models.analytic.estimates import estimate_from_weights
from bln_search.models.analytic.linear_layers import build_linear_layer_moment_programs

__all__ = [
    "bind_analytic_layers",
    "build_linear_layer_moment_programs",
    "estimate_from_weights",
    "set_ap2_input_moments",
]
