"""A trial evaluates its network on the clean images and under every condition of the study."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch
from torch.nn import functional as F

from bln_search.core.enums import Split
from bln_search.data.corruptions import corrupt_images
from bln_search.evaluation.row_evaluator import use_row_in_all_layers
from bln_search.execution.environment import load_and_prepare_data
from bln_search.execution.loaded_network import use_trained_network
from bln_search.execution.reevaluation import (
    ReproductionVerdict,
    choose_reevaluation_environment,
    compare_evaluations,
    reevaluate_trial,
)
from bln_search.norms.network.layers import evaluation_mode
from bln_search.specs import list_planned_trial_specs, parse_study

STUDY = parse_study("""
name: shifted
data: {name: digits, fraction: 0.2, validation: 200, standardization: channel}
model: {name: mlp, widths: [8]}
arms: [{method: bln}]
training: {epochs: 2}
seeds: [0]
evaluation:
  batch_sizes: [8, 25]
  conditions: [gaussian_noise-3, {name: dim, corruption: contrast, severity: 5}]
""")
(TRIAL,) = list_planned_trial_specs(STUDY)


def corrupted_inputs(data, split, condition):
    """The standardized images of a condition, in double precision."""
    source = data.unprepared[split]
    images = (source.inputs / 16).astype(np.float32)
    corrupted = corrupt_images(images, condition.image_corruption, seed=condition.seed, indices=source.indices)
    return (corrupted.astype(np.float64) * 16 - data.standardizer.mean) / data.standardizer.deviation


@torch.no_grad()
def plain_losses(loaded, row, inputs, targets, size):
    """Losses by plain forward passes over mini-batches in the order of the data, the last one filled from the first."""
    n, losses = len(inputs), []
    with evaluation_mode(loaded.network), use_row_in_all_layers(row, loaded.populations_by_estimate_and_layer):
        for start in range(0, n, size):
            chosen = [(start + offset) % n for offset in range(size)]
            outputs = loaded.network(torch.from_numpy(inputs[chosen]).float())
            kept = min(size, n - start)
            losses.append(F.cross_entropy(outputs[:kept], targets[start : start + kept], reduction="none"))
    return torch.cat(losses).numpy()


def test_losses_under_conditions_equal_a_plain_loop(environment, checkpoint, evaluations):
    stored = {evaluation.key: evaluation for evaluation in evaluations}
    compared = 0
    with use_trained_network(TRIAL, checkpoint, environment) as loaded:
        for condition in TRIAL.evaluation.conditions:
            for split in (Split.VALIDATION, Split.TEST):
                inputs, targets = corrupted_inputs(loaded.data, split, condition), loaded.data.splits[split][1]
                for row in loaded.planned_inference_rows[::5]:
                    for size in TRIAL.inference_batch_sizes:
                        (evaluation,) = (
                            found
                            for key, found in stored.items()
                            if (key.configuration, key.estimate) == (row.configuration, row.estimate)
                            and (key.batch_size, key.split, key.condition) == (size, split, condition.name)
                        )
                        expected = plain_losses(loaded, row, inputs, targets, size)
                        np.testing.assert_allclose(evaluation.outcomes.losses, expected, rtol=1e-4, atol=1e-5)
                        assert evaluation.loss == pytest.approx(expected.mean(dtype=np.float64), rel=1e-4)
                        compared += 1
    assert compared == 2 * 2 * 4 * 2


def test_every_condition_has_the_evaluations_of_the_clean_images(evaluations):
    keys = [evaluation.key for evaluation in evaluations]
    by_condition = {
        name: {(key.configuration, key.estimate, key.batch_size, key.split) for key in keys if key.condition == name}
        for name in ("", "gaussian_noise-3", "dim")
    }
    assert by_condition[""] == by_condition["gaussian_noise-3"] == by_condition["dim"]
    assert len(by_condition[""]) * 3 == len(keys) == len(set(keys)) == 2 * TRIAL.num_evaluations_per_split


def test_reevaluation_is_identical_bit_for_bit(environment, checkpoint, evaluations):
    load_and_prepare_data.cache_clear()
    repeated = reevaluate_trial(TRIAL, checkpoint, environment, choose_reevaluation_environment(TRIAL, checkpoint))
    comparisons = compare_evaluations(evaluations, repeated, same_conditions=True)
    assert len(comparisons) == len(evaluations)
    assert {comparison.verdict for comparison in comparisons} == {ReproductionVerdict.IDENTICAL}


def test_losses_of_other_code_of_bln_search_may_be_close(checkpoint, evaluations):
    assert choose_reevaluation_environment(TRIAL, checkpoint).changed is None
    code = checkpoint.provenance["code"]
    changed_code = code | {"built_in": code["built_in"] | {"bln_search/norms": "0"}}
    for provenance, reason in (
        (checkpoint.provenance | {"code": changed_code}, "the code of bln-search changed"),
        (checkpoint.provenance | {"code": None}, "the code of bln-search was not recorded"),
    ):
        assert choose_reevaluation_environment(TRIAL, replace(checkpoint, provenance=provenance)).changed == reason
    measured = [evaluation for evaluation in evaluations if evaluation.loss is not None][:2]
    rounded = [replace(measured[0], loss=measured[0].loss + 4e-7), replace(measured[1], loss=measured[1].loss + 1e-2)]
    verdicts = [comparison.verdict for comparison in compare_evaluations(measured, rounded, same_conditions=False)]
    assert verdicts == [ReproductionVerdict.CLOSE, ReproductionVerdict.DIFFERENT]
