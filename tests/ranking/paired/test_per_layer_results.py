"""Combined per-layer searches: means over seeds, the confirmed difference, pending seeds."""

from __future__ import annotations

import dataclasses
import math
from datetime import UTC, datetime, timedelta

import numpy as np
import pytest

from bln_search.core.enums import LayerScope, LayerSearchAlgorithm, PopulationEstimate
from bln_search.core.example_outcomes import ExampleOutcomes
from bln_search.core.loss_description import CROSS_ENTROPY, LossDescription
from bln_search.ranking.analysis import Analysis
from bln_search.ranking.paired import OutcomeTable
from bln_search.ranking.paired.per_layer_results import (
    combine_layer_searches_of_networks,
    compute_held_out_difference_to_uniform,
)
from bln_search.ranking.per_layer import NetworkLayerSearch, PerLayerResult
from bln_search.ranking.statistics.intervals import mean_with_t_interval
from bln_search.specs.sections.layer_search import LayerSearchSpec
from tests.ranking.tables import compare_all_pairs
from tests.search.layers.tables import choice, plain_space, space_of
from tests.storage.searches import make_search_record

NOW = datetime(2026, 1, 2, tzinfo=UTC)
SPACE = plain_space(2)


def stored(records, spec=None, made_at=None):
    return [
        NetworkLayerSearch(
            "bln", "", seed, spec or LayerSearchSpec(), record, (made_at or NOW) + timedelta(seconds=seed)
        )
        for seed, record in enumerate(records)
    ]


def result_of(searches, seeds=None, *, loss=CROSS_ENTROPY, has_accuracy=True):
    return combine_layer_searches_of_networks(
        searches,
        batch_size=25,
        estimate=PopulationEstimate.FROZEN,
        seeds=[search.seed for search in searches] if seeds is None else seeds,
        loss=loss,
        has_accuracy=has_accuracy,
    )


def three_records(**options):
    return [make_search_record(seed, **options) for seed in range(3)]


def draw_records(seeds=4, examples=60, shift=0.0, seed=0):
    """Records whose confirmed losses differ from the uniform ones by `shift`, over seeds and examples that scatter."""
    draw = np.random.default_rng(seed)
    of_example = draw.gamma(2.0, 0.2, examples)
    records = []
    for number in range(seeds):
        base = of_example + 0.05 * draw.standard_normal() + 0.02 * draw.standard_normal(examples)
        chosen_losses = base + shift + 0.03 * draw.standard_normal(examples) + 0.01 * draw.standard_normal()
        pairs = [
            ExampleOutcomes(losses.astype(np.float32), draw.random(examples) < 0.7) for losses in (chosen_losses, base)
        ]
        record = make_search_record(number, examples=(examples // 2, examples - examples // 2))
        records.append(dataclasses.replace(record, confirmed=pairs[0], confirmed_uniform=pairs[1]))
    return records


@pytest.mark.parametrize("seeds", [1, 2, 5])
@pytest.mark.parametrize("shift", [0.0, -0.2, 0.2])
def test_confirmed_difference_equals_the_row_comparison(seeds, shift):
    records = draw_records(seeds, shift=shift)
    confirmed = compute_held_out_difference_to_uniform(records)
    losses = np.stack([np.stack([record.confirmed.losses, record.confirmed_uniform.losses]) for record in records])
    correct = np.stack([np.stack([record.confirmed.correct, record.confirmed_uniform.correct]) for record in records])
    expected = compare_all_pairs(OutcomeTable(losses, correct))
    assert confirmed.mean == pytest.approx(float((losses[:, 0] - losses[:, 1]).mean()), abs=1e-6)
    assert (confirmed.low, confirmed.high) == pytest.approx(
        (expected.mean[0] - expected.half[0], expected.mean[0] + expected.half[0])
    )
    assert confirmed.p == pytest.approx(float(expected.p[0]))
    assert confirmed.networks == seeds
    if shift and seeds > 2:
        assert (confirmed.is_significantly_better, confirmed.is_significantly_worse) == (shift < 0, shift > 0)


@pytest.mark.parametrize(
    "records",
    [
        pytest.param([make_search_record(0), make_search_record(1, examples=(7, 7))], id="other examples"),
        pytest.param([make_search_record(0, examples=(1, 0))], id="one example"),
    ],
)
def test_different_examples_have_no_difference(records):
    assert compute_held_out_difference_to_uniform(records) is None


def test_row_is_the_mean_over_networks_with_its_interval():
    records = three_records()
    result = result_of(stored(records))
    losses = np.stack([record.sums.mean_loss_per_configuration for record in records])
    accuracies = np.stack([record.sums.accuracy_per_configuration for record in records])
    order = np.argsort(losses.mean(0), kind="stable")[:100]
    assert [row.configuration for row in result.rows] == [
        str(SPACE.configuration_of_choice_digits(SPACE.choice_digits_at_index(int(index)))) for index in order
    ]
    for index, row in zip(order, result.rows, strict=True):
        loss, accuracy = mean_with_t_interval(losses[:, index]), mean_with_t_interval(accuracies[:, index])
        assert (row.loss, row.loss_half, row.networks) == pytest.approx((loss.mean, loss.half, 3))
        assert (row.accuracy, row.accuracy_half) == pytest.approx((accuracy.mean, accuracy.half))
    assert result.best_row == result.rows[0]


def test_uniform_rows_are_ordered_by_loss():
    records = three_records()
    result = result_of(stored(records))
    assert len(result.uniform) == 16
    means = {
        str(code): np.mean(
            [record.sums.mean_loss_per_configuration[SPACE.index_of_choice_digits(digits)] for record in records]
        )
        for code, digits in uniform()
    }
    assert {row.configuration: row.loss for row in result.uniform} == pytest.approx(means)
    assert [row.loss for row in result.uniform] == sorted(row.loss for row in result.uniform)


def uniform():
    return SPACE.choice_digits_by_uniform_configuration().items()


def test_only_configurations_of_all_networks_have_rows():
    uniform_digits = [digits for _, digits in uniform()]
    records = [make_search_record(seed, digits=[*uniform_digits, (0, 1), (9, 3 + seed)]) for seed in range(3)]
    result = result_of(stored(records, LayerSearchSpec(search=LayerSearchAlgorithm.TPE)))
    assert {row.configuration for row in result.rows} == {
        str(SPACE.configuration_of_choice_digits(digits)) for digits in [*uniform_digits, (0, 1)]
    }
    columns = [list(map(tuple, record.sums.digits.tolist())).index((0, 1)) for record in records]
    losses = [record.sums.mean_loss_per_configuration[column] for record, column in zip(records, columns, strict=True)]
    row = next(row for row in result.rows if row.configuration == str(SPACE.configuration_of_choice_digits((0, 1))))
    assert row.loss == pytest.approx(np.mean(losses))
    assert len(result.uniform) == 16
    assert not result.marginal


def test_configuration_with_an_infinite_loss_has_no_row():
    records = three_records()
    records[1].sums.losses[0, SPACE.index_of_choice_digits((0, 0))] = np.nan
    result = result_of(stored(records))
    assert "TTTT" not in {row.configuration for row in result.uniform}
    assert "TTTT.TTTT" not in {row.configuration for row in result.rows}


def test_effects_are_means_over_networks_that_have_them():
    records = [
        dataclasses.replace(record, effects=effects)
        for record, effects in zip(
            three_records(), [{("a", "E_B"): 1.0}, {("a", "E_B"): 3.0}, {("b", "Std_F"): 5.0}], strict=True
        )
    ]
    first, second = result_of(stored(records)).effects
    assert (first.choice, first.statistic, first.loss, first.networks) == ("a", "E_B", 2.0, 2)
    assert first.half == pytest.approx(mean_with_t_interval([1.0, 3.0]).half)
    assert (second.loss, second.half, second.networks, second.excludes_zero) == (5.0, None, 1, False)


def test_pending_seeds_are_listed():
    assert result_of(stored(three_records()), seeds=[7, 0, 1, 2, 5]).pending_seeds == (5, 7)
    assert result_of(stored(three_records())).pending_seeds == ()


def test_latest_specification_counts():
    before = stored(three_records(), made_at=NOW)
    beam_spec = LayerSearchSpec(search=LayerSearchAlgorithm.BEAM, folds=3)
    latest_search = NetworkLayerSearch("bln", "", 0, beam_spec, make_search_record(9), NOW + timedelta(hours=1))
    result = result_of([latest_search, *before[1:]])
    assert (result.search, result.folds) == (LayerSearchAlgorithm.BEAM, 3)
    assert [network.seed for network in result.networks] == [0]
    assert result.pending_seeds == (1, 2)


def test_networks_of_another_space_are_not_mixed():
    """Where an option has no value in one of them."""
    other_space = space_of(choice("layer 0", [0], max_options=12), choice("layer 1", [1]))
    result = result_of(
        stored(
            [make_search_record(0), make_search_record(1, space=other_space), make_search_record(2, space=other_space)]
        )
    )
    assert [network.seed for network in result.networks] == [1, 2]
    assert (result.size, result.pending_seeds) == ("192", (0,))


def test_network_has_its_choices_and_their_losses():
    record = make_search_record()
    (network,) = result_of(stored([record])).networks
    assert (network.best, network.uniform) == ("TTTT.TFTF", "TTTT")
    assert network.chosen == ("TTTT.TFTF", "TTTT.TFFT")
    assert network.loss == pytest.approx(record.confirmed.losses.mean(), rel=1e-6)
    assert network.accuracy == pytest.approx(record.confirmed.correct.mean())
    assert network.uniform_loss == pytest.approx(record.confirmed_uniform.losses.mean(), rel=1e-6)
    assert network.selection_bias == pytest.approx(network.loss - 0.25)
    assert network.difference_to_uniform == pytest.approx(network.loss - network.uniform_loss)
    assert (network.test_loss, network.test_accuracy, network.test_uniform_loss, network.test_uniform_accuracy) == (
        0.5,
        0.75,
        0.625,
        0.5,
    )
    assert result_of(stored([make_search_record(test=False)])).networks[0].test_loss is None


def test_choices_list_tied_layers_and_excluded_options():
    tied = space_of(choice("ends", [0, 2]), choice("middle", [1]))
    result = result_of(stored([make_search_record(space=tied)]))
    first, second = result.choices
    assert (first.name, first.layers, len(first.options)) == ("ends", ("layer 0", "layer 2"), 16)
    assert first.excluded == {"TTTT": "the deviation has no value"}
    assert second.excluded == {}
    assert result.scope is LayerScope.PER_LAYER


@pytest.mark.parametrize("loss", [math.inf, math.nan])
def test_infinite_confirmed_loss_survives_storage(loss):
    record = make_search_record()
    record.confirmed.losses[3] = loss
    result = result_of(stored([record, make_search_record(1)]))
    assert result.difference is None
    analysis = Analysis.model_validate_json(Analysis(layers=(result,)).model_dump_json())
    assert [network.loss == math.inf for network in analysis.layers[0].networks] == [True, False]
    assert analysis.layers == (result,)


def test_a_task_without_accuracy_has_losses_and_their_unit_only():
    loss = LossDescription("squared error", "variances of the training targets")
    records = three_records()
    result = result_of(stored(records), loss=loss, has_accuracy=False)
    with_accuracy = result_of(stored(records))
    assert (result.loss, result.has_accuracy) == (loss, False)
    rows = (*result.rows, *result.uniform)
    assert {(row.accuracy, row.accuracy_half) for row in rows} == {(None, None)}
    assert [row.loss for row in rows] == [row.loss for row in (*with_accuracy.rows, *with_accuracy.uniform)]
    assert {
        (network.accuracy, network.uniform_accuracy, network.test_accuracy, network.test_uniform_accuracy)
        for network in result.networks
    } == {(None,) * 4}
    assert [(network.test_loss, network.is_tested) for network in result.networks] == [(0.5, True)] * 3
    assert Analysis.model_validate_json(Analysis(layers=(result,)).model_dump_json()).layers == (result,)


def test_a_result_of_an_earlier_version_is_a_cross_entropy():
    result = result_of(stored([make_search_record(), make_search_record(1, test=False)]))
    stored_before = result.model_dump(exclude={"loss": True, "networks": {"__all__": {"is_tested"}}})
    read = PerLayerResult.model_validate(stored_before)
    assert read == result
    assert [network.is_tested for network in read.networks] == [True, False]
