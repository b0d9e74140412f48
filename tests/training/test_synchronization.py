"""Training steps never wait for the device, and end alike with fused normalization and without."""

from __future__ import annotations

import pytest
import torch

from bench.support.launches import CountLaunches
from bln_search.core.errors import ModelError
from bln_search.data.synthetic import make_synthetic_prepared_data
from bln_search.execution.loaded_network import build_initialized_network
from bln_search.specs import parse_study
from bln_search.specs.trial import make_representative_trial_specs
from bln_search.training import TrainingRun
from bln_search.training.seeding import reproducible_torch
from tests.support.host_waits import SynchronizationError, refuse_waits
from tests.support.tiers import latin, thinned


class ObservedTraining(TrainingRun):
    """Training whose steps must not wait for the device; `launches` are those of the last step."""

    def _iter_batch_indices(self):
        for index in super()._iter_batch_indices():
            with CountLaunches() as counter, refuse_waits():
                yield index
            self.launches = counter.launches


def make_trial(method="bln", training="fused_norms: true", model="lenet", data="mnist"):
    (trial,) = make_representative_trial_specs(
        parse_study(f"""
name: x
data: {{name: {data}}}
model: {{name: {model}}}
arms: [{{method: {method}}}]
training: {{epochs: 2, {training}}}
seeds: [0]
""")
    )
    return trial


def train(trial, run_type=TrainingRun, examples=150):
    """The run after its last epoch."""
    with reproducible_torch(0, threads=1):
        data = make_synthetic_prepared_data(trial.data, examples)
        run = run_type.of_trial(build_initialized_network(trial, data), data, trial)
        for _ in run.train_epochs():
            pass
        return run


TRAININGS = [
    "fused_norms: true",
    "",
    "optimizer: sgd, momentum: 0.9",
    "augmentation: {crop: 2, flip: true, noise: 0.1}",
]


@pytest.mark.parametrize(
    ("method", "training"), thinned(latin(["none", "bn", "ln", "bln", "mbn", "brn"], TRAININGS), 2)
)
def test_no_step_waits_for_the_device(method, training):
    run = train(make_trial(method, training), ObservedTraining)
    assert run.result.diverged is None
    assert run.launches


@pytest.mark.parametrize(
    "method", [*(pytest.param(method, marks=pytest.mark.slow) for method in ("wn", "normprop")), "ap2"]
)
def test_no_step_with_statistics_from_weights_waits_for_the_device(method):
    run = train(make_trial(method, "", "resnet8"), ObservedTraining, examples=25)
    assert run.launches


@pytest.mark.parametrize(
    "wait",
    [
        lambda x: x.sum().item(),
        lambda x: x.cpu(),
        lambda x: x.tolist(),
        lambda x: bool(x.sum() > 0),
        lambda x: x[x > 0],
        lambda x: x.nonzero(),
        lambda x: x.numpy(),
        lambda x: float(x.sum()),
    ],
)
def test_an_operation_that_waits_is_found(wait):
    with refuse_waits(), pytest.raises(SynchronizationError):
        wait(torch.ones(3))


@pytest.mark.parametrize("method", thinned(["bn", "ln", "bln", "mbn", "brn"], 2))
def test_training_with_fused_kernels_ends_where_training_without_does(method):
    runs = [train(make_trial(method, training)) for training in ("fused_norms: true", "")]
    losses = [[record.validation_loss for record in run.result.epochs] for run in runs]
    assert losses[0] == pytest.approx(losses[1], rel=1e-4)
    assert not any(layer.uses_fused_kernels for layer in runs[0].layers.values())


def test_a_gpu_without_triton_is_a_clear_error(monkeypatch):
    monkeypatch.setattr("bln_search.training.step_precision.is_triton_installed", lambda: False)
    monkeypatch.setattr(torch.Tensor, "is_cuda", True)
    with pytest.raises(ModelError, match=r"training\.fused_norms"):
        train(make_trial())
