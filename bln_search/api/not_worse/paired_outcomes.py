"""Losses of a network and of its baseline on the same examples, in one reading of a loader."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import tee

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from bln_search.api.inputs.loaders import RoleLoader
from bln_search.api.not_worse.compared_network import ComparedNetwork
from bln_search.core.errors import DataError, ModelError
from bln_search.ranking.paired.table import Floats
from bln_search.tasks.score import Score, Scores


@dataclass(frozen=True)
class PairedOutcomes:
    """Outcomes of the examples of a loader that count, in its order.

    Attributes:
        losses: Losses of the network and of the baseline, (2, N).
        correct: Correctness of both, (2, N).
        weights: Weight of each example, (N,), above 0.
        batches: Number of the mini-batch of each example, (N,).
        are_identical: Whether both gave the same floating-point outputs, bit by bit, for all examples.
    """

    losses: Floats
    correct: NDArray[np.bool_]
    weights: Floats
    batches: NDArray[np.intp]
    are_identical: bool

    @property
    def examples(self) -> int:
        """Number of examples."""
        return len(self.weights)


def read_paired_outcomes(
    model: ComparedNetwork, baseline: ComparedNetwork, loader: RoleLoader, score: Score
) -> PairedOutcomes:
    """Read a loader once, and pass each mini-batch to both networks: a loader may shuffle or augment.

    Raises:
        DataError: The loader yields no example that counts, or its mini-batches do not fit.
        ModelError: A network or the score cannot be used.
    """
    for_model, for_baseline = (RoleLoader(part, loader.name) for part in tee(loader))
    losses, correct, weights, sizes = [], [], [], []
    is_equal, has_fractions = True, False
    for (outputs, own), (expected, of_baseline) in zip(
        model.iter_outputs_and_scores(for_model, score),
        baseline.iter_outputs_and_scores(for_baseline, score),
        strict=True,
    ):
        _require_same_examples(own, of_baseline, loader.name)
        is_equal = is_equal and _are_identical(outputs, expected)
        has_fractions = has_fractions or bool((outputs != outputs.round()).any())
        pair = own, of_baseline
        losses.append(np.stack([_as_array(each.losses) for each in pair]))
        correct.append(np.stack([each.correct.detach().cpu().numpy() for each in pair]))
        weights.append(np.ones(len(own.losses)) if own.weights is None else _as_array(own.weights))
        sizes.append(len(own.losses))
    all_weights = np.concatenate(weights)
    counts = all_weights > 0
    if not counts.any():
        raise DataError(f"the score leaves out all examples of {loader.name}: give examples with targets")
    return PairedOutcomes(
        np.concatenate(losses, axis=1)[:, counts],
        np.concatenate(correct, axis=1)[:, counts],
        all_weights[counts],
        np.repeat(np.arange(len(sizes)), sizes)[counts],
        are_identical=is_equal and has_fractions,
    )


def _are_identical(first: Tensor, second: Tensor) -> bool:
    return first.dtype == second.dtype and first.is_floating_point() and torch.equal(first.cpu(), second.cpu())


def _as_array(values: Tensor) -> Floats:
    array: Floats = values.detach().cpu().double().numpy()
    return array


def _require_same_examples(own: Scores, of_baseline: Scores, loader: str) -> None:
    """Raise an error unless both networks were scored on the same examples with the same weights."""
    if len(own.losses) != len(of_baseline.losses):
        raise DataError(
            f"a mini-batch of {loader} has {len(own.losses)} examples for model and {len(of_baseline.losses)} for "
            "baseline: target= must return the same targets for both"
        )
    if (own.weights is None) != (of_baseline.weights is None) or not (
        own.weights is None
        or of_baseline.weights is None
        or np.allclose(_as_array(own.weights), _as_array(of_baseline.weights), rtol=1e-6, atol=0)
    ):
        raise ModelError(
            "the weights that score= returns differ between model and baseline: compute them from the targets alone"
        )
