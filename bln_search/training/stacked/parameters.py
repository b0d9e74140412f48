"""The parameters of several networks of one structure in one tensor."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import accumulate

import torch
from torch import Tensor, nn


class SharedParameterStack:
    """The parameters of K networks of one structure, P numbers each, as one tensor (K, P).

    The parameters of the networks become views of it: what is trained here is trained in them.

    Args:
        networks: K networks whose parameters have the same names, shapes, dtypes and devices.

    Attributes:
        values: The parameters (K, P).
    """

    def __init__(self, networks: Sequence[nn.Module]) -> None:
        self._parameters = [list(network.parameters()) for network in networks]
        self.values = torch.stack(
            [torch.cat([parameter.detach().flatten() for parameter in parameters]) for parameters in self._parameters]
        )
        self._stacked: dict[Tensor, nn.Parameter] = {}
        ends = list(accumulate(parameter.numel() for parameter in self._parameters[0]))
        for index, (end, first) in enumerate(zip(ends, self._parameters[0], strict=True)):
            columns = slice(end - first.numel(), end)
            stacked = self._stacked[first] = nn.Parameter(self.values[:, columns].view(-1, *first.shape))
            for row, parameters in zip(stacked.detach(), self._parameters, strict=True):
                parameters[index].data = row

    @property
    def num_networks(self) -> int:
        """K."""
        return len(self.values)

    def get_stacked_parameter(self, parameter: Tensor | None) -> nn.Parameter | None:
        """Return the parameters (K, ...) of all networks, by that of the first network; None for None."""
        return None if parameter is None else self._stacked[parameter]

    def compute_gradients(self, loss: Tensor) -> Tensor:
        """Return the gradients (K, P) of a sum of losses, each of which depends on the parameters of one network."""
        gradients = torch.autograd.grad(loss, list(self._stacked.values()))
        return torch.cat([gradient.flatten(1) for gradient in gradients], 1)

    def iter_tensor_parts_by_parameter(self, tensor: Tensor) -> Iterator[tuple[int, nn.Parameter, Tensor]]:
        """Yield the number of a network, a parameter of it, and its part of a tensor (K, P)."""
        for number, (row, parameters) in enumerate(zip(tensor, self._parameters, strict=True)):
            parts = row.split([parameter.numel() for parameter in parameters])
            for parameter, part in zip(parameters, parts, strict=True):
                yield number, parameter, part.view_as(parameter)
