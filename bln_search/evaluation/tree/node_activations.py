"""Nodes of the tree with the values that enter a segment for them, and the targets of their examples."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from bln_search.evaluation.batches import BatchGroup
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


class BatchTargets:
    """The targets of a group of mini-batches; filler examples of an incomplete mini-batch have none of their own."""

    def __init__(self, group: BatchGroup) -> None:
        self.groups, self.size, self.examples = group.groups, group.size, group.groups * group.size
        self.num_targets = len(group.targets)
        missing = self.examples - self.num_targets
        filler = group.targets[:1].expand(missing, *group.targets.shape[1:])
        self.targets = torch.cat([group.targets, filler]) if missing else group.targets
        is_integer = self.targets.ndim == 1 and not self.targets.is_floating_point()
        self.are_classes = is_integer and bool(self.targets.min() >= 0)

    @property
    def has_no_fillers(self) -> bool:
        """Whether every example has a target of its own."""
        return self.num_targets == self.examples

    def repeat_for_paths(self, paths: int) -> Tensor:
        """Return the targets once for each path."""
        return self.targets.repeat(paths, *[1] * (self.targets.ndim - 1))

    def repeat_for_paths_by_mini_batch(self, paths: int) -> Tensor:
        """Return the targets once for each path, (paths·G, N)."""
        return self.targets.view(self.groups, self.size).repeat(paths, 1)

    def reshape_scores_by_path(self, values: Tensor) -> Tensor:
        """Return (rows, paths·G, N) as (rows, paths, G, N)."""
        return values.view(len(values), -1, self.groups, self.size)

    def drop_fillers_and_select_paths(self, values: Tensor, positions: Ids | None) -> Tensor:
        """Return the values of the paths at `positions` without filler examples: (paths, G, examples).

        Values (rows, paths, G, N) are returned unchanged where all paths and examples remain.
        """
        if positions is None and self.num_targets == self.examples:
            return values
        flat = values.reshape(-1, self.groups, self.size)
        flat = flat if self.num_targets == self.examples else flat.flatten(1)[:, None, : self.num_targets]
        return flat if positions is None else flat[torch.from_numpy(positions).to(flat.device)]
