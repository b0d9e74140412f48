"""Training is reproducible bit for bit, keeps the selected epoch, and stops where a loss is not finite."""

from __future__ import annotations

import math
from functools import partial

import pytest
import torch
from torch import nn
from torch.nn import functional as F

from bln_search.core.configuration import InferenceConfiguration
from bln_search.core.enums import PopulationEstimate, Split
from bln_search.core.errors import DataError, ModelError
from bln_search.data import load_data
from bln_search.data.prepared import prepare_data_set
from bln_search.evaluation import collect_frozen_moments
from bln_search.models import build_model
from bln_search.norms import make_norm
from bln_search.norms.network.layers import find_norms
from bln_search.specs import ArmSpec, DataSpec, TrainingSpec
from bln_search.training import TrainingRun, train
from bln_search.training.checkpoint import copy_weights, network_weights
from bln_search.training.seeding import reproducible_torch


@pytest.fixture(scope="module")
def data():
    return prepare_data_set(load_data("digits", None), DataSpec(name="digits", fraction=0.3, validation=300))


def build_network(method="bln", batch_size=25):
    return build_model(
        "mlp", (1, 8, 8), 10, partial(make_norm, method, batch_size=batch_size), seed=0, options={"widths": (16,)}
    )


def train_network(data, *, seed=0, method="bln", arm=None, estimates=(), **options):
    spec = TrainingSpec(**{"epochs": 3, **options})
    network = build_network(method, spec.batch_size)
    with reproducible_torch(seed, threads=1):
        arm = arm or ArmSpec(method=method)
        return network, train(network, data, spec, arm, seed=seed, estimates=estimates)


def epoch_figures(trained):
    return [
        (record.epoch, record.training_loss, record.training_accuracy, record.validation_loss)
        for record in trained.epochs
    ]


@pytest.mark.parametrize("optimizer", ["adam", "sgd"])
@pytest.mark.parametrize("order", ["fixed", "shuffled"])
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


def test_training_lowers_the_validation_loss(data):
    _, trained = train_network(data, epochs=12)
    assert trained.epochs[-1].validation_accuracy > 0.85
    assert trained.epochs[-1].validation_loss < trained.epochs[0].validation_loss


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


def test_the_epoch_estimate_is_the_mean_over_its_steps(data):
    """With a learning rate near zero, weights are constant, so the estimate equals the frozen one."""
    network, trained = train_network(
        data, learning_rate=1e-30, epochs=1, order="fixed", estimates=tuple(PopulationEstimate)
    )
    inputs, _ = data.splits[Split.TRAIN]
    order = torch.randperm(len(inputs), generator=torch.Generator().manual_seed(0))
    frozen = collect_frozen_moments(network, inputs[order].split(25))
    assert set(trained.moments) == {PopulationEstimate.EPOCH, PopulationEstimate.MOVING}
    for name, moments in trained.moments[PopulationEstimate.EPOCH].items():
        for part, expected in zip(moments.batch.parts, frozen[name].batch.parts, strict=True):
            torch.testing.assert_close(part, expected, rtol=1e-5, atol=1e-6)


def test_epochs_are_compared_under_the_given_configuration(data):
    arm = ArmSpec(method="bn", judged_under="TT--", population=("moving",))
    _, by_population = train_network(data, method="bn", arm=arm, estimates=(PopulationEstimate.MOVING,), order="fixed")
    _, by_mini_batch = train_network(data, method="bn", order="fixed")
    assert [record.training_loss for record in by_population.epochs] == [
        record.training_loss for record in by_mini_batch.epochs
    ]
    assert [record.validation_loss for record in by_population.epochs] != [
        record.validation_loss for record in by_mini_batch.epochs
    ]


def test_comparing_epochs_by_an_undefined_value_is_an_error(data):
    arm = ArmSpec(method="bln", judged_under="TTFF", population=("epoch",))
    with pytest.raises(ModelError, match=r"TTFF: .* judged_under"):
        train_network(data, arm=arm, estimates=(PopulationEstimate.EPOCH,), batch_size=1, epochs=1)


def test_mini_batches_of_one_train_without_a_nan(data):
    network, trained = train_network(data, batch_size=1, epochs=1)
    assert trained.diverged is None
    assert all(torch.isfinite(value).all() for value in trained.weights.values())
    assert all(math.isfinite(record.validation_loss) for record in trained.epochs)
    assert all(str(layer.configuration) == "FFFF" for layer in find_norms(network).values())


def test_a_mini_batch_larger_than_the_data_is_an_error(data):
    with pytest.raises(DataError, match=r"10000 examples .* larger"):
        train_network(data, batch_size=10_000)


def test_judged_under_must_fit_the_method_of_the_arm():
    with pytest.raises(ValueError, match="FF--"):
        ArmSpec(method="bn", judged_under=InferenceConfiguration("FFFF"))


def memory_of(trained):
    return trained.moments[PopulationEstimate.MEMORY]


def test_mbn_without_a_memory_weight_trains_like_bn(data):
    """λ = 0 is BN bit for bit, over whole epochs."""
    bn = ArmSpec(method="bn", judged_under="FF--")
    mbn = ArmSpec(method="mbn", lambda_=0, judged_under="FF--")
    (_, plain), (_, memorized) = train_network(data, method="bn", arm=bn), train_network(data, method="mbn", arm=mbn)
    assert epoch_figures(plain) == epoch_figures(memorized)
    for name, value in plain.weights.items():
        assert torch.equal(value, memorized.weights[name])


def test_the_schedule_sets_lambda_by_training_progress(data):
    lambdas = []

    class Recording(nn.Module):
        def __init__(self):
            super().__init__()
            self.inner = build_network("mbn")

        def forward(self, x):
            if self.training:
                lambdas.append(next(iter(find_norms(self).values())).lambda_)
            return self.inner(x)

    arm = ArmSpec(method="mbn", lambda_={0: 0.1, 0.5: 0.9})
    train(Recording(), data, TrainingSpec(epochs=2), arm, seed=0)
    assert lambdas == [0.1] * (len(lambdas) // 2) + [0.9] * (len(lambdas) // 2)


def test_the_kept_epoch_keeps_its_own_memory(data):
    """The memory is that of the kept epoch, not of the end of training.

    With constant rates, a run that ends at the kept epoch equals the beginning of a longer run.
    """
    arm = ArmSpec(method="mbn", lambda_=0.5)
    _, longer = train_network(data, method="mbn", arm=arm, epochs=6, learning_rate=0.3)
    assert longer.kept_epoch < 6
    network, shorter = train_network(
        data, method="mbn", arm=arm, epochs=longer.kept_epoch, learning_rate=0.3, checkpoint="last"
    )
    _, last = train_network(data, method="mbn", arm=arm, epochs=6, learning_rate=0.3, checkpoint="last")
    kept_mean, shorter_mean, last_mean = (
        memory_of(trained)["layers.3"].batch.mean for trained in (longer, shorter, last)
    )
    assert torch.equal(kept_mean, shorter_mean)
    assert not torch.equal(kept_mean, last_mean)
    present_memory = find_norms(network)["layers.3"].history_estimates()[PopulationEstimate.MEMORY]
    assert torch.equal(present_memory.batch.mean, shorter_mean)


@pytest.mark.parametrize("method", ["bn", "brn", "mbn"])
def test_a_double_forward_records_the_pass_after_the_step(data, method):
    """Each step has two passes; the second one, after the update, is recorded."""
    arm = ArmSpec(method=method, double_forward=True, judged_under="FF--")
    passes = []

    class Recording(nn.Module):
        def __init__(self):
            super().__init__()
            self.inner = build_network(method)

        def forward(self, x):
            if self.training:
                passes.append((torch.is_grad_enabled(), next(iter(find_norms(self).values())).records_history))
            return self.inner(x)

    recording = Recording()
    steps = len(data.splits[Split.TRAIN][0]) // 25
    trained = train(
        recording, data, TrainingSpec(epochs=1, order="fixed"), arm, seed=0, estimates=(PopulationEstimate.MOVING,)
    )
    assert passes == [(True, False), (False, True)] * steps
    moments = trained.moments[PopulationEstimate.MOVING]["inner.layers.3"]
    single_forward = train(
        build_network(method),
        data,
        TrainingSpec(epochs=1, order="fixed"),
        ArmSpec(method=method, judged_under="FF--"),
        seed=0,
        estimates=(PopulationEstimate.MOVING,),
    )
    assert not torch.equal(moments.batch.mean, single_forward.moments[PopulationEstimate.MOVING]["layers.3"].batch.mean)


def test_augmented_training_is_reproducible_and_different(data):
    options = {"augmentation": {"crop": 1, "flip": True}, "epochs": 1}
    first, repeated, not_augmented = (train_network(data, **kwargs)[1] for kwargs in (options, options, {"epochs": 1}))
    assert epoch_figures(first) == epoch_figures(repeated)
    assert epoch_figures(first) != epoch_figures(not_augmented)


class WithUnusedNorm(nn.Module):
    """A network with a normalization layer that it never calls."""

    def __init__(self, method):
        super().__init__()
        self.norm, self.unused_norm = (make_norm(method, 16, batch_size=25) for _ in range(2))
        self.first, self.last = nn.Linear(64, 16), nn.Linear(16, 10)

    def forward(self, x):
        return self.last(self.norm(self.first(x.flatten(1))).tanh())


@pytest.mark.parametrize(
    ("method", "estimate"), [("bln", PopulationEstimate.EPOCH), ("bn", PopulationEstimate.MOVING), ("mbn", None)]
)
def test_an_unused_layer_has_no_population(data, method, estimate):
    network = WithUnusedNorm(method)
    spec, arm = TrainingSpec(epochs=1), ArmSpec(method=method)
    trained = train(network, data, spec, arm, seed=0, estimates=() if estimate is None else (estimate,))
    collected = PopulationEstimate.MEMORY if estimate is None else estimate
    assert trained.moments[collected].keys() == {"norm"}
    assert trained.diverged is None


@pytest.mark.slow
def test_the_kept_epoch_keeps_its_running_statistics(data):
    torch.manual_seed(0)
    network = nn.Sequential(
        nn.Flatten(), nn.BatchNorm1d(64), nn.Linear(64, 16), make_norm("bln", 16), nn.Linear(16, 10)
    )
    training_run = TrainingRun(network, data, TrainingSpec(epochs=4, learning_rate=0.5), ArmSpec(method="bln"), seed=0)
    weights_by_epoch = {record.epoch: copy_weights(network_weights(network)) for record in training_run.train_epochs()}
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
    assert "test_loss" not in plain.epochs[0].values
    inputs, targets = data.splits[Split.TEST]
    run = TrainingRun(network, data, TrainingSpec(), arm, seed=0, estimates=estimates)
    loss, accuracy = run._evaluate(trained.moments, Split.TEST)
    last = trained.epochs[-1]
    assert (last.values["test_loss"], last.values["test_accuracy"]) == (loss, accuracy)
    if not estimates:
        complete = len(inputs) // 25 * 25
        with torch.no_grad():
            logits = torch.cat([network.eval()(x) for x in inputs[:complete].split(25)])
        assert loss == pytest.approx(F.cross_entropy(logits, targets[:complete]).item(), rel=1e-5)
        assert accuracy == pytest.approx((logits.argmax(1) == targets[:complete]).double().mean().item())


def test_the_kept_epoch_is_not_selected_on_test(data):
    _, trained = train_network(data, epochs=6, learning_rate=0.05, epoch_splits=("validation", "test"))
    losses = [record.validation_loss for record in trained.epochs]
    assert trained.kept_epoch == 1 + losses.index(min(losses))
