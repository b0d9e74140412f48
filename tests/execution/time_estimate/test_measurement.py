"""Durations are measured in a limited time, and failures of a network are one error."""

from __future__ import annotations

import itertools

import pytest
import torch

from bln_search.core.enums import Split
from bln_search.core.errors import ModelError
from bln_search.data.synthetic import make_synthetic_prepared_data
from bln_search.execution.time_estimate import measurement
from bln_search.execution.time_estimate.inputs import MeasurementInputs
from bln_search.execution.time_estimate.measurement import measure_trial_durations, separate_fixed_seconds
from bln_search.specs import list_planned_trial_specs, parse_study
from bln_search.training.seeding import reproducible_torch
from bln_search.training.step_timing import DeviceSynchronizedClock
from tests.support.tiers import thinned

STUDY = """
name: measured
data: {name: digits}
model: {name: mlp, widths: [8]}
arms:
  - {method: bln, population: [epoch, moving, frozen]}
  - {method: bn, judged_under: TT--, population: [moving, frozen]}
  - {method: mbn, double_forward: true}
  - {method: brn}
  - {method: ln}
  - {method: none}
training: {batch_size: 10, epochs: 3, epoch_splits: [validation, test]}
seeds: [0]
"""
SIZES = {Split.TRAIN: 1_000, Split.VALIDATION: 300, Split.TEST: 100}


class SteppingClock:
    """A clock that advances by one second with every reading."""

    def __init__(self):
        self.seconds = itertools.count()
        self.readings = 0

    def __call__(self):
        self.readings += 1
        return float(next(self.seconds))


def inputs(spec, examples=512):
    return MeasurementInputs(make_synthetic_prepared_data(spec.data, examples), SIZES, "none here")


def measure(spec, trial, budget, clock):
    with reproducible_torch(0, threads=1):
        return measure_trial_durations(trial, inputs(spec), DeviceSynchronizedClock(clock=clock), budget)


@pytest.mark.parametrize("index", thinned(range(6), 2))
def test_every_method_has_durations_of_its_parts(index):
    spec = parse_study(STUDY)
    trial = list_planned_trial_specs(spec)[index]
    times = measure(spec, trial, 20.0, SteppingClock())
    assert times.step.median == 1.0
    assert times.step.count > 1
    assert times.validation_example == pytest.approx(1 / 510)
    assert times.population_batch == 1 / 2  # a second for the two mini-batches that fit the time
    assert set(times.evaluation) == {(10, None)}
    assert times.corruption_example == times.geometry == 0


@pytest.mark.parametrize("budget", [0.0, 10.0, 40.0])
def test_no_step_begins_after_the_time_of_the_steps(budget):
    spec = parse_study(STUDY)
    clock = SteppingClock()
    times = measure(spec, list_planned_trial_specs(spec)[0], budget, clock)
    assert 1 <= times.step.count <= max(1, 0.5 * budget)
    assert clock.readings <= budget + 30


def test_a_network_that_fails_is_one_error_with_its_name(monkeypatch):
    spec = parse_study(STUDY)

    def build_failing_network(trial, data):
        class Failing(torch.nn.Sequential):
            def forward(self, x):
                raise RuntimeError("shapes do not fit")

        return Failing(original(trial, data))

    original = measurement.build_initialized_network
    monkeypatch.setattr(measurement, "build_initialized_network", build_failing_network)
    with pytest.raises(ModelError, match=r"mlp of the arm bln with mini-batches of 10.*shapes do not fit"):
        measure(spec, list_planned_trial_specs(spec)[0], 1.0, SteppingClock())


def test_too_little_memory_names_the_key_to_change(monkeypatch):
    spec = parse_study(STUDY)

    def exhaust(trial, data):
        raise torch.OutOfMemoryError("tried to allocate 99 GiB")

    monkeypatch.setattr(measurement, "build_initialized_network", exhaust)
    with pytest.raises(ModelError, match="lower batch_size"):
        measure(spec, list_planned_trial_specs(spec)[0], 1.0, SteppingClock())


def test_fixed_and_repeated_seconds_are_separated():
    times = separate_fixed_seconds(first=5.0, several=11.0, count=4, expected=9.0)
    assert (times.fixed, times.batch) == (3.0, 2.0)
    assert times.seconds_of_pass(examples=101, batch_size=10) == 3.0 + 11 * 2.0


def test_without_a_difference_the_expected_seconds_are_used():
    times = separate_fixed_seconds(first=5.0, several=4.0, count=4, expected=0.5)
    assert (times.fixed, times.batch) == (2.0, 0.5)
