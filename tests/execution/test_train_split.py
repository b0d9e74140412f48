"""`evaluation.splits: [train]`: every row is also evaluated on the training examples, which select nothing."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch.nn import functional as F

from bln_search.core.configuration import InferenceConfiguration
from bln_search.core.enums import Split
from bln_search.evaluation.row_evaluator import use_row_in_all_layers
from bln_search.execution.loaded_network import use_trained_network
from bln_search.execution.reevaluation import (
    choose_reevaluation_environment,
    reevaluate_trial,
)
from bln_search.norms.network.layers import evaluation_mode
from bln_search.specs import list_planned_trial_specs, parse_study
from bln_search.specs.sections.evaluation import TrainSplitSelection

STUDY = """
name: gap
data: {name: digits, fraction: 0.2, validation: 200, standardization: channel}
model: {name: mlp, widths: [8]}
arms: [{method: bn}]
training: {epochs: 2, batch_size: 19}
seeds: [0]
evaluation: {splits: [train], conditions: [gaussian_noise-3]}
"""
(TRIAL,) = list_planned_trial_specs(parse_study(STUDY))
TRAINING_EXAMPLES, VALIDATION_EXAMPLES, TEST_EXAMPLES = 247, 40, 360


def of_train(evaluations):
    return {
        (evaluation.key.configuration, evaluation.key.estimate): evaluation
        for evaluation in evaluations
        if evaluation.key.split is Split.TRAIN
    }


@torch.no_grad()
def plain_losses(network, inputs, targets, size):
    """Losses by plain forward passes over mini-batches in the order of the data, the last one filled from the first."""
    n, losses = len(inputs), []
    for start in range(0, n, size):
        chosen = [(start + offset) % n for offset in range(size)]
        kept = min(size, n - start)
        losses.append(F.cross_entropy(network(inputs[chosen])[:kept], targets[start : start + kept], reduction="none"))
    return torch.cat(losses).numpy()


def test_losses_on_the_training_examples_equal_a_plain_loop(environment, checkpoint, evaluations):
    with use_trained_network(TRIAL, checkpoint, environment) as loaded:
        inputs, targets = loaded.data.splits[Split.TRAIN]
        assert len(inputs) == TRAINING_EXAMPLES
        stored = of_train(evaluations)
        assert len(stored) == len(loaded.planned_inference_rows) == 4
        for row in loaded.planned_inference_rows:
            with evaluation_mode(loaded.network), use_row_in_all_layers(row, loaded.populations_by_estimate_and_layer):
                expected = plain_losses(loaded.network, inputs, targets, 19)
            evaluation = stored[row.configuration, row.estimate]
            np.testing.assert_allclose(evaluation.outcomes.losses, expected, rtol=1e-4, atol=1e-5)
            assert evaluation.loss == pytest.approx(expected.mean(dtype=np.float64), rel=1e-4)


def test_batch_norm_in_training_mode_has_the_loss_of_the_mini_batch_row(environment, checkpoint, evaluations):
    with use_trained_network(TRIAL, checkpoint, environment) as loaded:
        loaded.network.train()
        expected = plain_losses(loaded.network, *loaded.data.splits[Split.TRAIN], 19)
        loaded.network.eval()
    losses = {str(configuration): evaluation.loss for (configuration, _), evaluation in of_train(evaluations).items()}
    assert losses["FF--"] == pytest.approx(expected.mean(dtype=np.float64), rel=1e-4)
    assert losses["TT--"] != pytest.approx(losses["FF--"], rel=1e-3)


def test_training_split_is_evaluated_on_clean_images_only(evaluations):
    places = {(evaluation.key.split, evaluation.key.condition): evaluation.n for evaluation in evaluations}
    assert places == {
        (Split.VALIDATION, ""): VALIDATION_EXAMPLES,
        (Split.TEST, ""): TEST_EXAMPLES,
        (Split.TRAIN, ""): TRAINING_EXAMPLES,
        (Split.VALIDATION, "gaussian_noise-3"): VALIDATION_EXAMPLES,
        (Split.TEST, "gaussian_noise-3"): TEST_EXAMPLES,
    }


def test_as_many_training_examples_as_validation_are_the_first_ones(environment, checkpoint, evaluations):
    few = TRIAL.model_copy(
        update={"evaluation": TRIAL.evaluation.model_copy(update={"train_examples": TrainSplitSelection.AS_VALIDATION})}
    )
    code = InferenceConfiguration("TT--")
    of_few = {
        key[0]: value
        for key, value in of_train(
            reevaluate_trial(few, checkpoint, environment, choose_reevaluation_environment(few, checkpoint))
        ).items()
    }[code]
    of_all = {key[0]: value for key, value in of_train(evaluations).items()}[code]
    assert (of_few.n, of_all.n) == (VALIDATION_EXAMPLES, TRAINING_EXAMPLES)
    np.testing.assert_allclose(of_few.outcomes.losses, of_all.outcomes.losses[:VALIDATION_EXAMPLES], rtol=1e-5)
