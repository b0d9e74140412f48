"""The trials of a study; finite spaces are enumerated once."""

from __future__ import annotations

import math

import pytest

from bln_search.specs import list_planned_trials, parse_study, planned_inference_rows
from bln_search.specs.sections.training import CosineRate, StepRate

STUDY = """name: study
data: {name: digits}
model: {name: mlp}
arms: [{method: bln}, {method: bn, population: [moving]}, {method: ln}]
seeds: [0, 1]
evaluation: {population: [frozen, epoch]}
"""


def test_trials_are_arms_times_seeds_with_unique_keys():
    trials = list_planned_trials(parse_study(STUDY))
    assert len(trials) == 6
    assert len({trial.key for trial in trials}) == 6


def test_keys_do_not_depend_on_the_order_in_the_file():
    reordered = STUDY.replace("data: {name: digits}\nmodel: {name: mlp}", "model: {name: mlp}\ndata: {name: digits}")
    assert [trial.key for trial in list_planned_trials(parse_study(STUDY))] == [
        trial.key for trial in list_planned_trials(parse_study(reordered))
    ]
    assert parse_study(STUDY).digest == parse_study(reordered).digest


def test_rows_that_read_no_population_value_are_planned_once():
    bln, bn, ln = list_planned_trials(parse_study(STUDY))[:3]
    assert len(planned_inference_rows(bln)) == 15 * 2 + 1
    assert len(planned_inference_rows(bn)) == 3 + 1
    assert len(planned_inference_rows(ln)) == 3 * 2 + 1
    assert len(set(planned_inference_rows(bln))) == 31


def test_inference_batch_size_defaults_to_training_size():
    assert list_planned_trials(parse_study(STUDY))[0].batch_sizes == (25,)
    text = STUDY.replace("[frozen, epoch]}", "[frozen], batch_sizes: [1, 100]}")
    assert list_planned_trials(parse_study(text))[0].batch_sizes == (1, 100)


def test_rate_schedules():
    steps = StepRate(kind="steps", steps={0.4: 0.1, 0.6: 0.01})
    assert [steps.factor(p) for p in (0, 0.39, 0.4, 0.6, 1)] == [1.0, 1.0, 0.1, 0.01, 0.01]
    cosine = CosineRate(kind="cosine", final=0.1)
    assert cosine.factor(0) == 1
    assert math.isclose(cosine.factor(1), 0.1)
    assert cosine.factor(0.5) == pytest.approx(0.55)
