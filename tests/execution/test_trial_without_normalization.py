"""A trial without normalization has one row on each split, and the losses of its network."""

from __future__ import annotations

import pytest
import torch
from torch.nn import functional as F

from bln_search.core.checkpoints import FolderStore
from bln_search.core.enums import ProbeKind, Split
from bln_search.execution.environment import ExecutionEnvironment
from bln_search.execution.loaded_network import use_trained_network
from bln_search.execution.messages import EvaluationDone, TrainingDone, TrialTask
from bln_search.execution.reevaluation import choose_reevaluation_environment, reevaluate_trial
from bln_search.execution.trial import iter_epochs_of_trial_task
from bln_search.specs import list_planned_trial_specs, parse_study
from bln_search.specs.sections.search import Objective

STUDY = parse_study("""
name: plain
data: {name: digits, fraction: 0.2, validation: 200}
model: {name: mlp, widths: [8]}
arms: [{method: none}]
training: {epochs: 2}
seeds: [0]
evaluation: {population: [frozen, epoch, moving], batch_sizes: [1, 25]}
probes: {batch_sizes: [4], reshuffles: 2, epochs: 1}
""")
(TRIAL,) = list_planned_trial_specs(STUDY)


def test_the_trial_is_trained_evaluated_probed_and_loaded_again(tmp_path):
    environment = ExecutionEnvironment(tmp_path, tmp_path, FolderStore(tmp_path / "checkpoints"))
    sent = []
    for _ in iter_epochs_of_trial_task(
        TrialTask(1, TRIAL, measured=(Objective.INFERENCE_SECONDS,)), environment, sent.append
    ):
        pass
    done = next(message for message in sent if isinstance(message, EvaluationDone))
    checkpoint = next(message.checkpoint for message in sent if isinstance(message, TrainingDone))
    keys = {(str(result.key.configuration), result.key.estimate) for result in done.evaluations}
    assert keys == {("----", None)}
    assert len(done.evaluations) == 4
    with use_trained_network(TRIAL, checkpoint, environment) as loaded, torch.no_grad():
        for result in done.evaluations:
            inputs, targets = loaded.data.splits[Split(result.key.split)]
            expected = F.cross_entropy(loaded.network.eval()(inputs), targets).item()
            assert result.loss == pytest.approx(expected, rel=1e-5)
    assert checkpoint.provenance["inference_seconds"] > 0
    (reshuffled,) = (probe for probe in done.probes if probe.kind is ProbeKind.RESHUFFLED)
    assert (reshuffled.flips, reshuffled.deviation) == (0, pytest.approx(0, abs=1e-6))
    repeated = reevaluate_trial(TRIAL, checkpoint, environment, choose_reevaluation_environment(TRIAL, checkpoint))
    assert [result.loss for result in repeated] == [result.loss for result in done.evaluations]
