"""Per-layer configurations of the trained networks of a study: what was found, what of it was confirmed, and where."""

from __future__ import annotations

import math
from typing import Annotated, Any

from pydantic import BeforeValidator, Field

from bln_search.core.enums import LayerScope, LayerSearch, PopulationEstimate
from bln_search.ranking.statistics.intervals import ALPHA
from bln_search.ranking.stored_model import Kept


def _read(value: Any) -> Any:
    return math.inf if value is None else value


Loss = Annotated[float, BeforeValidator(_read)]
"""May be infinite; JSON, which has no word for that, says null."""


class LayerChoice(Kept):
    """What is chosen once: the word of a layer, or of several tied together. left_out: why options have no value."""

    name: str
    layers: tuple[str, ...]
    options: tuple[str, ...]
    left_out: dict[str, str] = Field(default_factory=dict)


class LayerRow(Kept):
    """A per-layer configuration (words with dots between) over networks: means, and half of their 95 % t intervals.

    For a uniform configuration it is the one word that all layers follow. networks: how many; half None for one.
    """

    configuration: str
    loss: float
    loss_half: float | None
    accuracy: float
    accuracy_half: float | None
    networks: int


class SwitchEffect(Kept):
    """Mean loss with a switch of a choice at T less that at F, over networks, with half of its 95 % t interval.

    Averaged over everything else that was enumerated; where the space was searched, around the best configuration.
    """

    choice: str
    statistic: str
    loss: float
    half: float | None
    networks: int

    @property
    def excludes_zero(self) -> bool:
        """Is nothing too little to explain it? False where that is not known."""
        return self.half is not None and abs(self.loss) > self.half


class NetworkChoice(Kept):
    """One trained network: what was chosen for it, and what that is worth on examples that had no part in choosing.

    The validation examples are parted into folds; on each fold the configuration chosen on the others is judged, and
    figures are means over all examples. apparent: on the examples that chose. loss, accuracy: confirmed, on the others.
    uniform_…: the same of the best configuration that is alike in all layers. best, uniform: chosen on all examples.
    evaluations: how many configurations were evaluated. test_…: best and uniform on the test split; a loss that is not
    finite is None beside an accuracy.
    """

    seed: int
    evaluations: float
    best: str
    uniform: str
    chosen: tuple[str, ...]
    apparent: Loss
    loss: Loss
    accuracy: float
    uniform_apparent: Loss
    uniform_loss: Loss
    uniform_accuracy: float
    test_loss: float | None = None
    test_accuracy: float | None = None
    test_uniform_loss: float | None = None
    test_uniform_accuracy: float | None = None

    @property
    def shrinkage(self) -> float:
        """Confirmed loss less the apparent one: what choosing had made of luck."""
        return self.loss - self.apparent

    @property
    def difference(self) -> float:
        """Confirmed loss less that of the best uniform configuration: negative where per-layer is better."""
        return self.loss - self.uniform_loss


class ConfirmedDifference(Kept):
    """Confirmed loss of per-layer choices less that of uniform ones, over seeds and examples, with a 95 % interval."""

    mean: float
    low: float
    high: float
    p: float
    networks: int

    @property
    def better(self) -> bool:
        """Is per-layer better, by more than chance explains?"""
        return self.p < ALPHA and self.mean < 0

    @property
    def worse(self) -> bool:
        """Is it worse, by more than chance explains?"""
        return self.p < ALPHA and self.mean > 0


class LayerResult(Kept):
    """The networks of an arm at one point, searched layer by layer on validation.

    size: how many configurations there are, in decimal digits (it may be larger than programs count). examples: of the
    validation split. rows: the best by mean loss over networks, of those that were evaluated for all of them; uniform:
    the configurations alike in all layers. marginal: are effects averages over all configurations? unfinished: seeds
    whose networks are still to be searched.
    """

    arm: str
    point: str
    scope: LayerScope
    search: LayerSearch
    estimate: PopulationEstimate | None
    batch_size: int
    examples: int
    folds: int
    size: str
    layers: tuple[str, ...]
    choices: tuple[LayerChoice, ...]
    networks: tuple[NetworkChoice, ...]
    rows: tuple[LayerRow, ...]
    uniform: tuple[LayerRow, ...]
    effects: tuple[SwitchEffect, ...]
    marginal: bool
    difference: ConfirmedDifference | None
    unfinished: tuple[int, ...] = ()

    @property
    def best(self) -> LayerRow | None:
        """The first row."""
        return self.rows[0] if self.rows else None
