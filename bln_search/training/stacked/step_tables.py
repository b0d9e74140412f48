"""Values that change from step to step, as tables on the device."""

from __future__ import annotations

import torch
from torch import Tensor


class StepTables:
    """Tables with a row for each step of an epoch. The present step is a tensor, so that no step depends on the host.

    The tables keep their memory from epoch to epoch, so that a recorded step can be run again.

    Args:
        device: Of the tables.
    """

    def __init__(self, device: torch.device) -> None:
        self._tables: dict[str, Tensor] = {}
        self._step = torch.zeros(1, dtype=torch.int64, device=device)

    def write(self, name: str, rows: Tensor) -> None:
        """Set the rows (steps, ...) of a table, which has the same shape in each epoch."""
        if name in self._tables:
            self._tables[name].copy_(rows)
        else:
            self._tables[name] = rows.to(self._step.device, copy=True)

    def read(self, name: str) -> Tensor:
        """Return the row of the present step."""
        return self._tables[name].index_select(0, self._step)[0]

    def begin_epoch(self) -> None:
        """Go to the first step."""
        self._step.zero_()

    def end_step(self) -> None:
        """Go to the next step."""
        self._step.add_(1)
