"""Per-layer configurations one by one, by plain forward passes: for a network that cannot be cut at its layers."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, Self

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from bln_search.core.errors import DataError, ModelError
from bln_search.core.records import Outcomes
from bln_search.evaluation.batches import MiniBatch
from bln_search.evaluation.scoring import scores_of
from bln_search.evaluation.tree.options import Asked
from bln_search.evaluation.tree.running_sums import Sums
from bln_search.evaluation.tree.segments import StagedNetwork, check_recurrent
from bln_search.evaluation.tree.space import find_space
from bln_search.evaluation.tree.trie import Digits
from bln_search.evaluation.tree.verification import configured_layers
from bln_search.norms.network_layers import evaluation_mode, find_norms, mini_batch_statistics
from bln_search.norms.row_tensor import Populations

MOST_ONE_BY_ONE = 4_096
"""The largest space that is enumerated by plain forward passes."""

_Scored = tuple[NDArray[np.floating[Any]], NDArray[np.bool_]]


class OneByOneEvaluator:
    """As `TreeEvaluator`, but each configuration by itself. What was evaluated is kept, up to the memory limit.

    staged: the layers in the order in which a forward pass of the first mini-batch reaches them, without stages.
    """

    most = MOST_ONE_BY_ONE

    def __init__(
        self,
        network: nn.Module,
        batches: Sequence[MiniBatch],
        populations: Populations,
        asked: Asked | None = None,
        *,
        folds: Sequence[int] | None = None,
    ) -> None:
        if not batches:
            raise DataError("there is nothing to evaluate: the data has no mini-batch")
        self.network, self.populations, self.asked = network, populations, asked or Asked()
        self.batches, self._folds = list(batches), list(folds or [0] * len(batches))
        self.staged = reached(network, batches[0][0])
        self.space, self.left_out = find_space(
            self.staged,
            populations,
            self.asked.estimate,
            len(batches[0][0]),
            scope=self.asked.scope,
            groups=self.asked.groups,
        )
        self._known: dict[tuple[bytes, int], _Scored] = {}
        self._bytes = 0

    @property
    def sizes(self) -> list[int]:
        """How many examples are judged in each mini-batch."""
        return [len(targets) for _, targets in self.batches]

    @property
    def examples(self) -> int:
        """How many examples are judged."""
        return sum(self.sizes)

    def check(self) -> None:
        """There is nothing to compare plain forward passes with."""

    def enumerate(self, *, sums: Sums | None = None, keep: Callable[[Sums], None] | None = None) -> Sums:
        """Mean loss and accuracy of every configuration, in the order of their indices; see `TreeEvaluator`.

        Raises ModelError for more than MOST_ONE_BY_ONE.
        """
        if self.space.size > self.most:
            raise ModelError(
                f"there are {self.space.size:,} per-layer configurations, more than the {self.most:,} that are "
                "enumerated where each is evaluated by itself: search them (coordinate, beam, tpe or racing), or tie "
                "layers together in groups"
            )
        every = np.array([self.space.at(index) for index in range(self.space.size)], np.uint8)
        total = sums if sums is not None else Sums.empty(max(self._folds) + 1, len(every))
        total.total = len(self.batches)
        for place in range(total.done, total.total):
            losses, correct = self.sums(every, [place])
            total.losses[self._folds[place]] += losses[:, 0]
            total.correct[self._folds[place]] += correct[:, 0]
            total.examples[self._folds[place]] += self.sizes[place]
            total.done = place + 1
            if keep is not None:
                keep(total)
        return total

    def sums(self, digits: Digits, batches: Sequence[int]) -> tuple[NDArray[np.float64], NDArray[np.int64]]:
        """Sums of losses and of right answers, (configurations, mini-batches), in the orders asked for."""
        rows = [list(self._scored(row, batches)) for row in np.asarray(digits, np.uint8)]
        losses = [[losses.sum(dtype=np.float64) for losses, _ in row] for row in rows]
        return np.array(losses), np.array([[correct.sum() for _, correct in row] for row in rows], np.int64)

    def outcomes(self, digits: Digits | Sequence[Sequence[int]]) -> list[Outcomes]:
        """Per-example losses and correctness under each of these configurations, in the order of the data."""
        found = []
        for row in np.asarray(digits, np.uint8).reshape(-1, len(self.space.choices)):
            losses, correct = zip(*self._scored(row, range(len(self.batches))), strict=True)
            found.append(Outcomes(np.concatenate(losses), np.concatenate(correct)))
        return found

    def again(self, network: nn.Module, batches: Sequence[MiniBatch], populations: Populations) -> Self:
        """The same question, asked of these."""
        return type(self)(network, batches, populations, self.asked)

    @torch.no_grad()
    def _scored(self, row: Digits, batches: Sequence[int]) -> Iterator[_Scored]:
        """Losses and correctness of each of these mini-batches under one configuration."""
        key = row.tobytes()
        unknown = {place for place in batches if (key, place) not in self._known}
        found: dict[int, _Scored] = {}
        if unknown:
            words = self.space.words([int(digit) for digit in row])
            with (
                evaluation_mode(self.network),
                configured_layers(self.staged, words, self.populations, self.asked.estimate),
            ):
                found = {place: self._passed(place) for place in sorted(unknown)}
        for place in batches:
            scored = found[place] if place in found else self._known[key, place]
            self._keep((key, place), scored)
            yield scored

    def _keep(self, key: tuple[bytes, int], scored: _Scored) -> None:
        size = scored[0].nbytes + scored[1].nbytes
        if key not in self._known and self._bytes + size <= self.asked.memory_limit:
            self._known[key] = scored
            self._bytes += size

    def _passed(self, place: int) -> _Scored:
        """One mini-batch through the network as it is configured."""
        inputs, targets = self.batches[place]
        outputs = self.network(inputs.clone())
        if not isinstance(outputs, Tensor):
            raise ModelError(
                f"the network returns {type(outputs).__name__}: wrap it so that it returns one tensor, examples first"
            )
        losses, correct = scores_of(self.asked.score, outputs[: len(targets)], targets)
        losses = losses if losses.dtype == torch.float64 else losses.float()
        return losses.cpu().numpy(), correct.cpu().numpy()


@torch.no_grad()
def reached(network: nn.Module, mini_batch: Tensor) -> StagedNetwork:
    """The normalization layers of `network` in the order in which a forward pass reaches them; it has no stages.

    Raises ModelError where it reaches none, or where the network normalizes inside recurrent layers.
    """
    check_recurrent(network)
    layers = find_norms(network)
    names = {layer: name for name, layer in layers.items()}
    seen: list[str] = []
    hooks = [layer.register_forward_pre_hook(lambda one, _: seen.append(names[one])) for layer in layers.values()]
    try:
        with evaluation_mode(network), mini_batch_statistics(layers.values()):
            network(mini_batch.clone())
    finally:
        for hook in hooks:
            hook.remove()
    order = tuple(dict.fromkeys(seen))
    if not order:
        raise ModelError(f"the forward pass of this {type(network).__name__} reaches none of its normalization layers")
    return StagedNetwork((), order, tuple(layers[name] for name in order), ())
