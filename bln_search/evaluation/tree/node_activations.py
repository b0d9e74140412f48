"""Nodes of the tree with the values that enter a segment for them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from bln_search.evaluation.tree.graph.segments import is_example_tensor

Ids = NDArray[np.int64]


@dataclass(frozen=True)
class NodeActivations:
    """Nodes of the tree and the values that enter a segment for them.

    Attributes:
        ids: of the nodes.
        values: tensors (nodes·G·N, ...), and numbers read from shapes.
    """

    ids: Ids
    values: list[Any]

    def slice_nodes(self, start: int, stop: int) -> NodeActivations:
        """Return the nodes from `start` to before `stop`."""
        if start == 0 and stop >= len(self.ids):
            return self
        num_nodes = len(self.ids)

        def slice_value(value: Any) -> Any:
            if not is_example_tensor(value):
                return value
            return value.view(num_nodes, -1, *value.shape[1:])[start:stop].flatten(0, 1)

        return NodeActivations(self.ids[start:stop], [slice_value(value) for value in self.values])

    def copy(self) -> NodeActivations:
        """Return a copy, for a segment that may change the values in place."""
        return NodeActivations(
            self.ids, [value.clone() if is_example_tensor(value) else value for value in self.values]
        )

    def select_nodes(self, positions: Ids) -> NodeActivations:
        """Return the nodes at these positions."""
        num_nodes = len(self.ids)

        def select_value(value: Any) -> Any:
            if not is_example_tensor(value):
                return value
            by_node = value.view(num_nodes, -1, *value.shape[1:])
            return by_node[torch.from_numpy(positions).to(value.device)].flatten(0, 1)

        return NodeActivations(self.ids[positions], [select_value(value) for value in self.values])
