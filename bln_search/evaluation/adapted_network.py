"""A network with a function that calls it with a mini-batch, and a selection of its output."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from torch import Tensor, nn

from bln_search.data.inputs import Inputs, StructuredInputs

Forward = Callable[[nn.Module, Any], Any]
"""Calls a network with the inputs of a mini-batch and returns its output."""


class NetworkWithCallAdapter(nn.Module):
    """Calls a network with inputs of any structure and returns one tensor.

    Modules, parameters and buffers have the names that they have in the network itself.

    Args:
        network: the network.
        call: called with the network, or a copy of it, and with the inputs.
        select: returns the tensor in an output of `call`.
    """

    def __init__(self, network: nn.Module, call: Forward, select: Callable[[Any], Any]) -> None:
        super().__init__()
        self.network, self.call, self.select = network, call, select
        self.training = network.training

    def forward(self, inputs: Inputs) -> Tensor:
        """Return the selected output."""
        output: Tensor = self.call_network_and_select_output(
            self.network, inputs.build_structure() if isinstance(inputs, StructuredInputs) else inputs
        )
        return output

    def call_network_and_select_output(self, network: nn.Module, batch: Any) -> Any:
        """Call a network, this one or a copy, and return the selected output."""
        return self.select(self.call(network, batch))

    def named_modules(
        self,
        memo: set[nn.Module] | None = None,
        prefix: str = "",
        remove_duplicate: bool = True,  # noqa: FBT001, FBT002 - the signature of torch
    ) -> Iterator[tuple[str, nn.Module]]:
        """Yield the modules of the network itself, with their names there."""
        yield from self.network.named_modules(memo, prefix, remove_duplicate)
