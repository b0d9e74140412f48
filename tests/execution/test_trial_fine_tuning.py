"""A trial with `fine_tune` has the rows of the network after further training under one configuration."""

from __future__ import annotations

import pytest
import torch

import bln_search
from bln_search.core.checkpoints import FolderStore
from bln_search.core.enums import Split
from bln_search.execution.environment import ExecutionEnvironment
from bln_search.execution.loaded_network import use_trained_network
from bln_search.execution.messages import EvaluationDone, TrainingDiverged, TrainingDone, TrialTask
from bln_search.execution.reevaluation import choose_reevaluation_environment, reevaluate_trial
from bln_search.execution.trial import iter_epochs_of_trial_task
from bln_search.specs import list_planned_trial_specs, parse_study
from tests.support.tiers import thinned

STUDY = """
name: tuned
data: {name: digits, fraction: 0.2, validation: 200}
model: {name: mlp, widths: [8]}
arms:
  - {method: %s, name: plain}
  - {method: %s, name: tuned, fine_tune: {%s}}
training: {epochs: 2, learning_rate: 0.01}
seeds: [0]
"""


def run(trial, environment):
    sent = []
    for _ in iter_epochs_of_trial_task(TrialTask(1, trial), environment, sent.append):
        pass
    return sent


def outcome(trial, environment):
    sent = run(trial, environment)
    done = next(message for message in sent if isinstance(message, EvaluationDone))
    return next(message.checkpoint for message in sent if isinstance(message, TrainingDone)), done.evaluations


@pytest.fixture
def environment(tmp_path):
    return ExecutionEnvironment(tmp_path, tmp_path, FolderStore(tmp_path / "checkpoints"))


@pytest.mark.filterwarnings("ignore:.*depends on the mini-batch")
@pytest.mark.parametrize(
    ("method", "code", "refresh"),
    thinned([("bln", "TTFF", "epoch"), ("bln", "FTTF", "never"), ("ln", "--FF", "epoch"), ("bn", "TT--", "never")], 2),
)
def test_its_weights_are_those_of_fine_tune_from_the_network_without(method, code, refresh, environment):
    tune = f"configuration: {code}, epochs: 2, refresh: {refresh}"
    plain, tuned = list_planned_trial_specs(parse_study(STUDY % (method, method, tune)))
    checkpoint, before = outcome(plain, environment)
    tuned_checkpoint, after = outcome(tuned, environment)
    with use_trained_network(plain, checkpoint, environment) as loaded:
        size = plain.training.batch_size
        network = loaded.network
        batches = [
            (x, y)
            for x, y in zip(*(part.split(size) for part in loaded.data.splits[Split.TRAIN]), strict=True)
            if len(x) == size
        ]
        validation = loaded.data.splits[Split.VALIDATION]
        expected, _ = bln_search.fine_tune(
            network, code, batches, [validation], learning_rate=0.001, epochs=2, refresh=refresh
        )
    with use_trained_network(tuned, tuned_checkpoint, environment) as loaded:
        for value, other in zip(loaded.network.parameters(), expected.parameters(), strict=True):
            torch.testing.assert_close(value, other, rtol=1e-5, atol=1e-6)
    assert_recorded(code, tuned, tuned_checkpoint, before, after, environment)


def assert_recorded(code, trial, checkpoint, before, after, environment):
    """The checkpoint names the configuration with its losses, and evaluates to the same rows again."""
    losses, losses_before = (
        {str(result.key.configuration): result.loss for result in results if result.key.split is Split.VALIDATION}
        for results in (after, before)
    )
    assert checkpoint.provenance["fine_tuned_under"] == checkpoint.judged_under == code
    assert checkpoint.validation_loss == pytest.approx(losses[code], rel=1e-5)
    recorded = checkpoint.provenance["validation_loss_before_fine_tuning"]
    assert recorded == pytest.approx(losses_before[code], rel=1e-5)
    assert losses.keys() == losses_before.keys()
    repeated = reevaluate_trial(trial, checkpoint, environment, choose_reevaluation_environment(trial, checkpoint))
    assert [result.loss for result in repeated] == [result.loss for result in after]


@pytest.mark.parametrize("code", thinned(["MM--", "TT--", "MT--"], 3, start=2))
def test_memory_of_the_kept_epoch_is_where_fine_tuning_starts(code, environment):
    plain, tuned = list_planned_trial_specs(parse_study(STUDY % ("mbn", "mbn", f"configuration: {code}, epochs: 2")))
    _, before = outcome(plain, environment)
    checkpoint, after = outcome(tuned, environment)
    assert_recorded(code, tuned, checkpoint, before, after, environment)


def test_by_default_it_trains_under_the_configuration_of_lowest_validation_loss(environment):
    plain, tuned = list_planned_trial_specs(parse_study(STUDY % ("bn", "bn", "epochs: 1")))
    _, before = outcome(plain, environment)
    checkpoint, _ = outcome(tuned, environment)
    best = min((r for r in before if r.key.split is Split.VALIDATION), key=lambda r: r.loss)
    assert checkpoint.provenance["fine_tuned_under"] == str(best.key.configuration)


def test_divergence_is_the_reason_of_the_trial(environment):
    _, tuned = list_planned_trial_specs(parse_study(STUDY % ("bn", "bn", "configuration: TT--, refresh: never")))
    training = tuned.training.model_copy(update={"learning_rate": 1e-3})
    arm = tuned.arm.model_copy(
        update={"fine_tune": tuned.arm.fine_tune.model_copy(update={"learning_rate_factor": 1e300})}
    )
    sent = run(tuned.model_copy(update={"training": training, "arm": arm}), environment)
    (diverged,) = (message for message in sent if isinstance(message, TrainingDiverged))
    assert "fine-tuning" in diverged.reason
