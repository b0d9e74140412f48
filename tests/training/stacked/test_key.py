"""What the specification of a trial says about the trials that it fits together with."""

from __future__ import annotations

import json
from functools import partial

import pytest

from bln_search.core.registry import MODELS, RECURRENT_MODELS
from bln_search.models import build_model
from bln_search.norms import BLN
from bln_search.specs import list_planned_trial_specs, parse_study
from bln_search.training.stacked.key import may_fit_with_others
from bln_search.training.stacked.network import is_stackable


def make_trial(model="mlp", method="bln", data="mnist", **training):
    (trial,) = list_planned_trial_specs(
        parse_study(
            json.dumps(
                {
                    "name": "key",
                    "data": {"name": data},
                    "model": {"name": model},
                    "arms": [{"method": method}],
                    "training": training,
                    "seeds": [0],
                }
            )
        )
    )
    return trial


@pytest.mark.parametrize("model", sorted(MODELS.keys() - RECURRENT_MODELS))
def test_models_by_name_are_those_whose_networks_are_stackable(model):
    network = build_model(model, (3, 32, 32), 10, partial(BLN, batch_size=25), seed=0)
    trial = make_trial(model, data="cifar10")
    assert may_fit_with_others(trial) == is_stackable(network)


@pytest.mark.parametrize("method", ["none", "bn", "ln", "bln", "mbn", "brn"])
def test_methods_that_fit(method):
    assert may_fit_with_others(make_trial(method=method))


@pytest.mark.parametrize(
    "trial",
    [
        {"model": "lstm", "data": "imdb"},
        {"model": "allconv", "method": "wn"},
        {"model": "mlp", "data": "mnist_pair_digits"},
        {"compile": True},
        {"fused_norms": True},
        {"precision": "bf16"},
        {"augmentation": {"flip": True}},
    ],
    ids=json.dumps,
)
def test_trials_that_fit_with_no_other(trial):
    assert not may_fit_with_others(make_trial(**trial))
