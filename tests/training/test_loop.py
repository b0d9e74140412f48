"""Training is repeatable bit for bit, keeps what it says it keeps, and stops where a loss is not finite."""

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
from bln_search.data.prepared import prepare
from bln_search.models import build_model
from bln_search.norms import make_norm
from bln_search.norms.network_layers import find_norms
from bln_search.specs import ArmSpec, DataSpec, TrainingSpec
from bln_search.training import TrainingRun, train
from bln_search.training.checkpoint import copied, network_weights
from bln_search.training.seeding import repeatable


@pytest.fixture(scope="module")
def data():
    return prepare(load_data("digits", None), DataSpec(name="digits", fraction=0.3, validation=300))


def network(method="bln", m=25):
    return build_model(
        "mlp", (1, 8, 8), 10, partial(make_norm, method, batch_size=m), seed=0, options={"widths": (16,)}
    )


def run(data, *, seed=0, method="bln", arm=None, estimates=(), **options):
    spec = TrainingSpec(**{"epochs": 3, **options})
    trained_network = network(method, spec.batch_size)
    with repeatable(seed, threads=1):
        arm = arm or ArmSpec(method=method)
        return trained_network, train(trained_network, data, spec, arm, seed=seed, estimates=estimates)


def figures(trained):
    return [(r.epoch, r.training_loss, r.training_accuracy, r.validation_loss) for r in trained.epochs]


@pytest.mark.parametrize("optimizer", ["adam", "sgd"])
@pytest.mark.parametrize("order", ["fixed", "shuffled"])
def test_the_same_seed_gives_the_same_run_bit_for_bit(data, optimizer, order):
    runs = [run(data, optimizer=optimizer, order=order, epochs=2)[1] for _ in range(2)]
    assert figures(runs[0]) == figures(runs[1])
    for name, value in runs[0].weights.items():
        assert torch.equal(value, runs[1].weights[name])
    assert figures(run(data, seed=1, optimizer=optimizer, order=order, epochs=2)[1]) != figures(runs[0])


def test_training_equals_a_plain_pytorch_loop(data):
    """The same weights as a bare PyTorch loop over the same mini-batches."""
    _, trained = run(data, order="fixed", epochs=2, checkpoint="last")
    plain = network()
    inputs, targets = data.splits[Split.TRAIN]
    order = torch.randperm(len(inputs), generator=torch.Generator().manual_seed(0))
    inputs, targets = inputs[order], targets[order]
    optimizer = torch.optim.Adam(plain.parameters(), lr=0.002, fused=True)
    for _ in range(2):
        for start in range(0, len(inputs) // 25 * 25, 25):
            optimizer.zero_grad()
            F.cross_entropy(plain(inputs[start : start + 25]), targets[start : start + 25]).backward()
            optimizer.step()
    for name, value in plain.named_parameters():
        torch.testing.assert_close(trained.weights[name], value.detach())


def test_training_lowers_the_validation_loss(data):
    _, trained = run(data, epochs=12)
    assert trained.epochs[-1].validation_accuracy > 0.85
    assert trained.epochs[-1].validation_loss < trained.epochs[0].validation_loss


def test_the_kept_epoch_has_the_lowest_validation_loss(data):
    _, trained = run(data, learning_rate=0.05, epochs=8)
    losses = [record.validation_loss for record in trained.epochs]
    assert trained.kept_epoch == losses.index(min(losses)) + 1
    assert trained.kept_validation_loss == min(losses)
    _, last = run(data, learning_rate=0.05, epochs=8, checkpoint="last")
    assert last.kept_epoch == 8


def test_a_loss_that_is_not_finite_stops_training_with_a_reason(data):
    _, trained = run(data, optimizer="sgd", learning_rate=1e30, epochs=5)
    assert "not a finite number" in trained.diverged
    assert len(trained.epochs) < 5


def test_a_validation_loss_that_is_not_finite_stops_training_too(data):
    """The last step of an epoch may ruin the weights while the training loss is still finite."""
    steps = len(data.splits[Split.TRAIN][0]) // 25
    late = {"kind": "steps", "steps": {(steps - 1) / steps: 1e38}}
    _, trained = run(data, optimizer="sgd", learning_rate=0.1, epochs=1, schedule=late)
    assert trained.diverged == "the validation loss of epoch 1 is not a finite number"


def test_the_learning_rate_follows_its_schedule(data):
    steps = {"kind": "steps", "steps": {0.5: 1e-12}}
    _, slowed = run(data, epochs=4, schedule=steps, checkpoint="last", order="fixed")
    _, short = run(data, epochs=2, checkpoint="last", order="fixed")
    for name, value in short.weights.items():
        torch.testing.assert_close(slowed.weights[name], value, atol=1e-6, rtol=1e-5)


def test_the_epoch_estimate_is_the_mean_over_its_steps(data):
    """One epoch at rate ~0: weights stand still, so the estimate is that of the first weights."""
    from bln_search.evaluation import collect_frozen_moments

    trained_network, trained = run(
        data, learning_rate=1e-30, epochs=1, order="fixed", estimates=tuple(PopulationEstimate)
    )
    inputs, _ = data.splits[Split.TRAIN]
    order = torch.randperm(len(inputs), generator=torch.Generator().manual_seed(0))
    frozen = collect_frozen_moments(trained_network, inputs[order].split(25))
    assert set(trained.moments) == {PopulationEstimate.EPOCH, PopulationEstimate.MOVING}
    for name, moments in trained.moments[PopulationEstimate.EPOCH].items():
        for part, expected in zip(moments.batch.parts, frozen[name].batch.parts, strict=True):
            torch.testing.assert_close(part, expected, rtol=1e-5, atol=1e-6)


def test_epochs_are_compared_under_the_given_configuration(data):
    arm = ArmSpec(method="bn", judged_under="TT--", population=("moving",))
    _, by_population = run(data, method="bn", arm=arm, estimates=(PopulationEstimate.MOVING,), order="fixed")
    _, by_mini_batch = run(data, method="bn", order="fixed")
    assert [r.training_loss for r in by_population.epochs] == [r.training_loss for r in by_mini_batch.epochs]
    assert [r.validation_loss for r in by_population.epochs] != [r.validation_loss for r in by_mini_batch.epochs]


def test_comparing_epochs_by_an_undefined_value_is_an_error(data):
    arm = ArmSpec(method="bln", judged_under="TTFF", population=("epoch",))
    with pytest.raises(ModelError, match="set judged_under to another"):
        run(data, arm=arm, estimates=(PopulationEstimate.EPOCH,), batch_size=1, epochs=1)


def test_mini_batches_of_one_train_without_a_nan(data):
    trained_network, trained = run(data, batch_size=1, epochs=1)
    assert trained.diverged is None
    assert all(torch.isfinite(value).all() for value in trained.weights.values())
    assert all(math.isfinite(record.validation_loss) for record in trained.epochs)
    assert all(str(layer.configuration) == "FFFF" for layer in find_norms(trained_network).values())


def test_a_mini_batch_larger_than_the_data_is_an_error(data):
    with pytest.raises(DataError, match="larger than the"):
        run(data, batch_size=10_000)


def test_judged_under_must_fit_the_method_of_the_arm():
    with pytest.raises(ValueError, match="write it like FF--"):
        ArmSpec(method="bn", judged_under=InferenceConfiguration("FFFF"))


def memory_of(trained):
    return trained.moments[PopulationEstimate.MEMORY]


def test_mbn_without_a_memory_weight_trains_like_bn(data):
    """λ = 0 is BN bit for bit, over whole epochs."""
    bn = ArmSpec(method="bn", judged_under="FF--")
    mbn = ArmSpec(method="mbn", lambda_=0, judged_under="FF--")
    (_, plain), (_, memorized) = run(data, method="bn", arm=bn), run(data, method="mbn", arm=mbn)
    assert figures(plain) == figures(memorized)
    for name, value in plain.weights.items():
        assert torch.equal(value, memorized.weights[name])


def test_the_schedule_sets_lambda_by_training_progress(data):
    seen = []

    class Watched(nn.Module):
        def __init__(self):
            super().__init__()
            self.inner = network("mbn")

        def forward(self, x):
            if self.training:
                seen.append(next(iter(find_norms(self).values())).lambda_)
            return self.inner(x)

    arm = ArmSpec(method="mbn", lambda_={0: 0.1, 0.5: 0.9})
    train(Watched(), data, TrainingSpec(epochs=2), arm, seed=0)
    assert seen == [0.1] * (len(seen) // 2) + [0.9] * (len(seen) // 2)


def test_the_kept_epoch_keeps_its_own_memory(data):
    """The memory stands beside the weights it belongs to, not at the end of training.

    With constant rates a training that ends at the kept epoch is the beginning of the longer one.
    """
    arm = ArmSpec(method="mbn", lambda_=0.5)
    _, longer = run(data, method="mbn", arm=arm, epochs=6, learning_rate=0.3)
    kept = longer.kept_epoch
    assert kept < 6
    network_then, shorter = run(data, method="mbn", arm=arm, epochs=kept, learning_rate=0.3, checkpoint="last")
    _, whole = run(data, method="mbn", arm=arm, epochs=6, learning_rate=0.3, checkpoint="last")
    mean, then, end = (memory_of(trained)["layers.3"].batch.mean for trained in (longer, shorter, whole))
    assert torch.equal(mean, then)
    assert not torch.equal(mean, end)
    live = find_norms(network_then)["layers.3"].history_estimates()[PopulationEstimate.MEMORY]
    assert torch.equal(live.batch.mean, then)


@pytest.mark.parametrize("method", ["bn", "brn", "mbn"])
def test_a_double_forward_records_the_pass_after_the_step(data, method):
    """The same number of steps; statistics are those of a pass of each mini-batch after its step."""
    arm = ArmSpec(method=method, double_forward=True, judged_under="FF--")
    passes = []

    class Watched(nn.Module):
        def __init__(self):
            super().__init__()
            self.inner = network(method)

        def forward(self, x):
            if self.training:
                passes.append((torch.is_grad_enabled(), next(iter(find_norms(self).values())).records_history))
            return self.inner(x)

    watched = Watched()
    steps = len(data.splits[Split.TRAIN][0]) // 25
    trained = train(
        watched, data, TrainingSpec(epochs=1, order="fixed"), arm, seed=0, estimates=(PopulationEstimate.MOVING,)
    )
    assert passes == [(True, False), (False, True)] * steps
    moments = trained.moments[PopulationEstimate.MOVING]["inner.layers.3"]
    single = train(
        network(method),
        data,
        TrainingSpec(epochs=1, order="fixed"),
        ArmSpec(method=method, judged_under="FF--"),
        seed=0,
        estimates=(PopulationEstimate.MOVING,),
    )
    assert not torch.equal(moments.batch.mean, single.moments[PopulationEstimate.MOVING]["layers.3"].batch.mean)


def test_augmented_training_is_reproducible_and_different(data):
    options = {"augmentation": {"crop": 1, "flip": True}, "epochs": 1}
    first, again, plain = (run(data, **o)[1] for o in (options, options, {"epochs": 1}))
    assert figures(first) == figures(again)
    assert figures(first) != figures(plain)


class Spare(nn.Module):
    """A network with a normalization layer that it never calls."""

    def __init__(self, method):
        super().__init__()
        self.norm, self.spare = (make_norm(method, 16, batch_size=25) for _ in range(2))
        self.first, self.last = nn.Linear(64, 16), nn.Linear(16, 10)

    def forward(self, x):
        return self.last(self.norm(self.first(x.flatten(1))).tanh())


@pytest.mark.parametrize(
    ("method", "estimate"), [("bln", PopulationEstimate.EPOCH), ("bn", PopulationEstimate.MOVING), ("mbn", None)]
)
def test_an_unused_layer_has_no_population(data, method, estimate):
    spare = Spare(method)
    spec, arm = TrainingSpec(epochs=1), ArmSpec(method=method)
    trained = train(spare, data, spec, arm, seed=0, estimates=() if estimate is None else (estimate,))
    wanted = PopulationEstimate.MEMORY if estimate is None else estimate
    assert trained.moments[wanted].keys() == {"norm"}
    assert trained.diverged is None


def test_the_kept_epoch_keeps_its_running_statistics(data):
    torch.manual_seed(0)
    mixed = nn.Sequential(nn.Flatten(), nn.BatchNorm1d(64), nn.Linear(64, 16), make_norm("bln", 16), nn.Linear(16, 10))
    run = TrainingRun(mixed, data, TrainingSpec(epochs=4, learning_rate=0.5), ArmSpec(method="bln"), seed=0)
    after = {record.epoch: copied(network_weights(mixed)) for record in run.epochs()}
    kept = after[run.trained.kept_epoch]
    assert "1.running_var" in kept
    assert run.trained.weights.keys() == kept.keys()
    assert all(torch.equal(value, kept[name]) for name, value in run.trained.weights.items())
    assert kept["1.num_batches_tracked"] == run.steps * run.trained.kept_epoch
