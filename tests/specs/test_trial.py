"""The trials of a study; finite spaces are enumerated once."""

from __future__ import annotations

import math

import pytest
import torch

from bln_search.specs import list_planned_configurations_and_estimates, list_planned_trial_specs, parse_study
from bln_search.specs.sections.training import CosineRate, ExponentialRate, StepRate

STUDY = """name: study
data: {name: digits}
model: {name: mlp}
arms: [{method: bln}, {method: bn, population: [moving]}, {method: ln}]
seeds: [0, 1]
evaluation: {population: [frozen, epoch]}
"""


def test_rows_that_read_no_population_value_are_planned_once():
    bln, bn, ln = list_planned_trial_specs(parse_study(STUDY))[:3]
    assert len(list_planned_configurations_and_estimates(bln)) == 15 * 2 + 1
    assert len(list_planned_configurations_and_estimates(bn)) == 3 + 1
    assert len(list_planned_configurations_and_estimates(ln)) == 3 * 2 + 1
    assert len(set(list_planned_configurations_and_estimates(bln))) == 31


def test_inference_batch_size_defaults_to_training_size():
    assert list_planned_trial_specs(parse_study(STUDY))[0].inference_batch_sizes == (25,)
    text = STUDY.replace("[frozen, epoch]}", "[frozen], batch_sizes: [1, 100]}")
    assert list_planned_trial_specs(parse_study(text))[0].inference_batch_sizes == (1, 100)


def test_rate_schedules():
    steps = StepRate(kind="steps", steps={0.4: 0.1, 0.6: 0.01})
    assert [steps.factor_at_progress(p, 10) for p in (0, 0.39, 0.4, 0.6, 1)] == [1.0, 1.0, 0.1, 0.01, 0.01]
    cosine = CosineRate(kind="cosine", final=0.1)
    assert cosine.factor_at_progress(0, 10) == 1
    assert math.isclose(cosine.factor_at_progress(1, 10), 0.1)
    assert cosine.factor_at_progress(0.5, 10) == pytest.approx(0.55)


def test_exponential_rate_falls_once_an_epoch_as_that_of_torch():
    steps, epochs = 7, 50
    optimizer = torch.optim.SGD([torch.nn.Parameter(torch.zeros(1))], lr=1.0)
    scheduler = torch.optim.lr_scheduler.ExponentialLR(optimizer, 0.96)
    rate = ExponentialRate(kind="exponential", gamma=0.96)
    for epoch in range(epochs):
        for step in range(steps):
            progress = (epoch * steps + step) / (steps * epochs)
            assert rate.factor_at_progress(progress, epochs) == pytest.approx(
                optimizer.param_groups[0]["lr"], rel=1e-12
            )
        optimizer.step()
        scheduler.step()
