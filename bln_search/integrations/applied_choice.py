"""The recommended row of an evaluation, as another process of the training can apply it too."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from torch import nn

from bln_search.api.apply import apply_configuration
from bln_search.api.ranked.row import RankedConfiguration
from bln_search.integrations.undisturbed import convert_unless_converted
from bln_search.norms.network.layers import get_norms_by_name


@dataclass(frozen=True)
class AppliedChoice:
    """A row of a ranked table with what the evaluated network had.

    Attributes:
        row: The row with its population values.
        batch_sizes: Mini-batch sizes with which the layers were evaluated, by name.
    """

    row: RankedConfiguration
    batch_sizes: Mapping[str, int | None]

    def apply_to(self, network: nn.Module) -> None:
        """Convert the network if necessary, and apply the row.

        Raises:
            ModelError: It is not the network that was evaluated.
        """
        network = convert_unless_converted(network)
        for name, layer in get_norms_by_name(network).items():
            layer.batch_size = layer.batch_size or self.batch_sizes.get(name)
        apply_configuration(network, self.row)
