"""Populations are estimated during training, and epochs are compared under a configuration."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from bln_search.core.configuration import InferenceConfiguration
from bln_search.core.enums import PopulationEstimate, Split
from bln_search.core.errors import ModelError
from bln_search.evaluation import collect_moments_with_frozen_weights
from bln_search.norms import make_norm
from bln_search.norms.network.layers import get_norms_by_name
from bln_search.specs import ArmSpec, TrainingSpec
from bln_search.training import TrainingRun
from tests.training.builders import build_network, train_network


def test_the_epoch_estimate_is_the_mean_over_its_steps(data):
    """With a learning rate near zero, weights are constant, so the estimate equals the frozen one."""
    network, trained = train_network(
        data, learning_rate=1e-30, epochs=1, order="fixed", estimates=tuple(PopulationEstimate)
    )
    inputs, _ = data.splits[Split.TRAIN]
    order = torch.randperm(len(inputs), generator=torch.Generator().manual_seed(0))
    frozen = collect_moments_with_frozen_weights(network, inputs[order].split(25))
    assert set(trained.moments) == {PopulationEstimate.EPOCH, PopulationEstimate.MOVING}
    for name, moments in trained.moments[PopulationEstimate.EPOCH].items():
        for part, expected in zip(moments.batch.as_tuple, frozen[name].batch.as_tuple, strict=True):
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


def test_judged_under_must_fit_the_method_of_the_arm():
    with pytest.raises(ValueError, match="FF--"):
        ArmSpec(method="bn", judged_under=InferenceConfiguration("FFFF"))


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
                passes.append((torch.is_grad_enabled(), next(iter(get_norms_by_name(self).values())).records_history))
            return self.inner(x)

    recording = Recording()
    steps = len(data.splits[Split.TRAIN][0]) // 25
    trained = TrainingRun(
        recording, data, TrainingSpec(epochs=1, order="fixed"), arm, seed=0, estimates=(PopulationEstimate.MOVING,)
    ).train()
    assert passes == [(True, False), (False, True)] * steps
    moments = trained.moments[PopulationEstimate.MOVING]["inner.layers.3"]
    single_forward = TrainingRun(
        build_network(method),
        data,
        TrainingSpec(epochs=1, order="fixed"),
        ArmSpec(method=method, judged_under="FF--"),
        seed=0,
        estimates=(PopulationEstimate.MOVING,),
    ).train()
    assert not torch.equal(moments.batch.mean, single_forward.moments[PopulationEstimate.MOVING]["layers.3"].batch.mean)


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
    trained = TrainingRun(network, data, spec, arm, seed=0, estimates=() if estimate is None else (estimate,)).train()
    collected = PopulationEstimate.MEMORY if estimate is None else estimate
    assert trained.moments[collected].keys() == {"norm"}
    assert trained.diverged is None
