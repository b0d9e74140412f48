"""`recalibrate` stores the statistics of the present weights, and keeps the old ones where the new are worse."""

from __future__ import annotations

import copy

import numpy as np
import pytest
import torch
from torch import nn
from torch.optim.swa_utils import AveragedModel, update_bn

import bln_search
from bln_search.core.errors import DataError, ModelError
from tests.api.check.networks import loaders, make_data


def statistics(network):
    return {name: value.double() for name, value in network.state_dict().items() if "running_" in name}


def test_statistics_are_those_of_update_bn(network):
    other = copy.deepcopy(network)
    training, _ = loaders()
    update_bn(training, other)
    bln_search.recalibrate(network, training, progress=False)
    for name, value in statistics(other).items():
        torch.testing.assert_close(statistics(network)[name], value, rtol=1e-6, atol=1e-6)


def test_statistics_are_means_over_mini_batches(network):
    training, _ = loaders()
    weight, bias = (x.detach().double().numpy() for x in (network[0].weight, network[0].bias))
    means, variances = [], []
    for inputs, _ in training:
        hidden = inputs.double().numpy() @ weight.T + bias
        means.append(hidden.mean(0))
        variances.append(hidden.var(0, ddof=1))
    bln_search.recalibrate(network, training, progress=False)
    np.testing.assert_allclose(network[1].running_mean, np.mean(means, 0), rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(network[1].running_var, np.mean(variances, 0), rtol=1e-4)
    assert network[1].num_batches_tracked == len(means)


def test_nothing_else_of_the_network_changes(network):
    network[1].momentum = 0.3
    network.train()
    before = {name: value.clone() for name, value in network.named_parameters()}
    returned = bln_search.recalibrate(network, loaders()[0], progress=False)
    assert returned is network
    assert network.training
    assert network[1].momentum == 0.3
    assert all(torch.equal(value, before[name]) for name, value in network.named_parameters())


def test_a_wrapper_of_averaged_weights_stays(network):
    average = AveragedModel(network)
    average.module[1].running_mean.fill_(9)
    assert bln_search.recalibrate(average, loaders()[0], progress=False) is average
    assert average.module[1].running_mean.abs().max() < 3


def test_the_certificate_shows_what_was_gained(network):
    with torch.no_grad():
        network[0].weight.mul_(3)
    training, validation = loaders()
    _, certificate = bln_search.recalibrate(
        network, training, validation_loader=validation, certificate=True, progress=False
    )
    assert certificate.is_kept
    assert certificate.difference.high < 0
    assert certificate.after < certificate.before
    assert certificate.calibration.stages[-1].examples == certificate.examples
    inputs, classes = validation.dataset.tensors
    with torch.no_grad():
        assert certificate.after == pytest.approx(
            nn.functional.cross_entropy(network(inputs), classes).item(), rel=1e-5
        )


def test_the_certificate_says_how_many_examples_suffice(network):
    with torch.no_grad():
        network[0].weight.mul_(3)
    training, validation = loaders(training=8)
    _, certificate = bln_search.recalibrate(
        network, training, validation_loader=validation, certificate=True, margin=0.3, progress=False
    )
    assert certificate.examples == 600
    assert certificate.sufficient in [stage.examples for stage in certificate.calibration.stages[:-1]]


def test_statistics_that_harm_are_not_kept(network):
    before = statistics(network)
    inputs, _ = make_data()
    with pytest.warns(UserWarning, match="worse"):
        _, certificate = bln_search.recalibrate(
            network, [inputs[:64] * 9 + 4], validation_loader=loaders()[1], certificate=True, progress=False
        )
    assert not certificate.is_kept
    assert all(torch.equal(value, before[name]) for name, value in statistics(network).items())


def test_statistics_that_are_not_finite_are_repaired(network):
    network[1].running_mean.fill_(torch.nan)
    bln_search.recalibrate(network, loaders()[0], progress=False)
    assert network[1].running_mean.isfinite().all()


def test_bad_input_is_one_error_and_the_network_keeps_its_statistics(network):
    before = statistics(network)
    inputs, _ = make_data()
    with pytest.raises(DataError):
        bln_search.recalibrate(network, [torch.full_like(inputs[:32], torch.nan)], progress=False)
    with pytest.raises(DataError):
        bln_search.recalibrate(network, [], progress=False)
    with pytest.raises(DataError, match="one example"):
        bln_search.recalibrate(network, [inputs[:1]], progress=False)
    with pytest.raises(ModelError):
        bln_search.recalibrate(nn.Linear(10, 3), [inputs], progress=False)
    with pytest.raises(ValueError, match="validation_loader"):
        bln_search.recalibrate(network, [inputs], certificate=True)
    assert all(torch.equal(value, before[name]) for name, value in statistics(network).items())
