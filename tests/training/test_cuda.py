"""On a GPU: training steps never wait for it, and fused normalization equals that of the layers."""

from __future__ import annotations

import dataclasses
import warnings
from contextlib import contextmanager

import pytest
import torch

from bln_search.data.synthetic import make_synthetic_prepared_data
from bln_search.execution.loaded_network import build_initialized_network
from bln_search.norms.fused import operators, torch_kernels
from bln_search.norms.fused.layout import FusedLayout
from bln_search.norms.fused.operators import is_triton_installed
from bln_search.norms.fused.terms import FusedTerms, HistoryKind, HistoryTerm
from bln_search.training import TrainingRun
from bln_search.training.seeding import reproducible_torch
from bln_search.training.stacked.training import StackedTraining
from tests.training.test_synchronization import make_trial

pytestmark = pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
needs_triton = pytest.mark.skipif(not is_triton_installed(), reason="needs Triton, which comes with torch for GPUs")


class RefusingWaits(TrainingRun):
    """Training in which a step that waits for the GPU is an error."""

    def _iter_batch_indices(self):
        for index in super()._iter_batch_indices():
            with refused_waits():
                yield index


@contextmanager
def refused_waits():
    """An operation that waits for the GPU is an error in this context, as far as torch detects it."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Synchronization debug mode is a prototype", UserWarning)
        torch.cuda.set_sync_debug_mode("error")
    try:
        yield
    finally:
        torch.cuda.set_sync_debug_mode("default")


def train(trial, device, run_type=TrainingRun):
    """The validation loss of each epoch."""
    with reproducible_torch(0, threads=1):
        data = make_synthetic_prepared_data(trial.data, 150, device)
        run = run_type.of_trial(build_initialized_network(trial, data).to(device), data, trial)
        return [record.validation_loss for record in run.train_epochs()]


METHODS = ["bn", "ln", "bln", "mbn", "brn"]
TRAININGS = ["", pytest.param("fused_norms: true", marks=needs_triton)]


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("training", TRAININGS)
def test_training_ends_where_it_does_on_cpu(method, training):
    trial = make_trial(method, training)
    assert train(trial, "cuda") == pytest.approx(train(trial, "cpu"), rel=1e-2)


@pytest.mark.parametrize("method", ["none", "bn", "ln", "bln"])
@pytest.mark.parametrize("training", [*TRAININGS, "augmentation: {crop: 2, flip: true, noise: 0.1}"])
def test_no_step_waits_for_the_gpu(method, training):
    assert len(train(make_trial(method, training), "cuda", RefusingWaits)) == 2


HISTORIES = [HistoryTerm(), HistoryTerm(HistoryKind.MEMORY, None, 0.3, between_variance=True)]
HISTORIES.append(HistoryTerm(HistoryKind.AVERAGES, None, r_max=1.5, d_max=0.7))


@needs_triton
@pytest.mark.parametrize("history", HISTORIES)
@pytest.mark.parametrize("shape", [(25, 84, 1), (25, 6, 196), (128, 64, 1024), (3, 130, 1), (7, 2048, 49)])
@pytest.mark.parametrize("whole_layer", [False, True])
def test_kernels_equal_those_of_torch_in_double_precision(history, shape, whole_layer):
    torch.manual_seed(0)
    layout = FusedLayout(*shape, whole_layer)
    x, grad = (torch.randn(shape, device="cuda") * 2 + 3 for _ in range(2))
    weight, bias, *values = (torch.randn(shape[1], device="cuda") for _ in range(4))
    values = torch.stack([values[0], values[1].abs() + 0.5])
    feature_weight = 0.4 if history.kind is HistoryKind.NONE else None
    terms = FusedTerms(1e-4, 0.7, feature_weight, 1.0, history)
    exact = compute(*(tensor.double() for tensor in (x, grad, weight, bias, values)), layout, terms)
    for result, true in zip(compute(x, grad, weight, bias, values, layout, terms), exact, strict=True):
        torch.testing.assert_close(result.double(), true, rtol=1e-4, atol=1e-5 * float(true.abs().max().clamp(min=1)))


def compute(x, grad, weight, bias, values, layout, terms):
    if terms.history.kind is not HistoryKind.NONE:
        terms = dataclasses.replace(terms, history=dataclasses.replace(terms.history, values=values))
    numbers = layout.as_numbers, terms.as_numbers
    batch = operators.batch_statistics(x, terms.history.values, *numbers)
    assert batch.shape == (len(torch_kernels.BatchStatisticIndex), layout.channels)
    output, feature = operators.normalize(x, weight, bias, batch, *numbers)
    sums = operators.gradient_sums(grad, x, weight, batch, feature, *numbers)
    return batch, output, sums, operators.input_gradient(grad, x, weight, batch, feature, sums, *numbers)


def train_together(device, method="bln", model="lenet", *, records_steps):
    """The records of the epochs of three runs that are trained as one program."""
    trial = make_trial(method, "", model, data="cifar10" if model == "resnet8" else "mnist")
    with reproducible_torch(0, threads=1):
        data = make_synthetic_prepared_data(trial.data, 400, device)
        runs = [TrainingRun.of_trial(build_initialized_network(trial, data).to(device), data, trial) for _ in range(3)]
        trainings = [run.train_epochs_announcing_each() for run in runs]
        stacked = StackedTraining(runs, records_steps=records_steps)
        for _ in range(2):
            for training in trainings:
                next(training)
            stacked.train_epoch()
            for training in trainings:
                next(training)
        return [(record.training_loss, record.validation_loss) for run in runs for record in run.result.epochs]


@pytest.mark.parametrize("model", ["mlp", "lenet", "resnet8"])
@pytest.mark.parametrize("method", ["none", *METHODS])
def test_runs_trained_as_one_program_end_where_they_do_on_cpu(method, model):
    on_gpu = train_together("cuda", method, model, records_steps=False)
    for losses, expected in zip(on_gpu, train_together("cpu", method, model, records_steps=False), strict=True):
        assert losses == pytest.approx(expected, rel=1e-2)


@pytest.mark.parametrize("model", ["mlp", "lenet", "resnet8"])
@pytest.mark.parametrize("method", ["none", *METHODS])
def test_a_recorded_step_gives_what_the_step_gives(method, model):
    """Bit for bit; steps with a memory or running averages are not recorded."""
    recorded = train_together("cuda", method, model, records_steps=True)
    assert recorded == train_together("cuda", method, model, records_steps=False)
