"""What is asked of a walk."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from bln_search.core.enums import LayerScope, PopulationEstimate
from bln_search.evaluation.memory import MEMORY_LIMIT
from bln_search.evaluation.scoring import Score, cross_entropy


@dataclass(frozen=True)
class Asked:
    """What is chosen and how it is judged.

    estimate: where population values come from; None where none were estimated. scope, groups: see `find_space`.
    score: from outputs and targets to per-example losses and correctness. memory_limit: bytes of the largest tensor
    of a walk, and of what is kept of earlier ones; a few such tensors live at once.
    """

    estimate: PopulationEstimate | None = PopulationEstimate.FROZEN
    scope: LayerScope = LayerScope.PER_LAYER
    groups: Mapping[str, Sequence[str]] = field(default_factory=dict)
    score: Score = cross_entropy
    memory_limit: int = MEMORY_LIMIT
