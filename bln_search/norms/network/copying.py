"""Deep copies of networks whose hooks compute tensors."""

from __future__ import annotations

from copy import deepcopy
from typing import Any, TypeVar

from torch import Tensor, nn

_M = TypeVar("_M", bound=nn.Module)


def copy_network(network: _M) -> _M:
    """Return a deep copy of a network; tensors that a hook computes from parameters are copied as values.

    `weight_norm`, `spectral_norm` and pruning by hooks compute the weight before each forward pass. It has a gradient
    function afterwards, and torch copies no such tensor.
    """
    values = [value for module in network.modules() for value in vars(module).values() if isinstance(value, Tensor)]
    copies: dict[int, Any] = {id(value): value.detach().clone() for value in values if not value.is_leaf}
    return deepcopy(network, copies)
