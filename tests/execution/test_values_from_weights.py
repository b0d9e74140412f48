"""Trials with `from_weights` also evaluate statistics computed from the trained weights."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch.nn import functional as F

from bln_search.core.checkpoints import FolderStore
from bln_search.core.configuration import InferenceConfiguration
from bln_search.core.enums import Split
from bln_search.core.errors import SpecError
from bln_search.execution.environment import ExecutionEnvironment
from bln_search.execution.loaded_network import use_trained_network
from bln_search.execution.messages import EvaluationDone, TrainingDone, TrialTask
from bln_search.execution.reevaluation import choose_reevaluation_environment, reevaluate_trial
from bln_search.execution.trial import iter_epochs_of_trial_task
from bln_search.norms.network.layers import evaluation_mode
from bln_search.norms.statistics import select_layer_population
from bln_search.specs import list_planned_trial_specs, parse_study
from tests.support.tiers import latin, thinned

STUDY = """
name: from-weights
data: {name: digits, fraction: 0.2, validation: 250}
model: {name: MODEL}
arms: [{method: METHOD, from_weights: true}]
training: {epochs: 2}
seeds: [0]
"""
MODELS = {
    "tanh": "mlp, widths: [8, 6]",
    "relu": "mlp, widths: [8, 6], placement: before, activation: relu",
    "resnet8": "resnet8, widths: [4, 4, 4]",
}


def trial_of(method, model):
    (trial,) = list_planned_trial_specs(parse_study(STUDY.replace("METHOD", method).replace("MODEL", model)))
    return trial


@pytest.mark.parametrize(
    ("case", "model"),
    thinned(latin([("bn", 9, "AA--"), ("bln", 81, "AAAA"), ("bln", 81, "TAAF")], tuple(MODELS)), 3, start=1),
    ids=str,
)
def test_configurations_with_a_are_evaluated_beside_the_others(tmp_path, case, model):
    method, number, code = case
    trial = trial_of(method, MODELS[model])
    environment = ExecutionEnvironment(tmp_path, tmp_path, FolderStore(tmp_path / "checkpoints"))
    sent = []
    for _ in iter_epochs_of_trial_task(TrialTask(1, trial), environment, sent.append):
        pass
    (evaluations,) = (message.evaluations for message in sent if isinstance(message, EvaluationDone))
    checkpoint = next(message.checkpoint for message in sent if isinstance(message, TrainingDone))
    by_code = {str(result.key.configuration): result for result in evaluations if result.key.split is Split.VALIDATION}
    assert len(by_code) == number
    configuration = InferenceConfiguration(code)
    estimate = by_code[code].key.estimate
    assert (estimate is None) == ("T" not in code)
    with use_trained_network(trial, checkpoint, environment) as loaded, torch.no_grad():
        for layer, values in loaded.populations_by_estimate_and_layer.items():
            layer.configure(configuration, select_layer_population(configuration, estimate, values))
        inputs, targets = loaded.data.splits[Split.VALIDATION]
        size = trial.training.batch_size
        assert len(inputs) % size == 0
        with evaluation_mode(loaded.network):
            outputs = torch.cat([loaded.network(part) for part in inputs.split(size)])
        expected = F.cross_entropy(outputs, targets, reduction="none").numpy()
        np.testing.assert_allclose(by_code[code].outcomes.losses, expected, rtol=1e-3, atol=1e-3)
    repeated = reevaluate_trial(trial, checkpoint, environment, choose_reevaluation_environment(trial, checkpoint))
    assert [result.loss for result in repeated] == [result.loss for result in evaluations]


@pytest.mark.parametrize(
    ("arm", "model", "evaluation"),
    thinned(
        [
            ("method: bn, fine_tune: {epochs: 1}", "mlp, widths: [8, 6]", "{}"),
            ("method: bln, fine_tune: {epochs: 1}", "mlp, widths: [8, 6]", "{}"),
            ("method: bln", "mlp, widths: [8, 6]", "{per_slot: true}"),
            ("method: bln, semantics: reference", "resnet8, widths: [4, 4, 4]", "{}"),
            ("method: bln, axes: layer, affine: unit", "resnet8, widths: [4, 4, 4]", "{}"),
            ("method: bn, unbiased: true", "resnet8, widths: [4, 4, 4]", "{blends: [0.5], batch_sizes: [25, 7]}"),
        ],
        2,
        start=1,
    ),
)
def test_other_options_are_evaluated_with_a_too(tmp_path, arm, model, evaluation):
    study = STUDY.replace("method: METHOD", arm).replace("MODEL", model) + f"evaluation: {evaluation}\n"
    (trial,) = list_planned_trial_specs(parse_study(study))
    environment = ExecutionEnvironment(tmp_path, tmp_path, FolderStore(tmp_path / "checkpoints"))
    sent = []
    for _ in iter_epochs_of_trial_task(TrialTask(1, trial), environment, sent.append):
        pass
    (evaluations,) = (message.evaluations for message in sent if isinstance(message, EvaluationDone))
    analytic = [result for result in evaluations if "A" in str(result.key.configuration)]
    without_blends = {code for result in analytic if "B" not in (code := str(result.key.configuration))}
    assert len(without_blends) == (5 if trial.arm.method == "bn" else 65)
    assert all(result.loss is not None and np.isfinite(result.loss) for result in analytic)


@pytest.mark.parametrize(
    ("arm", "model", "part"),
    [
        ("method: ln, from_weights: true", "mlp", "from_weights belongs to bn and bln"),
        ("method: wn, from_weights: true", "mlp, placement: before", "from_weights belongs to bn and bln"),
        ("method: bn, from_weights: true", "lstm", "recurrent network"),
        ("method: bn, from_weights: true, judged_under: AA--", "mlp", "after training only"),
        ("method: bln, from_weights: true, fine_tune: {configuration: ATFF, epochs: 1}", "mlp", "after training only"),
    ],
)
def test_where_it_has_no_meaning_it_is_refused(arm, model, part):
    with pytest.raises(SpecError, match=part):
        parse_study(STUDY.replace("method: METHOD, from_weights: true", arm).replace("MODEL", model))
