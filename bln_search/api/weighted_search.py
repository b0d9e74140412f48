"""Per-layer searches by losses whose examples have weights, such as those with class weights or ignored targets.

A search averages losses over examples. The weighted mean Σ w·l / Σ w over n examples is the mean of l·w / w̄, with the
mean weight w̄ over all n. So the search gets these losses, and its record the losses and weights.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from bln_search.api.inputs.adapters import BatchAdapter
from bln_search.core.errors import DataError
from bln_search.core.example_outcomes import ExampleOutcomes
from bln_search.core.layer_search_record import Figures, LayerSearchRecord
from bln_search.evaluation.batches import MiniBatch
from bln_search.evaluation.scoring import require_same_weights, score_examples
from bln_search.tasks.score import Score, WeightedScore

Weights = NDArray[np.float64]


@dataclass(frozen=True)
class SearchWeights:
    """The weights of the examples (n,) of the validation split, and of the test split if there is one."""

    validation: Weights
    test: Weights | None

    def scale_losses(self, score: Score) -> Score:
        """Return a score with losses l·w / w̄ of the validation split; an example with weight 0 is not correct."""
        mean_weight = float(self.validation.mean())

        def score_scaled_losses(outputs: Tensor, targets: Tensor) -> tuple[Tensor, Tensor]:
            losses, correct, weights = score_examples(score, outputs, targets)
            if weights is None:
                return losses / mean_weight, correct
            return losses * (weights / mean_weight).to(losses.dtype), correct & (weights > 0)

        return score_scaled_losses

    def add_to_record(self, record: LayerSearchRecord) -> LayerSearchRecord:
        """Return the record of a search by `scale_losses` with the losses and weights of the examples."""
        return replace(
            record,
            confirmed=self._restore_losses(record.confirmed),
            confirmed_uniform=self._restore_losses(record.confirmed_uniform),
            outcomes=tuple(map(self._restore_losses, record.outcomes)),
            sums=replace(record.sums, counted=int((self.validation > 0).sum())),
            test=None if record.test is None else (self._scale_test(record.test[0]), self._scale_test(record.test[1])),
        )

    def _restore_losses(self, outcomes: ExampleOutcomes) -> ExampleOutcomes:
        weights = self.validation
        scale = np.divide(weights.mean(), weights, out=np.zeros_like(weights), where=weights > 0)
        return ExampleOutcomes((outcomes.losses * scale).astype(outcomes.losses.dtype), outcomes.correct, weights)

    def _scale_test(self, figures: Figures) -> Figures:
        """Return loss and accuracy of the test split with its own mean weight and number of counted examples."""
        assert self.test is not None
        loss, accuracy = figures
        return loss * float(self.validation.mean() / self.test.mean()), accuracy / float((self.test > 0).mean())


def find_search_weights(
    score: Score,
    adapter: BatchAdapter,
    validation: Sequence[MiniBatch],
    test: Sequence[MiniBatch] | None,
    folds: Sequence[int],
) -> SearchWeights | None:
    """Find the weights of all examples by a forward pass; None where all weigh the same.

    Raises:
        DataError: No example of a split counts, or none outside of a fold of validation mini-batches.
        ModelError: The weights depend on the outputs.
    """
    if not isinstance(score, WeightedScore):
        return None
    weights = _find_weights_by_batch(score, adapter.iter_outputs_and_targets(validation, "validation_loader"))
    _check_examples_count(weights, "of the split validation")
    for fold in set(folds):
        others = [of_batch for of_batch, own in zip(weights, folds, strict=True) if own != fold]
        if others:
            _check_examples_count(others, "of validation_loader outside of one fold: shuffle the examples")
    of_test = None
    if test is not None:
        by_batch = _find_weights_by_batch(score, adapter.iter_outputs_and_targets(test, "test_loader"))
        _check_examples_count(by_batch, "of the split test")
        of_test = np.concatenate(by_batch)
    found = SearchWeights(np.concatenate(weights), of_test)
    splits = [found.validation] if of_test is None else [found.validation, of_test]
    return None if all(split[0] > 0 and (split == split[0]).all() for split in splits) else found


def _find_weights_by_batch(score: Score, outputs_and_targets: Iterable[tuple[Tensor, Tensor]]) -> list[Weights]:
    found = []
    for outputs, targets in outputs_and_targets:
        weights = score_examples(score, outputs, targets).weights
        require_same_weights(weights, score_examples(score, outputs.flip(0), targets).weights)
        found.append(np.ones(len(targets)) if weights is None else weights.double().cpu().numpy())
    return found


def _check_examples_count(weights: Sequence[Weights], place: str) -> None:
    if not any((of_batch > 0).any() for of_batch in weights):
        raise DataError(f"score= counts no example {place}; every target is ignored, or every weight is 0")
