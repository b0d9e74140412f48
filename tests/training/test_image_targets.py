"""A regression whose targets are images: standardized pixel by pixel, trained, and evaluated in one pass."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch import nn

from bln_search.core.configuration import InferenceConfiguration
from bln_search.core.enums import Split
from bln_search.core.errors import DataError
from bln_search.core.tasks import TaskName
from bln_search.data.dataset import DataSet
from bln_search.data.prepared import prepare_data_set
from bln_search.evaluation.batches import iter_mini_batches_with_fillers
from bln_search.evaluation.one_pass import evaluate_rows_per_example
from bln_search.evaluation.row_evaluator import use_row_in_all_layers
from bln_search.norms import BN
from bln_search.norms.network.layers import compute_populations_of_layers, get_norms_by_name
from bln_search.norms.row_batching.row_tensor import InferenceRow
from bln_search.specs import DataSpec
from bln_search.specs.sections.arm import ArmSpec
from bln_search.specs.sections.task import TaskSpec
from bln_search.specs.sections.training import TrainingSpec
from bln_search.tasks.task import make_task
from bln_search.tasks.task_metrics import DimensionsAndTargetDeviation, make_metrics
from bln_search.training import TrainingRun


def make_data_set(**changes):
    """Images whose targets are their two channels, turned around."""
    images = np.random.default_rng(0).normal(1, 2, (60, 2, 4, 4)).astype(np.float32)
    parts = {"train_inputs": images[:40], "test_inputs": images[40:]}
    parts |= {"train_labels": images[:40, ::-1] * 3, "test_labels": images[40:, ::-1] * 3}
    return DataSet("images", ("red", "green"), **(parts | changes), task=TaskName.REGRESSION)


def test_losses_are_means_over_the_pixels_of_an_example():
    data = make_data_set()
    data.check()
    prepared = prepare_data_set(data, DataSpec(name="digits", validation=12))
    targets = prepared.splits[Split.TRAIN][1]
    torch.testing.assert_close(targets.mean(0), torch.zeros(2, 4, 4), atol=1e-5, rtol=0)

    torch.manual_seed(0)
    network = nn.Sequential(nn.Conv2d(2, 5, 3, padding=1), BN(5), nn.ReLU(), nn.Conv2d(5, 2, 1))
    task = make_task(TaskSpec(name=TaskName.REGRESSION))
    training = TrainingSpec(epochs=6, batch_size=4, learning_rate=0.02)
    result = TrainingRun(network, prepared, training, ArmSpec(method="bn"), seed=0, task=task).train()
    assert result.epochs[-1].validation_loss < result.epochs[0].validation_loss

    row = InferenceRow(InferenceConfiguration("FF--"), None)
    populations = compute_populations_of_layers(get_norms_by_name(network), {}, "bessel", per_slot=False)
    inputs, targets = prepared.splits[Split.TEST]
    (outcome,) = evaluate_rows_per_example(
        network.eval(), iter_mini_batches_with_fillers(inputs, targets, 4), [row], populations, score=task.score
    )
    with torch.no_grad(), use_row_in_all_layers(row, populations):
        outputs = torch.cat([network(batch) for batch in inputs.split(4)])
    np.testing.assert_allclose(outcome.losses, (outputs - targets).square().flatten(1).mean(1), rtol=1e-4)

    metric = make_metrics(
        TaskSpec(name=TaskName.REGRESSION), DimensionsAndTargetDeviation(32, prepared.target_deviation)
    )["mean_absolute_error"]
    metric.update(outputs, targets)
    deviation = prepared.target_deviation
    assert metric.compute() == pytest.approx(np.abs((outputs - targets).numpy() * deviation).mean(), rel=1e-6)


@pytest.mark.parametrize(
    "labels", [np.zeros((40, 3, 4, 4)), np.zeros((40, 2, 4, 4), np.int64), np.zeros((39, 2, 4, 4))]
)
def test_other_targets_are_one_error(labels):
    with pytest.raises(DataError, match="train_labels"):
        make_data_set(train_labels=labels).check()
