"""Combine the per-layer searches of the networks of an arm: statistics over seeds."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from bln_search.core.class_prior import ClassPriorBaseline
from bln_search.core.enums import PopulationEstimate
from bln_search.core.example_outcomes import ExampleOutcomes
from bln_search.core.layer_search_record import LayerSearchRecord
from bln_search.core.loss_description import LossDescription
from bln_search.core.per_layer import ConfigurationSpace
from bln_search.ranking.paired.crossed_anova import contrast_variances_of_pairs
from bln_search.ranking.paired.table import OutcomeTable
from bln_search.ranking.per_layer import (
    HeldOutDifferenceToUniform,
    LayerChoiceOptions,
    LayerSwitchEffect,
    NetworkLayerSearch,
    PerLayerResult,
    PerLayerRow,
    SelectedNetworkConfigurations,
)
from bln_search.ranking.statistics.intervals import mean_with_t_interval

_MAX_STORED_ROWS = 100
"""Number of best configurations over networks that are stored."""


def combine_layer_searches_of_networks(
    searches: Sequence[NetworkLayerSearch],
    *,
    batch_size: int,
    estimate: PopulationEstimate,
    seeds: Sequence[int],
    loss: LossDescription,
    has_accuracy: bool,
    class_prior: ClassPriorBaseline | None = None,
) -> PerLayerResult:
    """Combine the searches of one arm at one point that have the specification of the latest one.

    Args:
        searches: Searches of the networks, at least one.
        batch_size: Inference mini-batch size.
        estimate: Population estimate.
        seeds: Seeds of all trained networks of the arm at the point.
        loss: Name and unit of the loss.
        has_accuracy: Whether the correctness in the records has a meaning; results have no accuracy otherwise.
        class_prior: What predicting the class frequencies reaches on validation; None where it is unknown.
    """
    last = last_ended_search(searches)
    spec = last.spec
    comparable = [search for search in searches if search.spec == spec and search.record.space == last.record.space]
    records = [search.record for search in comparable]
    space = records[-1].space
    rows, uniform = _make_best_and_uniform_rows(space, records, has_accuracy=has_accuracy)
    return PerLayerResult(
        loss=loss,
        arm=comparable[-1].arm,
        point=comparable[-1].point,
        scope=spec.scope,
        search=spec.search,
        estimate=estimate,
        batch_size=batch_size,
        examples=len(records[-1].confirmed.losses) - records[-1].confirmed.left_out,
        uncounted=records[-1].confirmed.left_out,
        folds=spec.folds,
        size=str(space.num_configurations),
        layers=space.layers,
        choices=_make_layer_choices(records[-1]),
        networks=tuple(
            _make_network_choice(search.seed, search.record, has_accuracy=has_accuracy) for search in comparable
        ),
        rows=rows,
        uniform=uniform,
        effects=_mean_switch_effects(records),
        marginal=records[-1].marginal,
        difference=compute_held_out_difference_to_uniform(records),
        pending_seeds=tuple(sorted(set(seeds) - {search.seed for search in comparable})),
        class_prior=class_prior,
    )


def last_ended_search(searches: Sequence[NetworkLayerSearch]) -> NetworkLayerSearch:
    """The search that ended last."""
    return max(searches, key=lambda search: search.made_at)


def compute_held_out_difference_to_uniform(records: Sequence[LayerSearchRecord]) -> HeldOutDifferenceToUniform | None:
    """Held-out loss of per-layer configurations minus that of uniform ones, over seeds and examples.

    With one network the interval applies to that network and other examples.

    Returns:
        None where networks were evaluated on different examples, or a loss is not finite.
    """
    pairs = [(record.confirmed.linearized(), record.confirmed_uniform.linearized()) for record in records]
    losses = [np.stack([outcomes.losses for outcomes in pair]) for pair in pairs]
    if len({table.shape for table in losses}) != 1 or not np.isfinite(losses).all() or losses[0].shape[1] < 2:
        return None
    correct = [np.stack([outcomes.correct for outcomes in pair]) for pair in pairs]
    table = OutcomeTable(np.stack(losses).astype(np.float32), np.stack(correct))
    crossed = contrast_variances_of_pairs(table.losses, "loss", table.row_pairs).test()
    mean, half, p = float(crossed.mean[0]), float(crossed.half[0]), float(crossed.p[0])
    return HeldOutDifferenceToUniform(mean=mean, low=mean - half, high=mean + half, p=p, networks=len(records))


def _make_layer_choices(record: LayerSearchRecord) -> tuple[LayerChoiceOptions, ...]:
    space = record.space
    return tuple(
        LayerChoiceOptions(
            name=choice.name,
            layers=tuple(space.layers[index] for index in choice.layers),
            options=choice.option_codes,
            excluded=dict(record.excluded.get(choice.name, {})),
        )
        for choice in space.choices
        if not choice.is_fixed
    )


def _make_network_choice(seed: int, record: LayerSearchRecord, *, has_accuracy: bool) -> SelectedNetworkConfigurations:
    space = record.space
    best, uniform = (None, None) if record.test is None else record.test

    def accuracy_or_none(accuracy: float) -> float | None:
        return accuracy if has_accuracy else None

    return SelectedNetworkConfigurations(
        seed=seed,
        evaluations=record.evaluations,
        best=str(space.configuration_of_choice_digits(record.best)),
        uniform=uniform_configuration_of_digits(space, record.uniform),
        chosen=tuple(str(space.configuration_of_choice_digits(digits)) for digits in record.chosen),
        apparent=record.apparent,
        loss=_mean_loss_or_infinity(record.confirmed),
        accuracy=accuracy_or_none(float(record.confirmed.linearized().correct.mean())),
        uniform_apparent=record.apparent_uniform,
        uniform_loss=_mean_loss_or_infinity(record.confirmed_uniform),
        uniform_accuracy=accuracy_or_none(float(record.confirmed_uniform.linearized().correct.mean())),
        test_loss=None if best is None else best[0],
        test_accuracy=None if best is None else accuracy_or_none(best[1]),
        test_uniform_loss=None if uniform is None else uniform[0],
        test_uniform_accuracy=None if uniform is None else accuracy_or_none(uniform[1]),
        is_tested=record.test is not None,
        not_finite=int((~np.isfinite(record.sums.mean_loss_per_configuration)).sum()),
    )


def _mean_loss_or_infinity(outcomes: ExampleOutcomes) -> float:
    """Mean loss; infinite where it is NaN."""
    mean = float(outcomes.linearized().losses.mean(dtype=np.float64))
    return math.inf if math.isnan(mean) else mean


def uniform_configuration_of_digits(space: ConfigurationSpace, digits: Sequence[int]) -> str:
    """Configuration of all layers. digits: of a uniform per-layer configuration."""
    return next(
        str(code)
        for code, uniform in space.choice_digits_by_uniform_configuration().items()
        if uniform == tuple(digits)
    )


def _make_best_and_uniform_rows(
    space: ConfigurationSpace, records: Sequence[LayerSearchRecord], *, has_accuracy: bool
) -> tuple[tuple[PerLayerRow, ...], tuple[PerLayerRow, ...]]:
    """The best configurations, and the uniform ones, each by increasing mean loss over networks.

    Only configurations that were evaluated for every network count; a row has a finite loss under each.
    """
    digits, losses, accuracies = _losses_of_common_configurations(records)
    index_by_digits = {} if digits is None else {row.tobytes(): index for index, row in enumerate(digits)}

    def make_row(configuration: object, index: int) -> PerLayerRow:
        of_networks = accuracies[:, index].tolist() if has_accuracy else None
        return _make_per_layer_row(str(configuration), losses[:, index].tolist(), of_networks)

    def digits_at(index: int) -> Sequence[int]:
        return space.choice_digits_at_index(index) if digits is None else digits[index].tolist()

    order = [int(index) for index in np.argsort(losses.mean(0), kind="stable")[:_MAX_STORED_ROWS]]
    is_finite = np.asarray(np.isfinite(losses).all(axis=0))
    uniform = []
    for configuration, of_choices in space.choice_digits_by_uniform_configuration().items():
        index = (
            space.index_of_choice_digits(of_choices)
            if digits is None
            else index_by_digits[np.array(of_choices, np.uint8).tobytes()]
        )
        if is_finite[index]:
            uniform.append(make_row(configuration, index))
    best = (
        make_row(space.configuration_of_choice_digits(digits_at(index)), index) for index in order if is_finite[index]
    )
    return tuple(best), tuple(sorted(uniform, key=lambda row: row.loss))


def _losses_of_common_configurations(
    records: Sequence[LayerSearchRecord],
) -> tuple[NDArray[np.uint8] | None, NDArray[np.float64], NDArray[np.float64]]:
    """Digits of the configurations (None: all), and their losses and accuracies, (networks, configurations)."""
    all_sums = [record.sums for record in records]
    if all(sums.digits is None for sums in all_sums):
        return (
            None,
            np.stack([sums.mean_loss_per_configuration for sums in all_sums]),
            np.stack([sums.accuracy_per_configuration for sums in all_sums]),
        )
    tables = [_loss_and_accuracy_by_digits(record) for record in records]
    shared = [key for key in tables[0] if all(key in table for table in tables)]
    digits = np.array([np.frombuffer(key, np.uint8) for key in shared])
    values = np.array([[table[key] for key in shared] for table in tables]).reshape(len(tables), len(shared), 2)
    return digits, values[..., 0], values[..., 1]


def _loss_and_accuracy_by_digits(record: LayerSearchRecord) -> dict[bytes, tuple[float, float]]:
    sums = record.sums
    assert sums.digits is not None
    pairs = zip(sums.mean_loss_per_configuration.tolist(), sums.accuracy_per_configuration.tolist(), strict=True)
    return {row.tobytes(): pair for row, pair in zip(sums.digits, pairs, strict=True)}


def _make_per_layer_row(configuration: str, losses: Sequence[float], accuracies: Sequence[float] | None) -> PerLayerRow:
    loss = mean_with_t_interval(losses)
    accuracy = None if accuracies is None else mean_with_t_interval(accuracies)
    return PerLayerRow(
        configuration=configuration,
        loss=loss.mean,
        loss_half=loss.half,
        accuracy=None if accuracy is None else accuracy.mean,
        accuracy_half=None if accuracy is None else accuracy.half,
        networks=loss.n,
    )


def _mean_switch_effects(records: Sequence[LayerSearchRecord]) -> tuple[LayerSwitchEffect, ...]:
    names = dict.fromkeys(name for record in records for name in record.effects)
    effects = []
    for choice, statistic in names:
        values = [record.effects[choice, statistic] for record in records if (choice, statistic) in record.effects]
        size = mean_with_t_interval(values)
        effects.append(
            LayerSwitchEffect(choice=choice, statistic=statistic, loss=size.mean, half=size.half, networks=size.n)
        )
    return tuple(effects)
