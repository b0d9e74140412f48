"""Seconds of a trial follow from measured durations by the number of repetitions of each part."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bln_search.core.enums import Split
from bln_search.execution.time_estimate.extrapolation import (
    DurationSpread,
    EvaluationPassTimes,
    MeasuredGroupTimes,
    extrapolate_trial_seconds,
    list_batch_sizes_and_lengths_to_measure,
    simulate_parallel_seconds,
)
from bln_search.specs import list_planned_trial_specs, parse_study

SIZES = {Split.TRAIN: 1_030, Split.VALIDATION: 205, Split.TEST: 100}
TIMES = MeasuredGroupTimes(
    network=1.0,
    step=DurationSpread(0.5, 0.4, 0.6, 9),
    validation_example=0.01,
    population_batch=0.2,
    evaluation={(10, None): EvaluationPassTimes(3.0, 0.25), (50, None): EvaluationPassTimes(4.0, 1.0)},
)
DURATIONS = st.lists(st.floats(0, 1e6), min_size=1, max_size=30)


def trial(arm="{method: bln}", training="", evaluation="{}", more=""):
    text = f"""
name: sized
data: {{name: digits}}
model: {{name: mlp}}
arms: [{arm}]
training: {{epochs: 4, batch_size: 10{training}}}
seeds: [0]
evaluation: {evaluation}
{more}
"""
    return list_planned_trial_specs(parse_study(text))[0]


def seconds(trial, **times):
    return extrapolate_trial_seconds(trial, SIZES, MeasuredGroupTimes(**{**vars(TIMES), **times}))


def test_steps_and_examples_of_complete_mini_batches_are_multiplied():
    parts = seconds(trial())
    assert parts.network == 1.0
    assert parts.training == pytest.approx(4 * 103 * 0.5)
    assert parts.validation == pytest.approx(4 * 200 * 0.01)
    assert parts.population == pytest.approx(103 * 0.2)
    assert parts.evaluation == pytest.approx((3 + 21 * 0.25) + (3 + 10 * 0.25))
    assert parts.fine_tuning == parts.probes == 0
    assert parts.total_seconds == pytest.approx(1 + 206 + 8 + 20.6 + 8.25 + 5.5)


def test_validation_on_test_after_each_epoch_is_added():
    parts = seconds(trial(training=", epoch_splits: [validation, test]"))
    assert parts.validation == pytest.approx(4 * 300 * 0.01)


def test_every_inference_size_split_and_condition_is_evaluated():
    evaluation = "{batch_sizes: [10, 50], conditions: [fog, contrast], splits: [train]}"
    clean = 3 * (3 + 4) + (21 + 10 + 103) * 0.25 + (5 + 2 + 21) * 1.0
    condition = 2 * (3 + 4) + (21 + 10) * 0.25 + (5 + 2) * 1.0
    parts = seconds(trial(evaluation=evaluation), corruption_example=0.1)
    assert parts.evaluation == pytest.approx(clean + 2 * condition + 305 * 0.1)


def test_train_examples_as_validation_cost_as_much_as_validation():
    parts = seconds(trial(evaluation="{splits: [train], train_examples: as_validation}"))
    assert parts.evaluation == pytest.approx(2 * (3 + 21 * 0.25) + (3 + 10 * 0.25))


@pytest.mark.parametrize(("refresh", "populations"), [("epoch", 5), ("never", 2)])
def test_fine_tuning_repeats_steps_populations_and_two_evaluations(refresh, populations):
    arm = f"{{method: bln, fine_tune: {{epochs: 3, refresh: {refresh}}}}}"
    parts = seconds(trial(arm=arm))
    assert parts.fine_tuning == pytest.approx(3 * 103 * 0.5 + populations * 103 * 0.2 + 2 * (3 + 21 * 0.25))


def test_probes_are_passes_over_the_validation_split():
    pass_10, pass_50 = 3 + 21 * 0.25, 4 + 5 * 1.0
    parts = seconds(trial(more="probes: {batch_sizes: [50], reshuffles: 3, epochs: 2, geometry: 32}"), geometry=0.7)
    assert parts.probes == pytest.approx(pass_50 + 5 * pass_10 + 2 * (103 * 0.2 + pass_10) + 4 * 0.7)


def test_without_classes_no_pass_is_sorted_by_class():
    sized = trial(more="probes: {reshuffles: 3}")
    numbers = sized.model_copy(update={"data": sized.data.model_copy(update={"name": "diabetes"})})
    pass_10 = 3 + 21 * 0.25
    assert [seconds(case).probes for case in (sized, numbers)] == pytest.approx([5 * pass_10, 4 * pass_10])


def test_the_measured_sizes_are_those_of_evaluation_probes_and_fine_tuning():
    arm = "{method: bln, fine_tune: {epochs: 1}}"
    probed = trial(arm=arm, evaluation="{batch_sizes: [50]}", more="probes: {batch_sizes: [5]}")
    assert set(list_batch_sizes_and_lengths_to_measure(probed)) == {(50, None), (5, None), (10, None)}
    assert list_batch_sizes_and_lengths_to_measure(trial()) == ((10, None),)


def test_lengths_of_texts_are_measured_and_added():
    text = """
name: texts
data: {name: imdb}
model: {name: lstm}
arms: [{method: ln}]
training: {epochs: 1, batch_size: 10}
seeds: [0]
evaluation: {lengths: [160]}
"""
    (texts,) = list_planned_trial_specs(parse_study(text))
    assert list_batch_sizes_and_lengths_to_measure(texts) == ((10, None), (10, 160))
    evaluation = {(10, None): EvaluationPassTimes(0.0, 1.0), (10, 160): EvaluationPassTimes(0.0, 3.0)}
    assert seconds(texts, evaluation=evaluation).evaluation == pytest.approx(31 * (1 + 3))


def test_workers_take_the_next_trial_when_they_are_free():
    assert simulate_parallel_seconds([5, 1, 1, 4], workers=2) == 6
    assert simulate_parallel_seconds([5, 1, 1, 4], workers=1) == 11
    assert simulate_parallel_seconds([5, 1, 1, 4], workers=9) == 5


@given(DURATIONS, st.integers(1, 40))
def test_parallel_time_is_between_a_fair_share_and_a_share_plus_the_longest_trial(durations, workers):
    parallel = simulate_parallel_seconds(durations, workers)
    share = sum(durations) / workers
    tolerance = 1e-9 * (1 + sum(durations))
    assert max(share, *durations, 0) - tolerance <= parallel <= share + max(durations) + tolerance


def test_spread_is_the_median_with_quartiles():
    assert DurationSpread.of_seconds([1.0, 2.0, 3.0, 4.0, 5.0]) == DurationSpread(3.0, 2.0, 4.0, 5)
    assert DurationSpread.of_seconds([7.0]) == DurationSpread(7.0, 7.0, 7.0, 1)


def test_an_arm_that_adapts_costs_a_training_step_and_another_a_forward_pass_for_each_example_of_a_stream():
    more = "stream: {orders: 3, passes: 2}\nadaptation: [none, {name: none, configuration: F}, tent]"
    assert seconds(trial(more=more)).streams == pytest.approx(100 * 3 * 2 * (2 * 0.01 + 0.5 / 10))
    assert seconds(trial()).streams == 0
