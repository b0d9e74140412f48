"""A small network, trained on few images of digits."""

from __future__ import annotations

from functools import partial

from bln_search.models import build_model
from bln_search.norms import make_norm
from bln_search.specs import ArmSpec, TrainingSpec
from bln_search.training import TrainingRun
from bln_search.training.seeding import reproducible_torch


def build_network(method="bln", batch_size=25):
    return build_model(
        "mlp", (1, 8, 8), 10, partial(make_norm, method, batch_size=batch_size), seed=0, options={"widths": (16,)}
    )


def train_network(data, *, seed=0, method="bln", arm=None, estimates=(), **options):
    spec = TrainingSpec(**{"epochs": 3, **options})
    network = build_network(method, spec.batch_size)
    with reproducible_torch(seed, threads=1):
        arm = arm or ArmSpec(method=method)
        return network, TrainingRun(network, data, spec, arm, seed=seed, estimates=estimates).train()


def epoch_figures(trained):
    return [
        (record.epoch, record.training_loss, record.training_accuracy, record.validation_loss)
        for record in trained.epochs
    ]
