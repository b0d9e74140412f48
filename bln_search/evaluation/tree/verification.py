"""The walk beside plain forward passes: one configuration at a time, as anyone would evaluate it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import Protocol, Self

import numpy as np
import torch
from torch import Tensor, nn

from bln_search.core.enums import PopulationEstimate
from bln_search.core.errors import ModelError
from bln_search.core.per_layer import ConfigurationSpace, PerLayerConfiguration
from bln_search.core.records import Outcomes
from bln_search.evaluation.batches import MiniBatch
from bln_search.evaluation.row_evaluator import doubled, in_double
from bln_search.evaluation.scoring import scores_of
from bln_search.evaluation.tree.options import Asked
from bln_search.evaluation.tree.segments import StagedNetwork
from bln_search.evaluation.tree.space import row_of
from bln_search.norms.network_layers import evaluation_mode
from bln_search.norms.row_tensor import Populations
from bln_search.norms.statistics import chosen_population

_CHECKED = 3
_TOLERANCE = {torch.float64: 1e-8}
_COARSE = 2e-3
"""In single precision, or less, of a loss."""


class Walked(Protocol):
    """Something asked of a network and mini-batches, that a walk answers."""

    network: nn.Module
    staged: StagedNetwork
    batches: list[MiniBatch]
    populations: Populations
    asked: Asked
    space: ConfigurationSpace

    def outcomes(self, digits: Sequence[Sequence[int]]) -> list[Outcomes]:
        """The answer of the walk: per-example losses and correctness under each of these configurations."""

    def again(self, network: nn.Module, batches: Sequence[MiniBatch], populations: Populations) -> Self:
        """The same question, asked of these."""


@contextmanager
def configured_layers(
    network: StagedNetwork,
    configuration: PerLayerConfiguration,
    populations: Populations,
    estimate: PopulationEstimate | None,
) -> Iterator[None]:
    """Every layer under its own word while this context is open."""
    before = {layer: layer.snapshot() for layer in network.layers}
    try:
        for layer, word in zip(network.layers, configuration.words, strict=True):
            row = row_of(word, estimate)
            layer.configure(word, chosen_population(word, row.estimate, populations.get(layer, {})))
        yield
    finally:
        for layer, snapshot in before.items():
            layer.restore(snapshot)


@torch.no_grad()
def plain_losses(evaluator: Walked, configuration: PerLayerConfiguration, batches: Iterable[MiniBatch]) -> Tensor:
    """Per-example losses under one configuration, by plain forward passes."""
    network, estimate = evaluator.network, evaluator.asked.estimate
    with evaluation_mode(network), configured_layers(evaluator.staged, configuration, evaluator.populations, estimate):
        return torch.cat([scores_of(evaluator.asked.score, network(x.clone())[: len(y)], y)[0] for x, y in batches])


def check_walk(evaluator: Walked) -> None:
    """Compare a few configurations with plain forward passes of the first two mini-batches.

    Where they differ in single precision, a copy in double precision decides: rounding grows in a network whose
    mini-batches have next to no variance. Raises ModelError where they differ there too.
    """
    batches = evaluator.batches[:2]
    difference = _difference(evaluator.again(evaluator.network, batches, evaluator.populations))
    if difference is None:
        return
    exact = batches[0][0].dtype == torch.float64
    precise = None if exact else in_double(evaluator.network, evaluator.populations)
    if precise is not None:
        with suppress(Exception):  # whatever a network does to double precision, it is the difference that counts
            twice = [(doubled(inputs), targets) for inputs, targets in batches]
            if _difference(evaluator.again(precise[0], twice, precise[1])) is None:
                return
    raise ModelError(difference)


def _checked_digits(space: ConfigurationSpace) -> list[tuple[int, ...]]:
    """The first and the last configuration, of which one reads means from the population, and a few others."""
    draw = np.random.default_rng(0)
    drawn = [tuple(int(draw.integers(radix)) for radix in space.radices) for _ in range(_CHECKED)]
    ends = [tuple(0 for _ in space.radices), tuple(radix - 1 for radix in space.radices)]
    return list(dict.fromkeys([*ends, *drawn]))


def _difference(evaluator: Walked) -> str | None:
    """How the walk differs from plain forward passes; None where it does not."""
    space = evaluator.space
    digits = _checked_digits(space)
    for row, outcome in zip(digits, evaluator.outcomes(digits), strict=True):
        plainly = plain_losses(evaluator, space.words(row), evaluator.batches).cpu()
        expected = plainly.double().numpy()
        allowed = _TOLERANCE.get(plainly.dtype, _COARSE) * (1 + np.abs(np.nan_to_num(expected)))
        with np.errstate(invalid="ignore"):
            close = (np.abs(outcome.losses - expected) <= allowed) | (np.isnan(expected) & np.isnan(outcome.losses))
            close |= outcome.losses == expected
        if not close.all():
            worst = np.nanmax(np.abs(outcome.losses - expected)[~close], initial=0.0)
            return (
                f"under {space.words(row)} losses of the walk differ from those of plain forward passes by up to "
                f"{worst:.3g}: a layer of this network does not treat examples independently"
            )
    return None
