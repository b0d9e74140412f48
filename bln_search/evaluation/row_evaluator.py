"""A network under the rows of a table: plain forward passes of one row, and fused passes of many."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from copy import deepcopy

import torch
from torch import Tensor, nn

from bln_search.core.errors import ModelError
from bln_search.evaluation.batches import Group, MiniBatch
from bln_search.evaluation.memory import Chunking
from bln_search.evaluation.scoring import Score, cross_entropy, scores_of
from bln_search.norms.base import NormalizationBase
from bln_search.norms.network_layers import find_norms
from bln_search.norms.row_tensor import Arrangement, EnumerationPlan, Examples, Populations, Row, mark, plain
from bln_search.norms.statistics import chosen_population, layer_configuration

Scores = tuple[Tensor, Tensor]
"""Losses and correctness, each (rows, examples) or (examples,)."""


class RowEvaluator:
    """`network`, in evaluation mode, under `rows` with their population values.

    dtype: of the answers that are scored; by default as the network gives them.
    """

    def __init__(
        self,
        network: nn.Module,
        rows: Sequence[Row],
        populations: Populations,
        *,
        score: Score = cross_entropy,
        chunking: Chunking | None = None,
        dtype: torch.dtype | None = None,
    ) -> None:
        self.network, self.rows, self.populations = network, tuple(rows), populations
        self.score, self.dtype = score, dtype
        self.chunking = chunking or Chunking(groups=1, rows=len(self.rows))
        self._plans: dict[tuple[int, ...], EnumerationPlan] = {}

    def plain_outputs(self, row: int, inputs: Tensor) -> Tensor:
        """Answers (n, ...) of one forward pass under a row."""
        with configured(self.rows[row], self.populations):
            return self._answers(self.network(inputs.clone()))

    def plain_scores(self, row: int, batch: MiniBatch) -> Scores:
        """Losses and correctness (n,) of a mini-batch by one forward pass under a row."""
        inputs, targets = batch
        return self.score_answers(self.plain_outputs(row, inputs)[: len(targets)], targets)

    def score_answers(self, outputs: Tensor, targets: Tensor) -> Scores:
        """Losses and correctness (n,) of answers (n, ...), in the precision that is scored."""
        answers = outputs if self.dtype is None or not outputs.is_floating_point() else outputs.to(self.dtype)
        return scores_of(self.score, answers, targets)

    def outputs(self, group: Group, rows: Sequence[int] | None = None) -> Iterator[Tensor]:
        """Answers (rows, examples with a target, ...) of fused passes, chunk after chunk of the rows; None for all."""
        wanted = tuple(range(len(self.rows))) if rows is None else tuple(rows)
        for start in range(0, len(wanted), self.chunking.rows):
            yield self._fused(group, self._plan(wanted[start : start + self.chunking.rows]))

    def scores(self, group: Group, rows: Sequence[int] | None = None) -> Scores:
        """Losses and correctness (rows, examples with a target) by fused passes; None for all rows."""
        parts = [self._scored(outputs, group.targets) for outputs in self.outputs(group, rows)]
        return torch.cat([losses for losses, _ in parts]), torch.cat([correct for _, correct in parts])

    def in_double(self, inputs: Tensor) -> RowEvaluator | None:
        """The same with a copy of the network in double precision that answers `inputs`.

        None where there is no such copy, or this is one already. Answers are scored in the precision of the original,
        which a score of the user's may expect.
        """
        dtype = next(self.network.parameters()).dtype
        copied = None if dtype == torch.float64 else in_double(self.network, self.populations)
        if copied is None:
            return None
        rows = self.chunking.rows if self.chunking.rows == len(self.rows) else max(1, self.chunking.rows // 2)
        chunking = Chunking(groups=1, rows=rows)
        double = RowEvaluator(copied[0], self.rows, copied[1], score=self.score, chunking=chunking, dtype=dtype)
        try:
            double.plain_outputs(0, doubled(inputs[:2]))
        except Exception:  # noqa: BLE001 - a network may take no double precision; it is then checked in its own
            return None
        return double

    def with_network(self, network: nn.Module) -> RowEvaluator:
        """The same rows of a network that is a copy of this one, its layers under the same names."""
        populations = _of_copy(self.network, network, self.populations)
        return RowEvaluator(network, self.rows, populations, score=self.score, chunking=self.chunking, dtype=self.dtype)

    def _plan(self, rows: tuple[int, ...]) -> EnumerationPlan:
        if rows not in self._plans:
            self._plans[rows] = EnumerationPlan(tuple(self.rows[row] for row in rows), self.populations)
        return self._plans[rows]

    def _fused(self, group: Group, plan: EnumerationPlan) -> Tensor:
        arrangement = Arrangement(plan, group.groups, group.size)
        outputs = self._answers(self.network(mark(group.inputs.clone(), arrangement, 1)))
        outputs = plain(outputs) if isinstance(outputs, Examples) else outputs
        expected = len(plan.rows) * arrangement.examples
        if outputs.shape[0] != expected:
            raise ModelError(
                f"the network's output has {outputs.shape[0]} entries on its first axis where {expected} examples were "
                "under way: it must answer each example by itself; evaluate with one_pass=False"
            )
        shape = len(plan.rows), arrangement.examples, *outputs.shape[1:]
        return outputs.reshape(shape)[:, : len(group.targets)]

    @staticmethod
    def _answers(output: object) -> Tensor:
        if not isinstance(output, Tensor):
            raise ModelError(
                f"the network returns {type(output).__name__}: wrap it so that it returns one tensor, examples first"
            )
        if output.ndim == 0:
            raise ModelError(
                "the network answers a mini-batch with a single number: examples must stay on the first axis of its "
                "output, also where there is one of them (squeeze() drops that axis)"
            )
        return output

    def _scored(self, outputs: Tensor, targets: Tensor) -> Scores:
        rows, n = outputs.shape[:2]
        repeated = targets.repeat(rows, *[1] * (targets.ndim - 1))
        losses, correct = self.score_answers(outputs.flatten(0, 1), repeated)
        return losses.view(rows, n), correct.view(rows, n)


@contextmanager
def configured(row: Row, populations: Populations) -> Iterator[None]:
    """Every layer under `row` while this context is open."""
    before = {layer: layer.snapshot() for layer in populations}
    try:
        for layer, estimates in populations.items():
            own = layer_configuration(row.configuration, row.estimate, estimates)
            layer.configure(own, chosen_population(own, row.estimate, estimates))
        yield
    finally:
        for layer, snapshot in before.items():
            layer.restore(snapshot)


def in_double(network: nn.Module, populations: Populations) -> tuple[nn.Module, Populations] | None:
    """A copy of the network in double precision, where rounding cannot pass for mixing; None where it has no copy."""
    try:
        copied = deepcopy(network).double()
    except Exception:  # noqa: BLE001 - a network may have its own way to be copied
        return None
    return copied, _of_copy(network, copied, populations)


def doubled(x: Tensor) -> Tensor:
    """Measurements in double precision; token ids as they are."""
    return x.double() if x.is_floating_point() else x


def _of_copy(network: nn.Module, copied: nn.Module, populations: Populations) -> Populations:
    names: dict[NormalizationBase, str] = {layer: name for name, layer in find_norms(network).items()}
    layers = find_norms(copied)
    return {layers[names[layer]]: values for layer, values in populations.items()}
