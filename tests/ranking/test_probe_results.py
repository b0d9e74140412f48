"""Probes as curves, crossings and batch dependence."""

from __future__ import annotations

import pytest

from bln_search.core.configuration import InferenceConfiguration
from bln_search.core.enums import PopulationEstimate, ProbeKind, Split
from bln_search.core.records import EvaluationKey, ProbeResult
from bln_search.ranking.probe_results import (
    BestRowChange,
    TrialProbe,
    compute_batch_dependence_by_row,
    compute_probe_curves,
    list_best_row_changes,
)
from bln_search.ranking.statistics.intervals import mean_with_t_interval

FROZEN = PopulationEstimate.FROZEN
T, F = ("bln", "", "TTTT", "frozen"), ("bln", "", "FFFF", "")


def probed(code, kind, loss, *, seed=0, size=25, epoch=0, **options):
    estimate = FROZEN if "T" in code else None
    key = EvaluationKey(InferenceConfiguration(code), estimate, size, Split.VALIDATION)
    return TrialProbe("bln", "", seed, ProbeResult(kind, epoch, key, 9, loss, 1 - loss, **options))


def at_sizes(code, losses):
    return [probed(code, ProbeKind.SIZE, loss, size=size) for size, loss in losses.items()]


def test_curve_has_a_point_with_interval_at_every_size():
    trial_probes = [
        probed("TTTT", ProbeKind.SIZE, loss, seed=seed, size=5) for seed, loss in enumerate([0.1, 0.2, 0.6])
    ]
    trial_probes += [probed("TTTT", ProbeKind.SIZE, 0.4, size=1), probed("TTTT", ProbeKind.EPOCH, 9.0)]
    curves = compute_probe_curves(trial_probes, ProbeKind.SIZE)
    assert list(curves) == [T]
    assert [point.at for point in curves[T]] == [1, 5]
    assert curves[T][1].loss == mean_with_t_interval([0.1, 0.2, 0.6])
    assert curves[T][1].accuracy == mean_with_t_interval([0.9, 0.8, 0.4])
    assert curves[T][0].loss.half is None


def test_epochs_are_ordered():
    trial_probes = [probed("FFFF", ProbeKind.EPOCH, 0.1 * epoch, epoch=epoch) for epoch in (10, 2, 1)]
    assert [point.at for point in compute_probe_curves(trial_probes, ProbeKind.EPOCH)[F]] == [1, 2, 10]


def test_crossing_is_where_the_best_row_changes():
    trial_probes = at_sizes("TTTT", {1: 0.1, 5: 0.2, 25: 0.3, 100: 0.1}) + at_sizes(
        "FFFF", {1: 0.9, 5: 0.3, 25: 0.2, 100: 0.2}
    )
    assert list_best_row_changes(compute_probe_curves(trial_probes, ProbeKind.SIZE)) == [
        BestRowChange(T, F, (5, 25)),
        BestRowChange(F, T, (25, 100)),
    ]


def test_rows_in_constant_order_do_not_cross():
    trial_probes = at_sizes("TTTT", {1: 0.1, 5: 0.2}) + at_sizes("FFFF", {1: 0.2, 5: 0.3})
    assert list_best_row_changes(compute_probe_curves(trial_probes, ProbeKind.SIZE)) == []
    assert list_best_row_changes({}) == []


def test_row_that_lacks_seeds_is_not_the_best():
    trial_probes = [probed("TTTT", ProbeKind.SIZE, 0.3, seed=seed, size=size) for seed in range(3) for size in (2, 25)]
    trial_probes += [probed("FFFF", ProbeKind.SIZE, 0.4, seed=seed, size=25) for seed in range(3)]
    assert (
        list_best_row_changes(
            compute_probe_curves([*trial_probes, probed("FFFF", ProbeKind.SIZE, 0.2, size=2)], ProbeKind.SIZE)
        )
        == []
    )


def test_batch_dependence_is_a_mean_over_seeds():
    mixed = [
        probed("FFFF", ProbeKind.RESHUFFLED, loss, seed=seed, deviation=loss / 10, flips=loss / 2)
        for seed, loss in enumerate([0.2, 0.4])
    ]
    skewed = [probed("FFFF", ProbeKind.SKEWED, 2.0, deviation=0.5, flips=0.8)]
    (dependence,) = compute_batch_dependence_by_row([*mixed, *skewed, probed("FFFF", ProbeKind.SIZE, 9.0)]).values()
    assert (dependence.loss, dependence.deviation, dependence.flips) == pytest.approx((0.3, 0.03, 0.15))
    assert (dependence.skewed_loss, dependence.skewed_flips, dependence.seeds) == (2.0, 0.8, 2)
    assert not dependence.deterministic


def test_skewed_values_need_skewed_probes():
    (dependence,) = compute_batch_dependence_by_row(
        [probed("TTTT", ProbeKind.RESHUFFLED, 0.2, deviation=0.0, flips=0.0)]
    ).values()
    assert (dependence.skewed_loss, dependence.skewed_flips, dependence.deterministic) == (None, None, True)


def test_population_of_slots_depends_on_the_mini_batch():
    reshuffled = [probed(code, ProbeKind.RESHUFFLED, 0.2, deviation=0.0, flips=0.0) for code in ("TTTT", "TTFF")]
    dependence = compute_batch_dependence_by_row(reshuffled, per_slot=True)
    assert {str(key.configuration): row.deterministic for key, row in dependence.items()} == {
        "TTTT": False,
        "TTFF": True,
    }


def test_batch_dependence_needs_reshuffled_probes():
    assert compute_batch_dependence_by_row([probed("FFFF", ProbeKind.SKEWED, 2.0)]) == {}
