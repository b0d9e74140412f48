"""A trial with statistics from the weights has nine configurations, which agree with its own network."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch.nn import functional as F

from bln_search.core.checkpoints import FolderStore
from bln_search.core.enums import Split
from bln_search.core.errors import SpecError
from bln_search.execution.environment import ExecutionEnvironment
from bln_search.execution.loaded_network import use_trained_network
from bln_search.execution.messages import EvaluationDone, TrainingDone, TrialTask
from bln_search.execution.reevaluation import choose_reevaluation_environment, reevaluate_trial
from bln_search.execution.trial import iter_epochs_of_trial_task
from bln_search.norms.network.layers import evaluation_mode
from bln_search.specs import list_planned_trial_specs, parse_study
from tests.support.tiers import latin

STUDY = """
name: analytic
data: {name: digits, fraction: 0.2, validation: 200}
model: {name: MODEL}
arms: [{method: METHOD}]
training: {epochs: 2}
seeds: [0]
"""
MODELS = {"mlp": "mlp, widths: [8, 6], placement: before, activation: relu", "resnet8": "resnet8, widths: [4, 4, 4]"}


def study_of(method, model):
    return parse_study(STUDY.replace("METHOD", method).replace("MODEL", model))


@pytest.mark.parametrize(("method", "model"), latin(["wn", "normprop", "ap2"], MODELS))
def test_nine_configurations_are_evaluated_and_aa_is_the_trained_network(tmp_path, method, model):
    (trial,) = list_planned_trial_specs(study_of(method, MODELS[model]))
    environment = ExecutionEnvironment(tmp_path, tmp_path, FolderStore(tmp_path / "checkpoints"))
    sent = []
    for _ in iter_epochs_of_trial_task(TrialTask(1, trial), environment, sent.append):
        pass
    (evaluations,) = (message.evaluations for message in sent if isinstance(message, EvaluationDone))
    checkpoint = next(message.checkpoint for message in sent if isinstance(message, TrainingDone))
    by_code = {str(result.key.configuration): result for result in evaluations if result.key.split is Split.VALIDATION}
    assert list(by_code) == ["AA--", "AT--", "AF--", "TA--", "TT--", "TF--", "FA--", "FT--", "FF--"]
    assert {code for code, result in by_code.items() if result.key.estimate is None} == {"AA--", "AF--", "FA--", "FF--"}
    with use_trained_network(trial, checkpoint, environment) as loaded, torch.no_grad():
        inputs, targets = loaded.data.splits[Split.VALIDATION]
        with evaluation_mode(loaded.network):
            outputs = loaded.network(inputs)
        expected = F.cross_entropy(outputs, targets, reduction="none").numpy()
        np.testing.assert_allclose(by_code["AA--"].outcomes.losses, expected, rtol=1e-3, atol=1e-4)
    repeated = reevaluate_trial(trial, checkpoint, environment, choose_reevaluation_environment(trial, checkpoint))
    assert [result.loss for result in repeated] == [result.loss for result in evaluations]


@pytest.mark.parametrize(
    ("method", "model", "part"),
    [
        ("wn", "mlp", "model.placement to before"),
        ("wn", "lenet", "directly in front"),
        ("ap2", "lstm", "recurrent network"),
        ("normprop", "gru", "recurrent network"),
    ],
)
def test_models_without_the_weights_are_refused_before_training(method, model, part):
    with pytest.raises(SpecError, match=rf"arms.0.method: .*{part}"):
        study_of(method, model)


@pytest.mark.parametrize(("method", "model"), [("ap2", "mlp"), ("normprop", "lenet"), ("wn", "vgg16")])
def test_other_models_are_accepted(method, model):
    assert study_of(method, model).arms[0].method == method
