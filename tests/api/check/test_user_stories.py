"""The jobs that people have with the statistics of normalization layers, each in at most five lines."""

from __future__ import annotations

import copy
from itertools import chain

import pytest
import torch
from torch import nn
from torch.nn.utils import prune
from torch.optim.swa_utils import AveragedModel
from torch.utils.data import DataLoader

import bln_search
from bln_search.ranking.network_check import Cause, CheckVerdict, Variant
from tests.api.check.networks import loaders, make_data, make_network, train


@pytest.fixture
def model(trained):
    return copy.deepcopy(trained)


TRAIN, VALIDATION = loaders()


def check(*arguments, **options):
    return bln_search.check(*arguments, progress=False, **options)


def recalibrate(*arguments, **options):
    return bln_search.recalibrate(*arguments, progress=False, **options)


def loss(model, loader=VALIDATION):
    inputs, classes = loader.dataset.tensors
    with torch.no_grad():
        return nn.functional.cross_entropy(model.eval()(inputs), classes).item()


def test_eval_is_far_worse_than_train():
    model = train(make_network(momentum=0.0))
    report = check(model, TRAIN, VALIDATION)
    assert report.findings[0].cause is Cause.MOMENTUM_ZERO
    model = recalibrate(model, TRAIN)
    assert loss(model) < report.check.deployed.loss


def test_fine_tuned_on_a_small_set_with_wrong_statistics(model):
    with torch.no_grad():
        model[0].bias.add_(3)
    before = loss(model)
    assert loss(recalibrate(model, TRAIN)) < before


def test_averaged_weights(model):
    averaged = AveragedModel(model)
    for seed in (1, 2):
        averaged.update_parameters(train(model, epochs=1, rate=0.5, seed=seed))
    before = loss(averaged)
    assert loss(recalibrate(averaged, TRAIN)) < before


def test_mini_batches_that_are_dictionaries(model):
    dictionaries = [{"pixels": inputs, "extra": 1} for inputs, _ in TRAIN]
    model = recalibrate(model, dictionaries, forward=lambda net, batch: net(batch["pixels"]))
    assert model[1].num_batches_tracked == len(dictionaries)


def test_is_precise_bn_worth_it(model):
    with pytest.warns(UserWarning, match="worse"):
        model, certificate = recalibrate(model, TRAIN, validation_loader=VALIDATION, certificate=True)
    assert (certificate.is_kept, loss(model)) == (False, pytest.approx(certificate.before))


def test_serve_one_to_ten_images_at_a_time(model):
    report = check(model, TRAIN, VALIDATION, at=[2, 10])
    of_mini_batch = [report.check.find(Variant.MINI_BATCH, size).loss for size in (2, 10, 30)]
    assert of_mini_batch == sorted(of_mini_batch, reverse=True)


def test_the_same_image_with_other_batch_mates(model):
    report = check(model, TRAIN, VALIDATION)
    assert Cause.BATCH_DEPENDENCE not in [finding.cause for finding in report.findings]
    assert report.check.dependence[0].largest_change > 0


def test_a_new_camera_with_unlabelled_images(model):
    _, of_camera = loaders(change=lambda x: x * 2 + 1)
    unlabelled = DataLoader(make_data(600, seed=9)[0] * 2 + 1, 32)
    report = check(model, TRAIN, of_camera, target_loader=unlabelled, margin=0.1)
    assert report.verdict is CheckVerdict.CHANGE
    assert report.check.calibration.sufficient is not None


def test_mixed_domains(model):
    _, dark = loaders(change=lambda x: x * 0.3)
    _, bright = loaders(change=lambda x: x + 2)
    report = check(model, TRAIN, VALIDATION, conditions={"dark": dark, "bright": bright})
    assert [condition.verdict for condition in report.check.conditions] == [CheckVerdict.CHANGE] * 2


def test_clients_of_federated_learning_share_statistics_by_their_size(model):
    inputs, _ = make_data()
    clients = [DataLoader(inputs[:400], 20), DataLoader(inputs[400:600] + 1, 20)]
    recalibrate(model, list(chain(*clients)))
    assert model[1].num_batches_tracked == 30


def test_subnets_of_a_pruned_network(model):
    subnets = [copy.deepcopy(model) for _ in range(2)]
    for share, subnet in zip((0.3, 0.6), subnets, strict=True):
        prune.l1_unstructured(subnet[4], "weight", share)
    losses = [loss(recalibrate(subnet, TRAIN)) for subnet in subnets]
    assert losses[0] < losses[1]


def test_quantize_then_estimate_again(model):
    with torch.no_grad():
        scale = model[4].weight.abs().max() / 2
        model[4].weight.copy_((model[4].weight / scale).round() * scale)
    before = loss(model)
    assert loss(recalibrate(model, TRAIN)) < before


def test_frozen_layers_that_training_thaws(model):
    for norm in (model[1], model[5]):
        norm.requires_grad_(False).train()
    assert check(model, TRAIN, VALIDATION).findings[0].cause is Cause.FROZEN_LAYERS_IN_TRAINING_MODE


def test_a_network_that_wants_batch_statistics_at_test(model):
    with torch.no_grad():
        model[0].weight.mul_(5)
    losses = nn.CrossEntropyLoss(reduction="none")
    report = check(model, TRAIN, VALIDATION, score=losses)
    found = report.check.find(Variant.MINI_BATCH)
    assert found.accuracy is None
    assert found.is_better()


def test_the_support_set_of_a_task_as_population(model):
    _, task = loaders(change=lambda x: x * 2 + 1)
    support = DataLoader(make_data(64, seed=5)[0] * 2 + 1, 32)
    report = check(model, TRAIN, task, target_loader=support)
    assert report.check.find(Variant.RE_ESTIMATED_ON_TARGET).is_better()


def test_ranks_with_different_statistics(model):
    rank = copy.deepcopy(model)
    rank[1].running_mean.add_(0.5)
    report = check(model, TRAIN, VALIDATION, copies=[rank])
    assert Cause.COPIES_DIFFER in [finding.cause for finding in report.findings]


def test_epsilon_changed_at_reload(model):
    model[1].eps = model[5].eps = 10.0
    report = check(model, TRAIN, VALIDATION)
    assert Cause.CHANGED_EPSILON in [finding.cause for finding in report.findings]


def test_channels_without_variance(model):
    model[1].running_var[3] = 0
    report = check(model, TRAIN, VALIDATION)
    assert [f.layers for f in report.findings if f.cause is Cause.CONSTANT_CHANNELS] == [("1",)]
