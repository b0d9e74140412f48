"""The layers of several networks of one structure as one layer.

Networks are on axis 1: an activation (N, C, ...) of one network is (N, K·C, ...) for K of them, first all channels of
the first network. A layer without parameters that treats channels alike needs no change.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from bln_search.models.residual import ResidualBlock
from bln_search.norms import Normalization
from bln_search.norms.network.stacking import stack_layers_of_networks
from bln_search.training.stacked.parameters import SharedParameterStack


class StackedLinear(nn.Module):
    """K dense layers. Input (N, K·I); output (N, K·O).

    Args:
        first: That of the first network.
        parameters: Of all networks.
    """

    def __init__(self, first: nn.Linear, parameters: SharedParameterStack) -> None:
        super().__init__()
        self.weight, self.bias = (parameters.get_stacked_parameter(value) for value in (first.weight, first.bias))

    def forward(self, x: Tensor) -> Tensor:
        """Return W_k·x_k + b_k."""
        assert self.weight is not None
        number, transposed = len(self.weight), self.weight.transpose(1, 2)
        inputs = x.view(len(x), number, -1).transpose(0, 1)
        if self.bias is None:
            outputs = torch.bmm(inputs, transposed)
        else:
            outputs = torch.baddbmm(self.bias.unsqueeze(1), inputs, transposed)
        return outputs.transpose(0, 1).reshape(len(x), -1)


class StackedConv2d(nn.Module):
    """K convolutions as one grouped convolution. Input (N, K·C, H, W); output (N, K·O, H', W').

    Args:
        first: That of the first network, with zero padding.
        parameters: Of all networks.
    """

    def __init__(self, first: nn.Conv2d, parameters: SharedParameterStack) -> None:
        super().__init__()
        self.weight, self.bias = (parameters.get_stacked_parameter(value) for value in (first.weight, first.bias))
        self.stride, self.padding, self.dilation = first.stride, first.padding, first.dilation
        self.groups = parameters.num_networks * first.groups

    def forward(self, x: Tensor) -> Tensor:
        """Return the convolutions."""
        bias = None if self.bias is None else self.bias.flatten()
        assert self.weight is not None
        weight = self.weight.flatten(0, 1)
        return F.conv2d(x, weight, bias, self.stride, self.padding, self.dilation, self.groups)


class StackedNormalization(nn.Module):
    """K normalization layers of one method. Input and output (N, K·C, ...).

    Args:
        layers: Those of the networks; they may differ in scheduled attributes and values of earlier steps.
        parameters: Of all networks.

    Attributes:
        layers: The given layers.
        layer: Takes inputs (N, K, C, ...). Its history of training steps is that of all networks.
        scheduled_values: Values (K,) of attributes of the layer that differ between networks, by name.
    """

    def __init__(self, layers: Sequence[Normalization], parameters: SharedParameterStack) -> None:
        super().__init__()
        self.layers = tuple(layers)
        names = ("weight", "bias")
        self.layer = stack_layers_of_networks(
            layers, {name: parameters.get_stacked_parameter(getattr(layers[0], name)) for name in names}
        )
        self.scheduled_values: Mapping[str, Tensor] = {}

    def forward(self, x: Tensor) -> Tensor:
        """Normalize each network's inputs by its own statistics."""
        number = self.layer.num_networks
        assert number is not None
        inputs = x.view(len(x), number, -1, *x.shape[2:])
        for name, values in self.scheduled_values.items():
            setattr(self.layer, name, values.view(-1, *[1] * (inputs.ndim - 2)))
        outputs: Tensor = self.layer(inputs)
        return outputs.view_as(x)


class StackedResidualBlock(ResidualBlock):
    """K residual blocks; `num_networks` is K."""

    num_networks: int

    @classmethod
    def from_block(cls, block: ResidualBlock, num_networks: int) -> StackedResidualBlock:
        """Return a block with the layers of `block`."""
        stacked = cls.__new__(cls)
        stacked.__dict__ = dict(block.__dict__)
        stacked.num_networks = num_networks
        return stacked

    def shortcut_output(self, x: Tensor) -> Tensor:
        """Return each network's input in the shape of its output."""
        if self.stride > 1:
            x = x[:, :, :: self.stride, :: self.stride]
        if not self.new_channels:
            return x
        inputs = x.reshape(len(x), self.num_networks, -1, *x.shape[2:])
        return F.pad(inputs, (0, 0, 0, 0, 0, self.new_channels)).flatten(1, 2)
