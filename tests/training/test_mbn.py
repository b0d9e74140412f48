"""Training with MBN: the memory, and the schedule of its weight."""

from __future__ import annotations

import torch
from torch import nn

from bln_search.core.enums import PopulationEstimate
from bln_search.norms.network.layers import get_norms_by_name
from bln_search.specs import ArmSpec, TrainingSpec
from bln_search.training import TrainingRun
from tests.training.builders import build_network, epoch_figures, train_network


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
                lambdas.append(next(iter(get_norms_by_name(self).values())).lambda_)
            return self.inner(x)

    arm = ArmSpec(method="mbn", lambda_={0: 0.1, 0.5: 0.9})
    TrainingRun(Recording(), data, TrainingSpec(epochs=2), arm, seed=0).train()
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
    present_memory = get_norms_by_name(network)["layers.3"].moments_by_estimate_from_history()[
        PopulationEstimate.MEMORY
    ]
    assert torch.equal(present_memory.batch.mean, shorter_mean)
