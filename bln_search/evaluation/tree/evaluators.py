"""What evaluates a network's per-layer configurations: a walk where it can be followed, else plain forward passes."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from typing import Protocol, Self

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn

from bln_search.core.errors import BlnSearchError, DataError
from bln_search.core.per_layer import ConfigurationSpace
from bln_search.core.records import Outcomes
from bln_search.evaluation.batches import MiniBatch
from bln_search.evaluation.tree.options import Asked
from bln_search.evaluation.tree.plain_evaluator import OneByOneEvaluator
from bln_search.evaluation.tree.running_sums import Sums
from bln_search.evaluation.tree.space import LeftOut
from bln_search.evaluation.tree.tracing import NotFollowedError
from bln_search.evaluation.tree.tree_evaluator import TreeEvaluator
from bln_search.evaluation.tree.trie import Digits
from bln_search.norms.row_tensor import Populations


class Evaluator(Protocol):
    """A network and the mini-batches by which its per-layer configurations are judged; see `TreeEvaluator`.

    most: the size of the largest space that it enumerates.
    """

    network: nn.Module
    batches: list[MiniBatch]
    populations: Populations
    space: ConfigurationSpace
    left_out: LeftOut
    most: int

    @property
    def sizes(self) -> list[int]:
        """How many examples are judged in each mini-batch."""

    @property
    def examples(self) -> int:
        """How many examples are judged."""

    def enumerate(self, *, sums: Sums | None = None, keep: Callable[[Sums], None] | None = None) -> Sums:
        """Mean loss and accuracy of every configuration."""

    def check(self) -> None:
        """Raise ModelError where figures are not those of plain forward passes."""

    def sums(self, digits: Digits, batches: Sequence[int]) -> tuple[NDArray[np.float64], NDArray[np.int64]]:
        """Sums of losses and of right answers, (configurations, mini-batches)."""

    def outcomes(self, digits: Digits | Sequence[Sequence[int]]) -> list[Outcomes]:
        """Per-example losses and correctness under each of these configurations."""

    def again(self, network: nn.Module, batches: Sequence[MiniBatch], populations: Populations) -> Self:
        """The same question, asked of these."""


def find_evaluator(
    network: nn.Module,
    batches: Sequence[MiniBatch],
    populations: Populations,
    asked: Asked,
    *,
    folds: Sequence[int],
) -> Evaluator:
    """A walk; warns (UserWarning) of a network that it cannot follow, which is then evaluated by plain passes.

    Raises ModelError for a network that neither can evaluate, DataError for no mini-batch.
    """
    try:
        return _followed(network, batches, populations, asked, folds)
    except NotFollowedError as error:
        plainly = OneByOneEvaluator(network, batches, populations, asked, folds=folds)
        plainly.sums(_tried(plainly.space)[:1], [0])  # what is wrong by itself is said, not what the walk made of it
        warnings.warn(
            f"{error}. Its per-layer configurations are evaluated one by one, by plain forward passes, which takes "
            "longer",
            stacklevel=3,
        )
        return plainly


def _followed(
    network: nn.Module, batches: Sequence[MiniBatch], populations: Populations, asked: Asked, folds: Sequence[int]
) -> TreeEvaluator:
    """Raises NotFollowedError where the walk fails on the first mini-batches, for whatever reason."""
    tree: TreeEvaluator | None = None
    try:
        tree = TreeEvaluator(network, batches, populations, asked, folds=folds)
        tree.sums(_tried(tree.space), range(min(2, len(batches))))
    except (DataError, NotFollowedError, torch.OutOfMemoryError):
        raise
    except Exception as error:
        if tree is None and isinstance(error, BlnSearchError):
            raise
        raise NotFollowedError(
            f"this {type(network).__name__} cannot be walked layer by layer ({type(error).__name__}: {error})"
        ) from error
    return tree


def _tried(space: ConfigurationSpace) -> Digits:
    """A few configurations that fan out at the first layer and at later ones."""
    first, last = np.zeros(len(space.radices), np.uint8), np.array(space.radices, np.uint8) - 1
    half = len(first) // 2
    mixed = [np.concatenate([one[:half], other[half:]]) for one in (first, last) for other in (first, last)]
    return np.stack(mixed).astype(np.uint8)
