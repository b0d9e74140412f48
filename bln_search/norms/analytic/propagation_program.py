"""The operations from the normalization layers in front to the input of one, as a program on mean and variance."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from bln_search.norms.analytic.moment_rules import MomentRule
from bln_search.norms.analytic.moments import MeanVariance


@dataclass
class PropagationStep:
    """One operation.

    Attributes:
        rule: of the operation.
        arguments: numbers of the steps whose results it takes.
    """

    rule: MomentRule
    arguments: tuple[int, ...] = ()


@dataclass
class PropagationProgram:
    """A program whose last step gives mean and variance of a layer's input.

    It refers to modules of the network and is no module itself: the network keeps its parameters once, and a copy of
    the whole network has copies of these references.
    """

    steps: Sequence[PropagationStep]

    def compute_moments(self, *, training: bool) -> MeanVariance:
        """Return mean and variance of the last step's result, of an example's shape.

        Args:
            training: whether dropout is active.
        """
        results: list[MeanVariance] = []
        for step in self.steps:
            results.append(step.rule([results[number] for number in step.arguments], training=training))
        return results[-1]
