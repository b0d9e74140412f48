"""Closed sets of words that appear alike in study files, tables, URLs and code, and what names may be."""

from __future__ import annotations

from enum import StrEnum
from typing import TypeVar

NAME = r"^[a-z0-9][a-z0-9_-]{0,63}$"
"""What a study or an account may be called."""

Word = TypeVar("Word", bound=StrEnum)


def chosen(kind: type[Word], value: str, name: str) -> Word:
    """The word of this kind. Raises ValueError that names the argument and what there is to choose from."""
    try:
        return kind(value)
    except ValueError:
        raise ValueError(f"there is no {name} {value!r}: choose one of {', '.join(kind)}") from None


class Semantics(StrEnum):
    """Which reading of BLN: the paper's formulas, or what the authors' published code computes."""

    PAPER = "paper"
    REFERENCE = "reference"


class PopulationEstimate(StrEnum):
    """How a population value is obtained.

    frozen: mean over the training mini-batches with the final weights (BLN paper, Algorithm 2).
    epoch: mean over the mini-batches of the checkpoint's epoch, while the weights were still moving.
    moving: exponential moving average over the training steps, as batch normalization is usually run.
    memory: what the memory of MBN holds (MBN paper, Eq. 6); read where a configuration says M, never asked for by name.
    """

    FROZEN = "frozen"
    EPOCH = "epoch"
    MOVING = "moving"
    MEMORY = "memory"

    @property
    def gathered_in_training(self) -> bool:
        """Is this estimate a by-product of training?"""
        return self is not PopulationEstimate.FROZEN


class Correction(StrEnum):
    """How a population deviation is made from mini-batch deviations.

    bessel: the factor m/(m-1) of BLN's Eq. 5, 19 and 21; undefined for m = 1.
    total: the law of total variance, E[σ²] + Var[μ] over the mini-batches; defined for every m.
    """

    BESSEL = "bessel"
    TOTAL = "total"


class Split(StrEnum):
    """A part of a data set."""

    TRAIN = "train"
    VALIDATION = "validation"
    TEST = "test"


class ProbeKind(StrEnum):
    """What is measured of a network beside the leaderboard, without training again.

    size: inference mini-batches of other sizes. epoch: the network after other epochs. reshuffled: the same examples in
    other mini-batches. skewed: mini-batches of one class as far as they go.
    """

    SIZE = "size"
    EPOCH = "epoch"
    RESHUFFLED = "reshuffled"
    SKEWED = "skewed"


class LayerScope(StrEnum):
    """What per-layer configurations choose.

    global: one word for all normalization layers. per_layer: a word for each. groups: a word for each group of layers.
    """

    GLOBAL = "global"
    PER_LAYER = "per_layer"
    GROUPS = "groups"


class LayerSearch(StrEnum):
    """How per-layer configurations are searched.

    exact: all of them. beam: layer by layer, the best few beginnings going on. coordinate: one layer after the other,
    until no change helps. tpe: Optuna's tree-structured Parzen estimator. racing: many at once, dropped as soon as
    paired tests tell them from the best. random: as many as may be, drawn evenly.
    """

    EXACT = "exact"
    BEAM = "beam"
    COORDINATE = "coordinate"
    TPE = "tpe"
    RACING = "racing"
    RANDOM = "random"


class Scope(StrEnum):
    """What a token allows: reading one's own studies; changing them too; everything, of everybody."""

    READ = "read"
    WRITE = "write"
    ADMIN = "admin"

    def allows(self, wanted: Scope) -> bool:
        """Each scope includes those before it."""
        order = list(Scope)
        return order.index(self) >= order.index(wanted)


class CheckpointRule(StrEnum):
    """Which epoch's weights are kept."""

    BEST_VALIDATION = "best_validation"
    LAST = "last"
