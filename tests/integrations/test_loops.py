"""Evaluation between the epochs of a plain training loop."""

from __future__ import annotations

import gc
import weakref

import numpy as np
import pytest
import torch
from torch import nn
from torch.optim.swa_utils import AveragedModel, update_bn
from torch.utils.data import DataLoader

import bln_search
from bln_search.core.errors import DataError, ModelError
from bln_search.integrations.loops import watch
from tests.integrations.small_trainings import (
    Points,
    Stream,
    are_equal,
    code_of_section,
    make_loaders,
    make_network,
    random_numbers,
)


class _NoWatch:
    def __enter__(self):
        return self

    def __exit__(self, *_):
        pass

    def end_epoch(self):
        pass


class Once:
    """A loader of a class of its own, which reads a stream."""

    def __init__(self, stream):
        self.stream = stream

    def __iter__(self):
        return iter(DataLoader(self.stream, batch_size=10))


def train(network, loaders, watched, epochs=3):
    """Train in the context of a watch, and return all that a training leaves."""
    torch.manual_seed(1)
    np.random.seed(1)
    optimizer = torch.optim.Adam(network.parameters(), lr=0.01)
    with watched:
        for _ in range(epochs):
            for inputs, targets in loaders[0]:
                optimizer.zero_grad()
                nn.functional.cross_entropy(network(inputs), targets).backward()
                optimizer.step()
            watched.end_epoch()
    modes = [module.training for module in network.modules()]
    return network.state_dict(), optimizer.state_dict(), random_numbers(), modes, str(network)


@pytest.mark.parametrize("options", [{}, {"generator": 7}, {"num_workers": 1, "persistent_workers": True}])
def test_the_training_is_bit_for_bit_that_without_evaluation(options):
    def run(is_watched):
        if "generator" in options:
            options["generator"] = torch.Generator().manual_seed(7)
        network, loaders = make_network(), make_loaders(**options)
        return train(network, loaders, watch(network, *loaders, every=1, check=True) if is_watched else _NoWatch())

    assert are_equal(run(is_watched=False), run(is_watched=True))


def test_a_network_of_bln_layers_trains_on_with_its_mini_batch_sizes():
    def run(is_watched):
        loaders = make_loaders()
        network = bln_search.convert(make_network())
        state = train(network, loaders, watch(network, *loaders, every=1) if is_watched else _NoWatch())
        assert network[1].batch_size is None
        return state

    assert are_equal(run(is_watched=False), run(is_watched=True))


def test_a_stream_of_training_data_is_read_on_where_the_training_was():
    def run(is_watched):
        network, validation = make_network(), make_loaders()[1]
        loaders = DataLoader(Stream(Points(60, 1), 50), batch_size=10), validation
        return train(network, loaders, watch(network, *loaders, every=1) if is_watched else _NoWatch())

    assert are_equal(run(is_watched=False), run(is_watched=True))


def test_history_has_the_gap_of_each_epoch_and_the_table_is_of_the_end():
    network, loaders = make_network(), make_loaders()
    watched = watch(network, *loaders, every=2)
    train(network, loaders, watched)
    assert [metrics["epoch"] for metrics in watched.history] == [2, 3]
    assert watched.gaps.keys() == {2, 3}
    last = watched.history[-1]
    assert last["evaluation_gap"] == pytest.approx(last["in_use_loss"] - last["mini_batch_loss"])
    assert last["in_use_loss"] == pytest.approx(plain_loss(network, loaders[1]), abs=1e-6)
    assert last["recommended_loss"] == watched.ranked.recommended.row.metrics["validation"].loss.mean


def plain_loss(network, loader):
    """The mean loss in evaluation mode."""
    modes = [(module, module.training) for module in network.modules()]
    network.eval()
    with torch.no_grad():
        losses = torch.cat([nn.functional.cross_entropy(network(x), y, reduction="none") for x, y in loader])
    for module, mode in modes:
        module.training = mode
    return losses.mean().item()


def test_the_end_is_not_evaluated_again_after_an_evaluated_epoch():
    network, loaders = make_network(), make_loaders()
    watched = watch(network, *loaders, every=1)
    train(network, loaders, watched, epochs=2)
    assert len(watched.history) == 2


@pytest.mark.parametrize("convert", [False, True])
def test_the_recommended_configuration_is_applied_at_the_end(convert):
    network, loaders = make_network(), make_loaders()
    if convert:
        network = bln_search.convert(network)
    watched = watch(network, *loaders, apply=True)
    train(network, loaders, watched)
    assert watched.error is None
    assert plain_loss(network, loaders[1]) == pytest.approx(watched.history[-1]["recommended_loss"], abs=1e-6)


def test_an_applied_network_trains_on():
    network, loaders = make_network(), make_loaders()
    train(network, loaders, watch(network, *loaders, apply=True))
    watched = watch(network, *loaders, every=1, apply=True)
    train(network, loaders, watched)
    assert watched.error is None
    assert plain_loss(network, loaders[1]) == pytest.approx(watched.history[-1]["recommended_loss"], abs=1e-6)


def test_an_error_of_the_loop_comes_through_without_an_evaluation():
    network, loaders = make_network(), make_loaders()
    watched = watch(network, *loaders)
    with pytest.raises(ZeroDivisionError), watched:
        raise ZeroDivisionError
    assert watched.ranked is None


def test_several_conditions_have_metrics_of_their_own():
    network, (training, validation) = make_network(), make_loaders()
    noisy = DataLoader(Points(40, 3), batch_size=10)
    watched = watch(network, training, {"clean": validation, "noisy": noisy}, check=True, apply=True)
    train(network, (training, validation), watched)
    assert {"clean/recommended_loss", "noisy/evaluation_gap"} <= watched.history[-1].keys()
    assert [condition.name for condition in watched.report.check.conditions] == ["noisy"]


def test_a_network_without_normalization_is_reported_at_the_start_and_trains():
    network, loaders = nn.Sequential(nn.Linear(6, 2)), make_loaders()
    watched = watch(network, *loaders, every=1, apply=True)
    with pytest.warns(UserWarning, match="cannot evaluate this network; the training goes on .*no BatchNorm or Layer"):
        watched.__enter__()
    assert not watched.is_due(1)
    with pytest.warns(UserWarning, match="cannot evaluate"):
        train(network, loaders, watched)
    assert watched.history == []
    assert isinstance(watched.error, ModelError)


def test_a_failing_evaluation_is_a_warning_or_an_error_as_asked():
    def fail(model, inputs):
        raise RuntimeError("no forward")

    network, loaders = make_network(), make_loaders()
    with pytest.warns(UserWarning, match=r"could not evaluate .* after epoch 1;|cannot evaluate this .*no forward"):
        train(network, loaders, watch(network, *loaders, forward=fail), epochs=1)
    with pytest.raises(DataError, match="no forward"):
        train(network, loaders, watch(network, *loaders, forward=fail, on_error="raise"), epochs=1)
    assert not any(isinstance(module, bln_search.BN) for module in network.modules())


def test_what_would_fail_at_the_end_is_an_error_at_the_start():
    network, loaders = make_network(), make_loaders(num_workers=1)
    with (
        pytest.raises(DataError, match="targets"),
        watch(network, *loaders, target=lambda batch: None, on_error="raise"),
    ):
        pytest.fail("the training has begun")
    assert network.training


def test_nothing_is_read_at_the_start_where_it_would_be_missing_later():
    network, stream = make_network(), Stream(Points(60, 1), 50)
    with watch(network, Once(stream), make_loaders()[1], on_error="raise"):
        assert stream.position == 0
        stream.position = 1


def test_a_network_that_diverged_leaves_the_training_as_it_is():
    network, loaders = make_network(), make_loaders()
    with torch.no_grad():
        network[4].weight.fill_(torch.nan)
    watched = watch(network, *loaders, every=1, apply=True)
    with pytest.warns(
        UserWarning, match="could not choose a configuration; .*40 of 40 examples is not a finite number"
    ):
        train(network, loaders, watched)
    assert all(metrics.keys() == {"epoch"} for metrics in watched.history)


def test_an_averaged_network_is_evaluated_with_its_averages():
    network, loaders = make_network(), make_loaders()
    average = AveragedModel(network, use_buffers=True)
    watched = watch(average, *loaders)
    with watched:
        for inputs, targets in loaders[0]:
            nn.functional.cross_entropy(network(inputs), targets).backward()
            average.update_parameters(network)
    assert watched.history[-1]["in_use_loss"] == pytest.approx(plain_loss(average, loaders[1]), abs=1e-6)


def test_statistics_that_are_measured_again_after_the_last_epoch_are_evaluated():
    network, loaders = make_network(), make_loaders()
    with watch(network, *loaders, every=1) as watched:
        watched.end_epoch()
        update_bn(loaders[0], network)
    assert len(watched.history) == 2
    assert watched.history[-1]["in_use_loss"] == pytest.approx(plain_loss(network, loaders[1]), abs=1e-6)


@pytest.mark.filterwarnings("ignore:Lazy modules are a new feature")
def test_a_lazy_network_is_evaluated_as_soon_as_it_has_layers():
    network, loaders = nn.Sequential(nn.LazyLinear(8), nn.LazyBatchNorm1d(), nn.LazyLinear(2)), make_loaders()
    watched = watch(network, *loaders, every=1)
    with watched:
        assert not watched.is_due_at_end(network)
    with watched:
        network(loaders[0].dataset.x)
        watched.end_epoch()
    assert [metrics["epoch"] for metrics in watched.history] == [1]


@pytest.mark.slow  # it imports the compiler
def test_a_compiled_network_keeps_its_program():
    def run(is_watched):
        network, loaders = make_network(), make_loaders()
        compiled = torch.compile(network, backend="eager")
        return train(compiled, loaders, watch(compiled, *loaders, every=1) if is_watched else _NoWatch())

    assert are_equal(run(is_watched=False), run(is_watched=True))


@pytest.mark.parametrize(
    ("change", "error", "message"),
    [
        ({"every": 0}, ValueError, "every is a number of epochs of at least 1"),
        ({"every": True}, ValueError, "every is a number"),
        ({"every": 1.5}, ValueError, "every is a number"),
        ({"on_error": "ignore"}, ValueError, 'on_error is "warn" or "raise"'),
        ({"score": "crossentropy"}, ValueError, "there is no score 'crossentropy'"),
        ({"losses": "mse"}, TypeError, "losses is no argument of evaluate_configurations"),
        ({"train_loader": iter([])}, DataError, "which can be read once, and training and evaluation read it"),
        ({"validation_loader": []}, DataError, "validation_loader yields no mini-batch"),
        ({"validation_loader": None}, DataError, "validation_loader has the type NoneType"),
        ({"validation_loader": {}}, ValueError, "validation_loader names no condition"),
        ({"validation_loader": {"a b": make_loaders()[1]}}, ValueError, "'a b' is not the name of a condition"),
        ({"network": "network"}, ModelError, "is not a torch.nn.Module|str"),
    ],
)
def test_a_wrong_argument_is_an_error_before_the_training(change, error, message):
    training, validation = make_loaders()
    arguments = {"network": make_network(), "train_loader": training, "validation_loader": validation} | change
    with pytest.raises(error, match=message):
        watch(**arguments)


def test_an_error_keeps_no_mini_batch_in_memory():
    network, loaders, seen = make_network(), make_loaders(), []

    def fail(model, inputs):
        seen.append(weakref.ref(inputs[0]))
        raise RuntimeError("no forward")

    watched = watch(network, *loaders, forward=fail)
    with pytest.warns(UserWarning, match="could not evaluate|cannot evaluate"):
        train(network, loaders, watched, epochs=1)
    gc.collect()
    assert isinstance(watched.error.__cause__, RuntimeError)
    assert seen
    assert not any(inputs() is not None for inputs in seen)


def test_a_check_of_a_network_without_running_statistics_is_reported_at_the_start():
    network = nn.Sequential(nn.Linear(6, 8), nn.LayerNorm(8), nn.Linear(8, 2))
    with (
        pytest.raises(ModelError, match="nothing to check"),
        watch(network, *make_loaders(), check=True, on_error="raise"),
    ):
        pass


def test_the_code_of_the_page_runs_as_it_stands(capsys):
    model, (train_loader, validation_loader) = make_network(), make_loaders()
    optimizer = torch.optim.SGD(model.parameters(), 0.01)
    names = {"model": model, "train_loader": train_loader, "validation_loader": validation_loader}
    exec(code_of_section("Plain training loops"), names | {"optimizer": optimizer, "torch": torch})
    assert "Recommended:" in capsys.readouterr().out
