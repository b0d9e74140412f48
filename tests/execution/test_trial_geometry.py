"""A trial records the geometry of its layers after every epoch, without a change of its training."""

from __future__ import annotations

import pytest

from bln_search.core.checkpoints import FolderStore
from bln_search.core.records import GEOMETRY, LayerWeightNormAndCurvature
from bln_search.execution.environment import ExecutionEnvironment
from bln_search.execution.messages import EpochDone, TrainingDone, TrialTask
from bln_search.execution.trial import iter_epochs_of_trial_task
from bln_search.specs import list_planned_trial_specs, parse_study
from bln_search.specs.trial import TrialSpec

STUDY = """
name: geometry
data: {{name: digits, fraction: 0.2, validation: 200}}
model: {{name: mlp, widths: [8], placement: before}}
arms: [{{method: bn, population: [moving]}}]
training: {{epochs: 3, learning_rate: 0.1, optimizer: sgd, schedule: {{kind: steps, steps: {{0.5: 0.1}}}}}}
seeds: [0]
evaluation: {{population: [frozen, moving]}}
{probes}
"""


def run(trial: TrialSpec, folder) -> tuple[list[float], list[LayerWeightNormAndCurvature]]:
    """Run a trial; return the training losses by epoch and the recorded geometry."""
    environment = ExecutionEnvironment(folder, folder, FolderStore(folder / "checkpoints"))
    sent = []
    for _ in iter_epochs_of_trial_task(TrialTask(1, trial), environment, sent.append):
        pass
    losses = [message.record.training_loss for message in sent if isinstance(message, EpochDone)]
    provenance = next(message.checkpoint.provenance for message in sent if isinstance(message, TrainingDone))
    return losses, [LayerWeightNormAndCurvature(**layer) for layer in provenance[GEOMETRY]]


def test_the_geometry_is_recorded_and_training_is_the_same(tmp_path) -> None:
    (measured,) = list_planned_trial_specs(parse_study(STUDY.format(probes="probes: {geometry: 40}")))
    (plain,) = list_planned_trial_specs(parse_study(STUDY.format(probes="")))
    losses, layers = run(measured, tmp_path / "measured")
    expected, none = run(plain, tmp_path / "plain")
    assert losses == expected
    assert none == []
    assert [(layer.epoch, layer.layer) for layer in layers] == [
        (epoch, name) for epoch in (1, 2, 3) for name in ("layers.1", "layers.4")
    ]
    assert all(layer.radial_curvature < 1e-6 * layer.curvature for layer in layers if layer.layer == "layers.1")
    rates = [layer.effective_rate * layer.weight_norm**2 for layer in layers if layer.layer == "layers.4"]
    assert rates[2] / rates[0] == pytest.approx(0.1, rel=0.1)
