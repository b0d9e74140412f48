"""Training is reproducible bit for bit, keeps the selected epoch, and stops where a loss is not finite."""

from __future__ import annotations

import math

import pytest
import torch
from torch import nn
from torch.nn import functional as F

from bln_search.core.enums import PopulationEstimate, Split
from bln_search.core.errors import DataError
from bln_search.norms import make_norm
from bln_search.norms.network.layers import get_norms_by_name
from bln_search.specs import ArmSpec, TrainingSpec
from bln_search.training import TrainingRun
from bln_search.training.checkpoint import clone_weights, weights_and_buffers_by_name
from tests.support.tiers import latin
from tests.training.builders import build_network, epoch_figures, train_network


@pytest.mark.parametrize(("optimizer", "order"), latin(["adam", "sgd"], ["fixed", "shuffled"]))
def test_the_same_seed_gives_the_same_run_bit_for_bit(data, optimizer, order):
    first, repeated, other_seed = (
        train_network(data, seed=seed, optimizer=optimizer, order=order, epochs=2)[1] for seed in (0, 0, 1)
    )
    assert epoch_figures(first) == epoch_figures(repeated)
    for name, value in first.weights.items():
        assert torch.equal(value, repeated.weights[name])
    assert epoch_figures(other_seed) != epoch_figures(first)


def test_training_equals_a_plain_pytorch_loop(data):
    """Both have the same weights after the same mini-batches."""
    _, trained = train_network(data, order="fixed", epochs=2, checkpoint="last")
    plain_network = build_network()
    inputs, targets = data.splits[Split.TRAIN]
    order = torch.randperm(len(inputs), generator=torch.Generator().manual_seed(0))
    inputs, targets = inputs[order], targets[order]
    optimizer = torch.optim.Adam(plain_network.parameters(), lr=0.002, fused=True)
    for _ in range(2):
        for start in range(0, len(inputs) // 25 * 25, 25):
            optimizer.zero_grad()
            F.cross_entropy(plain_network(inputs[start : start + 25]), targets[start : start + 25]).backward()
            optimizer.step()
    for name, value in plain_network.named_parameters():
        torch.testing.assert_close(trained.weights[name], value.detach())


def test_the_kept_epoch_has_the_lowest_validation_loss(data):
    _, trained = train_network(data, learning_rate=0.05, epochs=8)
    losses = [record.validation_loss for record in trained.epochs]
    assert trained.kept_epoch == losses.index(min(losses)) + 1
    assert trained.kept_validation_loss == min(losses)
    _, last = train_network(data, learning_rate=0.05, epochs=8, checkpoint="last")
    assert last.kept_epoch == 8


def test_a_trained_network_has_the_weights_of_the_kept_epoch(data):
    network, trained = train_network(data, learning_rate=0.05, epochs=8)
    assert trained.kept_epoch < 8
    state = network.state_dict()
    assert all(torch.equal(state[name], value) for name, value in trained.weights.items())


def test_a_loss_that_is_not_finite_stops_training_with_a_reason(data):
    _, trained = train_network(data, optimizer="sgd", learning_rate=1e30, epochs=5)
    assert trained.diverged is not None
    assert len(trained.epochs) < 5


def test_a_validation_loss_that_is_not_finite_stops_training_too(data):
    """The last step of an epoch may make the weights useless while the training loss is still finite."""
    steps = len(data.splits[Split.TRAIN][0]) // 25
    large_last_step = {"kind": "steps", "steps": {(steps - 1) / steps: 1e38}}
    _, trained = train_network(data, optimizer="sgd", learning_rate=0.1, epochs=1, schedule=large_last_step)
    assert "validation loss of epoch 1" in trained.diverged


def test_the_learning_rate_follows_its_schedule(data):
    steps = {"kind": "steps", "steps": {0.5: 1e-12}}
    _, slowed = train_network(data, epochs=4, schedule=steps, checkpoint="last", order="fixed")
    _, short = train_network(data, epochs=2, checkpoint="last", order="fixed")
    for name, value in short.weights.items():
        torch.testing.assert_close(slowed.weights[name], value, atol=1e-6, rtol=1e-5)


def test_mini_batches_of_one_train_without_a_nan(data):
    network, trained = train_network(data, batch_size=1, epochs=1)
    assert trained.diverged is None
    assert all(torch.isfinite(value).all() for value in trained.weights.values())
    assert all(math.isfinite(record.validation_loss) for record in trained.epochs)
    assert all(str(layer.configuration) == "FFFF" for layer in get_norms_by_name(network).values())


def test_a_mini_batch_larger_than_the_data_is_an_error(data):
    with pytest.raises(DataError, match=r"10000 examples .* larger"):
        train_network(data, batch_size=10_000)


@pytest.mark.slow
def test_the_kept_epoch_keeps_its_running_statistics(data):
    torch.manual_seed(0)
    network = nn.Sequential(
        nn.Flatten(), nn.BatchNorm1d(64), nn.Linear(64, 16), make_norm("bln", 16), nn.Linear(16, 10)
    )
    training_run = TrainingRun(network, data, TrainingSpec(epochs=4, learning_rate=0.5), ArmSpec(method="bln"), seed=0)
    weights_by_epoch = {
        record.epoch: clone_weights(weights_and_buffers_by_name(network)) for record in training_run.train_epochs()
    }
    trained = training_run.result
    expected = weights_by_epoch[trained.kept_epoch]
    assert "1.running_var" in expected
    assert trained.weights.keys() == expected.keys()
    assert all(torch.equal(value, expected[name]) for name, value in trained.weights.items())
    assert expected["1.num_batches_tracked"] == training_run.steps * trained.kept_epoch


@pytest.mark.parametrize("estimates", [(), (PopulationEstimate.MOVING,)])
def test_epochs_on_test_are_recorded_and_change_nothing_else(data, estimates):
    arm = ArmSpec(method="bn", judged_under="TT--" if estimates else None)
    options = {"method": "bn", "arm": arm, "estimates": estimates}
    network, trained = train_network(data, epoch_splits=("validation", "test"), checkpoint="last", **options)
    _, plain = train_network(data, checkpoint="last", **options)
    assert epoch_figures(trained) == epoch_figures(plain)
    for name, value in trained.weights.items():
        assert torch.equal(value, plain.weights[name])
    assert {(record.test_loss, record.test_accuracy) for record in plain.epochs} == {(None, None)}
    assert "test_loss" not in plain.epochs[0].epoch_values_by_name
    inputs, targets = data.splits[Split.TEST]
    run = TrainingRun(network, data, TrainingSpec(), arm, seed=0, estimates=estimates)
    loss, accuracy = run._measure_loss_and_accuracy(trained.moments, Split.TEST)
    last = trained.epochs[-1]
    assert (last.epoch_values_by_name["test_loss"], last.epoch_values_by_name["test_accuracy"]) == (loss, accuracy)
    if not estimates:
        complete = len(inputs) // 25 * 25
        with torch.no_grad():
            logits = torch.cat([network.eval()(x) for x in inputs[:complete].split(25)])
        assert loss == pytest.approx(F.cross_entropy(logits, targets[:complete]).item(), rel=1e-5)
        assert accuracy == pytest.approx((logits.argmax(1) == targets[:complete]).double().mean().item())
