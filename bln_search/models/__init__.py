"""Networks with a configurable normalization layer."""

from bln_search.models.activations import SlopedReLU
from bln_search.models.factory import NormLayerConstructor, build_model
from bln_search.models.lenet import LeNet
from bln_search.models.mlp import MLP
from bln_search.models.plain_convolutional import NIN, VGG16
from bln_search.models.residual import ResNet

__all__ = ["MLP", "NIN", "VGG16", "LeNet", "NormLayerConstructor", "ResNet", "SlopedReLU", "build_model"]
