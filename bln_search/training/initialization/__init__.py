"""Scaling of a network's first weights, and normalization layers that preserve the function of the network."""

from bln_search.training.initialization.network import scale_weights_and_set_norm_parameters
from bln_search.training.initialization.run import initialize_for_training_run

__all__ = ["initialize_for_training_run", "scale_weights_and_set_norm_parameters"]
