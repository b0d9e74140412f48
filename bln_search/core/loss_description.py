"""What the loss of a table is: its name and unit."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class LossDescription:
    """The loss that ranks rows.

    Attributes:
        name: Its name, as `cross-entropy` or `squared error`; for a function of the user the name of the function.
        unit: Its unit; empty for a loss without one.
    """

    name: str
    unit: str = ""

    @property
    def text(self) -> str:
        """`mean cross-entropy in nats`."""
        return f"mean {self.name}{f' in {self.unit}' if self.unit else ''}"


CROSS_ENTROPY = LossDescription("cross-entropy", "nats")
