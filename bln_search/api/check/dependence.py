"""How much the output for an example depends on its batch-mates."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext

import numpy as np
import torch
from torch import Tensor

from bln_search.api.check.measurement import MeasuredNetwork, TooFewValuesError
from bln_search.api.check.variants import VariantMeasurements
from bln_search.data.inputs import Inputs, concatenate_inputs
from bln_search.evaluation.checks.numerical_comparison import output_distance_in_tolerances
from bln_search.evaluation.isolated_passes import IsolatedPasses
from bln_search.evaluation.scoring import score_examples
from bln_search.ranking.network_check import BatchDependence, Variant

_EXAMPLES = 4
"""Number of examples whose batch-mates are searched."""

_BATCHES = 8
"""Number of mini-batches that are tried for each of them."""


def measure_dependence(variants: VariantMeasurements) -> tuple[bool, tuple[BatchDependence, ...]]:
    """Whether the deployed network depends on batch-mates, and by how much variants do that read the mini-batch."""
    measured = variants.measured
    if variants.is_random:  # differences would be those of the random numbers
        return False, ()
    if not measured.has_sliceable_inputs or measured.batch_size < 2 or measured.num_examples <= measured.batch_size:
        return False, ()
    search = _BatchMateSearch(measured)
    depends = search.changes_outputs(nullcontext)
    changes: dict[Variant, Callable[[], AbstractContextManager[None]]] = {
        Variant.MINI_BATCH: measured.with_mini_batch_statistics
    }
    if depends:
        changes = {Variant.DEPLOYED: nullcontext, **changes}
    results = (search.search(variant, change) for variant, change in changes.items())
    return depends, tuple(result for result in results if result is not None)


class _BatchMateSearch:
    """Searches mini-batches that change the loss of an example, at random and from the worst ones found."""

    def __init__(self, measured: MeasuredNetwork) -> None:
        self._measured, self._size = measured, measured.batch_size
        self._inputs = concatenate_inputs([inputs[: len(targets)] for inputs, targets in measured.batches])
        self._targets = torch.cat([targets for _, targets in measured.batches])
        self._random = np.random.default_rng(0)

    @torch.no_grad()
    def changes_outputs(self, change: Callable[[], AbstractContextManager[None]]) -> bool:
        """Whether outputs of the first mini-batch change with half of it replaced."""
        first = np.arange(self._size)
        half = self._size // 2
        second = np.concatenate([first[:half], len(self._targets) - 1 - np.arange(self._size - half)])
        before, after = (self._call_isolated(rows, change)[:half] for rows in (first, second))
        return output_distance_in_tolerances(before, after) > 1

    def _call_isolated(self, rows: np.ndarray, change: Callable[[], AbstractContextManager[None]]) -> Tensor:
        with IsolatedPasses(self._measured.network).pass_of_row(0), change():
            return self._measured.call(self._take(rows))

    @torch.no_grad()
    def search(self, variant: Variant, change: Callable[[], AbstractContextManager[None]]) -> BatchDependence | None:
        """The largest changes found; None where mini-batch statistics are undefined or losses not finite."""
        examples = self._random.choice(len(self._targets), min(_EXAMPLES, len(self._targets)), replace=False)
        try:
            with IsolatedPasses(self._measured.network).pass_of_row(0), change():
                tried = [self._search_for(int(example)) for example in examples]
        except TooFewValuesError:
            return None
        losses, predictions = np.array([each for each, _ in tried]), [each for _, each in tried]
        if not np.isfinite(losses).all():
            return None
        changes = losses.max(axis=1) - losses.min(axis=1)
        return BatchDependence(
            variant=variant,
            batch_size=self._size,
            examples=len(examples),
            batches=_BATCHES,
            mean_change=float(changes.mean()),
            largest_change=float(changes.max()),
            changed_predictions=(
                None if None in predictions[0] else float(np.mean([len(set(each)) > 1 for each in predictions]))
            ),
        )

    def _search_for(self, example: int) -> tuple[list[float], list[int | None]]:
        """Losses and predictions of an example in mini-batches: half at random, half from the best and worst so far."""
        others = np.delete(np.arange(len(self._targets)), example)
        tried: list[tuple[float, np.ndarray]] = []
        predictions: list[int | None] = []
        for number in range(_BATCHES):
            mates = self._random.choice(others, self._size - 1, replace=False)
            if number >= _BATCHES // 2:
                ordered = sorted(tried, key=lambda each: each[0])
                best = ordered[-1][1] if number % 2 else ordered[0][1]
                kept = self._random.random(len(mates)) < 0.5
                rest = np.setdiff1d(mates, best[kept])[: (~kept).sum()]
                mates = np.concatenate([best[kept], rest, self._random.choice(others, len(mates))])[: len(mates)]
            loss, prediction = self._score(example, mates)
            tried.append((loss, mates))
            predictions.append(prediction)
        return [loss for loss, _ in tried], predictions

    def _score(self, example: int, mates: np.ndarray) -> tuple[float, int | None]:
        rows = np.concatenate([[example], mates])
        outputs = self._measured.call(self._take(rows))[:1]
        scores = score_examples(self._measured.score, outputs, self._targets[rows[:1].tolist()])
        is_class = outputs.ndim == 2 and not self._targets.is_floating_point()
        return float(scores.losses[0]), int(outputs.argmax(1)) if is_class else None

    def _take(self, rows: np.ndarray) -> Inputs:
        index = torch.from_numpy(rows).to(self._targets.device)
        inputs: Inputs = self._inputs[index]
        return inputs
