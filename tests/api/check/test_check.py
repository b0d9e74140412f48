"""`check` names the cause of a worse evaluation mode, its verdict, and leaves the network alone."""

from __future__ import annotations

import copy

import pytest
import torch
from torch import nn
from torch.optim.swa_utils import AveragedModel

import bln_search
from bln_search.core.enums import Split
from bln_search.core.errors import DataError, ModelError
from bln_search.ranking.network_check import Cause, CheckVerdict, Variant
from tests.api.check.networks import loaders, make_data, make_network, train


def norms(network):
    return [module for module in network.modules() if isinstance(module, nn.BatchNorm1d)]


def check(network, *, training=32, validation=30, change=None, **options):
    return bln_search.check(network, *loaders(training, validation, change), progress=False, **options)


def effective(report):
    return [finding.cause for finding in report.findings if finding.has_effect]


def test_a_healthy_network_is_left_alone(network):
    report = check(network)
    assert (report.verdict, report.chosen, effective(report)) == (CheckVerdict.KEEP, Variant.DEPLOYED, [])


def test_the_network_is_not_changed(network):
    norms(network)[0].train()
    before = {name: value.clone() for name, value in network.state_dict().items()}
    modes = [module.training for module in network.modules()]
    momenta = [norm.momentum for norm in norms(network)]
    check(network, at=[1, 7])
    assert all(torch.equal(value, before[name]) for name, value in network.state_dict().items())
    assert modes == [module.training for module in network.modules()]
    assert momenta == [norm.momentum for norm in norms(network)]


def test_losses_are_those_of_plain_passes(network):
    _, validation = loaders()
    report = check(network)
    with torch.no_grad():
        inputs, classes = validation.dataset.tensors
        deployed = nn.functional.cross_entropy(network(inputs), classes).item()
        accuracy = (network(inputs).argmax(1) == classes).double().mean().item()
        for norm in norms(network):
            norm.train()
        losses = [nn.functional.cross_entropy(network(x), y, reduction="sum") for x, y in validation]
    assert report.check.deployed.loss == pytest.approx(deployed, rel=1e-6)
    assert report.check.deployed.accuracy == pytest.approx(accuracy)
    assert report.check.find(Variant.MINI_BATCH).loss == pytest.approx(sum(losses).item() / 300, rel=1e-6)


def _with_dropout_on():
    network = train(make_network(dropout=0.6))
    network[3].train()
    return network


def _with_nan():
    network = train(make_network())
    norms(network)[1].running_var[2] = torch.nan
    return network


def _exchanged():
    network = train(make_network())
    first, second = norms(network)
    for name in ("running_mean", "running_var"):
        kept = getattr(first, name).clone()
        getattr(first, name).copy_(getattr(second, name))
        getattr(second, name).copy_(kept)
    return network


def _stale():
    network = train(make_network())
    with torch.no_grad():
        network[0].weight.mul_(3)
        network[0].bias.add_(2)
    return network


PLANTED = {
    Cause.MOMENTUM_ZERO: lambda: train(make_network(momentum=0.0)),
    Cause.FEW_UPDATES: lambda: train(make_network(momentum=0.001)),
    Cause.RANDOMNESS: _with_dropout_on,
    Cause.NOT_FINITE: _with_nan,
    Cause.EXCHANGED_STATISTICS: _exchanged,
    Cause.STALE_STATISTICS: _stale,
}


@pytest.mark.parametrize("cause", PLANTED)
def test_a_planted_cause_comes_first_and_its_remedy_is_chosen(cause):
    report = check(PLANTED[cause](), margin=0.0)
    assert (report.findings[0].cause, report.verdict) == (cause, CheckVerdict.CHANGE)
    assert report.findings[0].has_effect
    assert report.chosen is report.findings[0].variant


def test_other_preprocessing_of_validation_is_found(network):
    report = check(network, change=lambda x: 0.2 * x + 3)
    assert (report.findings[0].cause, report.chosen) == (Cause.OTHER_PREPROCESSING, Variant.RESCALED_INPUTS)


def test_a_changed_epsilon_is_found():
    network = make_network()
    with torch.no_grad():
        network[0].weight.mul_(0.01)
        network[0].bias.zero_()
    network[0].requires_grad_(False)
    train(network)
    norms(network)[0].eps *= 1000
    assert Cause.CHANGED_EPSILON in effective(check(network))


@pytest.mark.parametrize("is_frozen", [False, True])
def test_layers_in_training_mode_are_found_and_frozen_ones_named_so(network, is_frozen):
    for norm in norms(network):
        norm.train()
        norm.requires_grad_(not is_frozen)
    cause = Cause.FROZEN_LAYERS_IN_TRAINING_MODE if is_frozen else Cause.LAYERS_IN_TRAINING_MODE
    report = check(network, validation=3)
    assert (report.findings[0].cause, report.chosen) == (cause, Variant.EVALUATION_MODE)
    assert Cause.BATCH_DEPENDENCE in [finding.cause for finding in report.findings]


def test_a_network_in_training_mode_is_checked_in_evaluation_mode(network):
    deployed = check(network).check.deployed.loss
    assert check(network.train()).check.deployed.loss == deployed
    assert network.training


def test_copies_with_other_statistics_are_found(network):
    other = copy.deepcopy(network)
    assert not [f for f in check(network, copies=[other]).findings if f.cause is Cause.COPIES_DIFFER]
    norms(other)[0].running_mean.add_(1)
    (found,) = [f for f in check(network, copies=[other]).findings if f.cause is Cause.COPIES_DIFFER]
    assert found.layers == ("1",)


def test_a_layer_that_is_not_used_is_a_note(network):
    network.spare = nn.BatchNorm1d(4)

    class Branched(nn.Module):
        def __init__(self):
            super().__init__()
            self.network, self.spare = network, nn.BatchNorm1d(4)

        def forward(self, x):
            return nn.Sequential.forward(self.network[:8], x)

    report = check(Branched().eval())
    assert report.verdict is CheckVerdict.KEEP
    assert [f.layers for f in report.findings if f.cause is Cause.UNUSED_LAYERS] == [("network.spare", "spare")]


def test_an_average_of_weights_is_unwrapped_and_named(network):
    average = AveragedModel(network)
    for seed in (1, 2, 3):
        train(network, epochs=2, rate=0.4, seed=seed)
        average.update_parameters(network)
    report = check(average.eval())
    assert report.check.network == "Sequential"
    assert report.findings[0].cause is Cause.STALE_STATISTICS


def test_mini_batch_sizes_of_at_are_measured(network):
    report = check(network, at=[2, 60])
    sizes = {row.batch_size for row in report.check.variants if row.variant is Variant.MINI_BATCH}
    assert sizes == {30, 2, 60, 32}


def test_without_training_data_statistics_come_from_validation_inputs():
    _, validation = loaders()
    report = bln_search.check(_stale(), None, validation, progress=False)
    assert report.check.training_examples == 0
    assert report.chosen is Variant.RE_ESTIMATED_ON_VALIDATION


def test_batch_mates_change_outputs_with_mini_batch_statistics_alone(network):
    (found,) = check(network).check.dependence
    assert found.variant is Variant.MINI_BATCH
    assert 0 < found.mean_change <= found.largest_change


def test_a_layer_without_statistics_is_a_batch_dependence():
    network = make_network()
    network[5] = nn.BatchNorm1d(16, track_running_stats=False)
    report = check(train(network))
    (found,) = [f for f in report.findings if f.cause is Cause.BATCH_DEPENDENCE]
    assert found.layers == ("5",)


def test_the_report_is_a_table_a_page_and_a_card(network, tmp_path):
    report = check(network)
    assert len(report.to_frame()) == len(report.check.variants)
    report.to_html(tmp_path / "report.html")
    report.save(tmp_path / "report.json")
    assert "Leave it alone" in (tmp_path / "report.html").read_text()
    assert type(report.check).model_validate_json((tmp_path / "report.json").read_text()) == report.check
    assert "model-index" in report.model_card(name="net", data="synthetic")


def test_the_ranked_table_is_saved_and_submitted_like_any_other(network, tmp_path):
    report = check(network, at=[2])
    report.ranked.save(tmp_path / "check.safetensors")
    loaded = bln_search.load_ranked(tmp_path / "check.safetensors")
    assert loaded.as_is.row.metrics[Split.VALIDATION].loss.mean == pytest.approx(report.check.deployed.loss)
    results = loaded.to_external_results("check-of-a-network")
    assert {(str(each.configuration), each.batch_size) for each in results.evaluations} == {
        ("TT--", 30),
        ("FF--", 30),
        ("FF--", 2),
        ("FF--", 32),
    }


def test_other_networks_and_data_are_one_clear_error(network):
    train_loader, validation = loaders()
    with pytest.raises(ModelError, match="running statistics"):
        bln_search.check(nn.Linear(10, 3), train_loader, validation)
    with pytest.raises(ModelError, match="class"):
        bln_search.check(nn.Linear, train_loader, validation)
    with pytest.raises(DataError, match="validation_loader"):
        bln_search.check(network, train_loader, [make_data()[0][:30]])
    with pytest.raises(DataError, match="one example"):
        bln_search.check(network, [make_data()[0][:1]], validation, progress=False)
    with pytest.raises(ValueError, match="margin"):
        bln_search.check(network, train_loader, validation, margin=-1)
    with pytest.raises(ModelError, match="copies"):
        bln_search.check(network, train_loader, validation, copies=[nn.BatchNorm1d(3)], progress=False)
