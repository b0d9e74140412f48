"""Targets of a group of mini-batches, in the layouts that scores of many paths need."""

from __future__ import annotations

import torch
from torch import Tensor

from bln_search.evaluation.batches import BatchGroup
from bln_search.evaluation.tree.node_activations import Ids


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
