"""Networks that take any normalization."""

from bln_search.models.convolutional import LeNet
from bln_search.models.dense import MLP
from bln_search.models.factory import MODELS, NormFactory, build_model

__all__ = ["MLP", "MODELS", "LeNet", "NormFactory", "build_model"]
