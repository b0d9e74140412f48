"""The searched networks of an arm put together: what per-layer configurations are worth, over seeds."""

from __future__ import annotations

import math
from collections.abc import Sequence
from datetime import datetime
from typing import Protocol, TypeVar

import numpy as np
from numpy.typing import NDArray

from bln_search.core.enums import PopulationEstimate
from bln_search.core.layer_search_record import LayerSearchRecord
from bln_search.core.per_layer import ConfigurationSpace
from bln_search.core.records import Outcomes
from bln_search.ranking.paired.crossed_anova import crossed_differences
from bln_search.ranking.paired.table import OutcomeTable
from bln_search.ranking.per_layer import (
    ConfirmedDifference,
    LayerChoice,
    LayerResult,
    LayerRow,
    NetworkChoice,
    SwitchEffect,
)
from bln_search.ranking.statistics.intervals import interval_of
from bln_search.specs.layer_search import LayersSpec

_ROWS = 100
"""Of the best configurations over networks, so many are kept."""


class Searched(Protocol):
    """A search of one network, and what it found."""

    @property
    def arm(self) -> str:
        """Of the network."""
        ...

    @property
    def point(self) -> str:
        """Of the network, empty where nothing varies."""
        ...

    @property
    def seed(self) -> int:
        """Of the network."""
        ...

    @property
    def spec(self) -> LayersSpec:
        """What was asked."""
        ...

    @property
    def record(self) -> LayerSearchRecord:
        """What was found."""
        ...

    @property
    def made_at(self) -> datetime:
        """When."""
        ...


_Found = TypeVar("_Found", bound=Searched)


def layer_result(
    searches: Sequence[Searched], *, batch_size: int, estimate: PopulationEstimate, seeds: Sequence[int]
) -> LayerResult:
    """Of one arm at one point. seeds: of all its trained networks."""
    last = latest(searches)
    asked = last.spec
    same = [one for one in searches if one.spec == asked and one.record.space == last.record.space]
    records = [one.record for one in same]
    space = records[-1].space
    return LayerResult(
        arm=same[-1].arm,
        point=same[-1].point,
        scope=asked.scope,
        search=asked.search,
        estimate=estimate,
        batch_size=batch_size,
        examples=len(records[-1].confirmed.losses),
        folds=asked.folds,
        size=str(space.size),
        layers=space.layers,
        choices=_choices(records[-1]),
        networks=tuple(_network(one.seed, one.record) for one in same),
        rows=_best_rows(space, records),
        uniform=_uniform_rows(space, records),
        effects=_effects(records),
        marginal=records[-1].marginal,
        difference=confirmed_difference(records),
        unfinished=tuple(sorted(set(seeds) - {one.seed for one in same})),
    )


def latest(searches: Sequence[_Found]) -> _Found:
    """The one that was made last."""
    return max(searches, key=lambda one: one.made_at)


def confirmed_difference(records: Sequence[LayerSearchRecord]) -> ConfirmedDifference | None:
    """Per-layer less uniform, over seeds and examples; None where networks were judged on different examples.

    With one network the interval speaks of it alone, over other examples.
    """
    losses = [np.stack([one.confirmed.losses, one.confirmed_uniform.losses]) for one in records]
    if len({one.shape for one in losses}) != 1 or not np.isfinite(losses).all() or losses[0].shape[1] < 2:
        return None
    correct = [np.stack([one.confirmed.correct, one.confirmed_uniform.correct]) for one in records]
    table = OutcomeTable(np.stack(losses).astype(np.float32), np.stack(correct))
    found = crossed_differences(table, "loss")
    mean, half = float(found.mean[0]), float(found.half[0])
    return ConfirmedDifference(mean=mean, low=mean - half, high=mean + half, p=float(found.p[0]), networks=len(records))


def _choices(record: LayerSearchRecord) -> tuple[LayerChoice, ...]:
    space = record.space
    return tuple(
        LayerChoice(
            name=one.name,
            layers=tuple(space.layers[place] for place in one.layers),
            options=one.labels,
            left_out=dict(record.left_out.get(one.name, {})),
        )
        for one in space.choices
    )


def _network(seed: int, record: LayerSearchRecord) -> NetworkChoice:
    space = record.space
    best, uniform = (None, None) if record.test is None else record.test
    return NetworkChoice(
        seed=seed,
        evaluations=record.evaluations,
        best=str(space.words(record.best)),
        uniform=uniform_word(space, record.uniform),
        chosen=tuple(str(space.words(digits)) for digits in record.chosen),
        apparent=record.apparent,
        loss=_mean(record.confirmed),
        accuracy=float(record.confirmed.correct.mean()),
        uniform_apparent=record.apparent_uniform,
        uniform_loss=_mean(record.confirmed_uniform),
        uniform_accuracy=float(record.confirmed_uniform.correct.mean()),
        test_loss=None if best is None else best[0],
        test_accuracy=None if best is None else best[1],
        test_uniform_loss=None if uniform is None else uniform[0],
        test_uniform_accuracy=None if uniform is None else uniform[1],
    )


def _mean(outcomes: Outcomes) -> float:
    """Mean loss, infinite where it is not a number."""
    mean = float(outcomes.losses.mean(dtype=np.float64))
    return math.inf if math.isnan(mean) else mean


def uniform_word(space: ConfigurationSpace, digits: Sequence[int]) -> str:
    """The word that all layers follow."""
    return next(str(word) for word, one in space.uniform().items() if one == tuple(digits))


def _best_rows(space: ConfigurationSpace, records: Sequence[LayerSearchRecord]) -> tuple[LayerRow, ...]:
    """The best by mean loss over networks, of those that were evaluated for all of them."""
    digits, losses, accuracies = _common(records)
    if not len(losses):
        return ()
    means = losses.mean(0)
    order = np.argsort(means, kind="stable")[:_ROWS]
    return tuple(
        _row(
            str(space.words(space.at(int(place)) if digits is None else [int(digit) for digit in digits[place]])),
            losses[:, place].tolist(),
            accuracies[:, place].tolist(),
        )
        for place in order
        if np.isfinite(means[place])
    )


def _common(
    records: Sequence[LayerSearchRecord],
) -> tuple[NDArray[np.uint8] | None, NDArray[np.float64], NDArray[np.float64]]:
    """Configurations (None: every one), and their losses and accuracies, (networks, configurations)."""
    sums = [one.sums for one in records]
    if all(one.digits is None for one in sums):
        return None, np.stack([one.mean_loss for one in sums]), np.stack([one.accuracy for one in sums])
    tables = [_by_digits(one) for one in records]
    shared = [key for key in tables[0] if all(key in table for table in tables)]
    digits = np.array([np.frombuffer(key, np.uint8) for key in shared])
    figures = np.array([[table[key] for key in shared] for table in tables]).reshape(len(tables), len(shared), 2)
    return digits, figures[..., 0], figures[..., 1]


def _by_digits(record: LayerSearchRecord) -> dict[bytes, tuple[float, float]]:
    sums = record.sums
    assert sums.digits is not None
    figures = zip(sums.mean_loss.tolist(), sums.accuracy.tolist(), strict=True)
    return {row.tobytes(): pair for row, pair in zip(sums.digits, figures, strict=True)}


def _uniform_rows(space: ConfigurationSpace, records: Sequence[LayerSearchRecord]) -> tuple[LayerRow, ...]:
    """The uniform configurations from best to worst."""
    rows = []
    tables = [None if one.sums.digits is None else _by_digits(one) for one in records]
    for word, digits in space.uniform().items():
        pairs = []
        for record, table in zip(records, tables, strict=True):
            if table is not None:
                pairs.append(table[np.array(digits, np.uint8).tobytes()])
            else:
                place = space.index(digits)
                pairs.append((float(record.sums.mean_loss[place]), float(record.sums.accuracy[place])))
        if np.isfinite(pairs).all():
            rows.append(_row(str(word), [loss for loss, _ in pairs], [accuracy for _, accuracy in pairs]))
    return tuple(sorted(rows, key=lambda row: row.loss))


def _row(configuration: str, losses: Sequence[float], accuracies: Sequence[float]) -> LayerRow:
    loss, accuracy = interval_of(losses), interval_of(accuracies)
    return LayerRow(
        configuration=configuration,
        loss=loss.mean,
        loss_half=loss.half,
        accuracy=accuracy.mean,
        accuracy_half=accuracy.half,
        networks=loss.n,
    )


def _effects(records: Sequence[LayerSearchRecord]) -> tuple[SwitchEffect, ...]:
    names = dict.fromkeys(name for one in records for name in one.effects)
    found = []
    for choice, statistic in names:
        values = [one.effects[choice, statistic] for one in records if (choice, statistic) in one.effects]
        size = interval_of(values)
        found.append(SwitchEffect(choice=choice, statistic=statistic, loss=size.mean, half=size.half, networks=size.n))
    return tuple(found)
