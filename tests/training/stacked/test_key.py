"""Which runs are trained as one program, and what their specifications say about it."""

from __future__ import annotations

import json
from dataclasses import replace
from functools import partial

import pytest
import torch

from bln_search.core.built_in_models import BUILT_IN_MODELS
from bln_search.models import build_model
from bln_search.norms import BLN, make_norm
from bln_search.specs import list_planned_trial_specs, parse_study
from bln_search.training import TrainingRun
from bln_search.training.stacked.key import find_stacking_key, may_be_fused_with_others
from bln_search.training.stacked.network import is_stackable

STUDY = {
    "name": "keys",
    "data": {"name": "digits", "fraction": 0.3, "validation": 300},
    "model": {"name": "mlp", "widths": [8]},
    "arms": [{"method": "bln"}],
    "training": {"epochs": 2},
    "seeds": [0],
}


def make_trial(**changes):
    study = {**STUDY, **changes, "training": {**STUDY["training"], **changes.get("training", {})}}
    (trial,) = list_planned_trial_specs(parse_study(json.dumps(study)))
    return trial


def make_run(data, trial, network=None):
    norm = partial(make_norm, trial.arm.method, **trial.arm.norm_layer_options)
    options = {"widths": (8,)} if trial.model.name == "mlp" else {}
    network = network or build_model(trial.model.name, (8, 8), 10, norm, seed=trial.seed, options=options)
    return TrainingRun.of_trial(network, data, trial)


def key_of(data, trial):
    return find_stacking_key(make_run(data, trial), trial)


@pytest.mark.parametrize(
    "changes",
    [
        {"seeds": [7]},
        {"training": {"learning_rate": 0.1, "weight_decay": 0.1, "epsilon": 1e-4}},
        {"training": {"epochs": 9, "schedule": {"kind": "cosine"}, "checkpoint": "last", "order": "fixed"}},
        {"arms": [{"method": "bln", "name": "other", "judged_under": "FFFF"}]},
        {"evaluation": {"batch_sizes": [1, 5]}},
    ],
    ids=str,
)
def test_runs_may_differ_in_what_has_a_value_for_each(data, changes):
    assert key_of(data, make_trial()) == key_of(data, make_trial(**changes))


@pytest.mark.parametrize(
    "changes",
    [
        {"arms": [{"method": "bn"}]},
        {"arms": [{"method": "bln", "semantics": "reference"}]},
        {"arms": [{"method": "bln", "epsilon": 0.01}]},
        {"training": {"batch_size": 5}},
        {"training": {"optimizer": "sgd"}},
        {"evaluation": {"population": ["moving"]}},
    ],
    ids=str,
)
def test_runs_of_other_programs_have_other_keys(data, changes):
    first, second = key_of(data, make_trial()), key_of(data, make_trial(**changes))
    assert first is not None
    assert second is not None
    assert first != second


@pytest.mark.parametrize(
    "training",
    [{"fused_norms": True}, {"precision": "bf16"}, {"compile": True}, {"augmentation": {"noise": 0.1}}],
    ids=str,
)
def test_other_ways_of_computing_a_step_train_alone(data, training):
    assert key_of(data, make_trial(training=training)) is None


def test_an_interrupted_epoch_is_trained_alone(data):
    trial = make_trial()
    run = make_run(data, trial)
    run.progress.first_step = 1
    assert find_stacking_key(run, trial) is None


@pytest.mark.parametrize(
    "change",
    [
        lambda network: network.layers.append(torch.nn.Dropout(0.5)),
        lambda network: network.layers[1].weight.requires_grad_(requires_grad=False),
        lambda network: network.layers[1].register_forward_hook(lambda *_: None),
        lambda network: network.layers.append(network.layers[3]),
    ],
    ids=["dropout", "frozen", "hook", "layer used twice"],
)
def test_a_network_that_cannot_be_stacked_trains_alone(data, change):
    trial = make_trial()
    network = make_run(data, trial).network
    change(network)
    assert find_stacking_key(make_run(data, trial, network), trial) is None


def test_programs_have_one_data_set_dtype_and_kind_of_running_loss(data):
    trial = make_trial()
    key = key_of(data, trial)
    assert key != key_of(replace(data), trial)
    assert key != find_stacking_key(make_run(data, trial, make_run(data, trial).network.double()), trial)
    run = TrainingRun.of_trial(make_run(data, trial).network, data, trial, measures_running_loss=True)
    assert key != find_stacking_key(run, trial)


def test_runs_of_different_numbers_of_steps_have_different_histories(data):
    """The moving averages of BRN count the steps, so the averages of a younger run have other weights."""
    trial = make_trial(arms=[{"method": "brn"}])
    young, old = make_run(data, trial), make_run(data, trial)
    epochs = old.train_epochs_announcing_each()
    for _ in range(3):
        next(epochs)
    assert find_stacking_key(young, trial) != find_stacking_key(old, trial)


@pytest.mark.parametrize("model", [name for name, info in BUILT_IN_MODELS.items() if not info.is_recurrent])
def test_models_by_name_are_those_whose_networks_are_stackable(model):
    network = build_model(model, (3, 32, 32), 10, partial(BLN, batch_size=25), seed=0)
    trial = make_trial(data={"name": "cifar10"}, model={"name": model})
    assert may_be_fused_with_others(trial) == is_stackable(network)


@pytest.mark.parametrize("method", ["none", "bn", "ln", "bln", "mbn", "brn"])
def test_methods_that_fit(method):
    assert may_be_fused_with_others(make_trial(arms=[{"method": method}]))


@pytest.mark.parametrize(
    "changes",
    [
        {"model": {"name": "lstm"}, "data": {"name": "imdb"}},
        {"model": {"name": "resnet8"}, "data": {"name": "cifar10"}, "arms": [{"method": "wn"}]},
        {"data": {"name": "mnist_pair_digits"}},
        {"training": {"compile": True}},
        {"training": {"fused_norms": True}},
        {"training": {"precision": "bf16"}},
        {"training": {"augmentation": {"noise": 0.1}}},
    ],
    ids=json.dumps,
)
def test_specifications_that_fit_with_no_other(changes):
    assert not may_be_fused_with_others(make_trial(**changes))
