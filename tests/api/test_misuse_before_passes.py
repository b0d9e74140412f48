"""Wrong data and arguments are one clear error before any pass: at most the first mini-batches reach the network."""

from __future__ import annotations

import copy
from itertools import chain

import numpy as np
import pytest
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

import bln_search
from bln_search.core.errors import DataError, ModelError
from tests.api.own_network import make_loader, make_network


class Counted(nn.Module):
    """A network that counts the mini-batches that reach it."""

    def __init__(self):
        super().__init__()
        self.network, self.calls = make_network().eval(), 0

    def forward(self, x):
        self.calls += 1
        return self.network(x)


def batches(n=50, size=10, seed=0):
    return list(make_loader(n, size, seed))


def with_batch(position, change, n=50):
    """Mini-batches, one of which is changed."""
    changed = batches(n)
    changed[position] = change(*changed[position])
    return changed


def with_nan(x, y):
    x = x.clone()
    x[1, 2] = torch.nan
    return x, y


def regression(values):
    return [(x, values(len(x))) for x, _ in batches()]


TRAIN, VALIDATION = batches(), batches(seed=1)

WRONG_DATA = {
    "inputs with NaN": ((TRAIN, with_batch(0, with_nan)), {}, DataError, "validation_loader yields inputs with NaN"),
    "a population with NaN": ((with_batch(0, with_nan), VALIDATION), {}, DataError, "train_loader yields inputs"),
    "a population of NaN among several": (
        ({"source": TRAIN, "target": with_batch(0, with_nan)}, VALIDATION),
        {},
        DataError,
        r"train_loader\['target'\] yields inputs with NaN",
    ),
    "a class that does not exist": (
        (TRAIN, with_batch(0, lambda x, y: (x, y + 5))),
        {},
        DataError,
        "the network has 2 outputs: classes are numbered from 0 to 1",
    ),
    "classes as floats": ((TRAIN, [(x, y.float()) for x, y in VALIDATION]), {}, DataError, "classes are int64"),
    "classes as one-hot vectors": (
        (TRAIN, [(x, nn.functional.one_hot(y)) for x, y in VALIDATION]),
        {},
        DataError,
        "classes are int64, one for each example",
    ),
    "classes as a column": ((TRAIN, [(x, y[:, None]) for x, y in VALIDATION]), {}, DataError, "classes are int64"),
    "NaN targets": (
        (TRAIN, regression(lambda n: torch.full((n, 2), torch.nan))),
        {"score": "mse"},
        DataError,
        "targets that are NaN",
    ),
    "targets above 1": (
        (TRAIN, regression(lambda n: torch.full((n, 2), 2.0))),
        {"score": "bce"},
        DataError,
        "outside of 0 to 1",
    ),
    "fewer targets than inputs": (
        (TRAIN, [(x, y[:-1]) for x, y in VALIDATION]),
        {},
        DataError,
        "10 inputs with 9 targets",
    ),
    "targets as a list": ((TRAIN, [(x, y.tolist()) for x, y in VALIDATION]), {}, DataError, "that are tensors"),
    "arrays of numpy": ((TRAIN, [(x.numpy(), y.numpy()) for x, y in VALIDATION]), {}, DataError, "ndarray"),
    "lists in a dictionary": (
        (TRAIN, [{"x": x.tolist(), "labels": y} for x, y in VALIDATION]),
        {},
        DataError,
        "a dictionary of tensors",
    ),
    "a dictionary without labels": ((TRAIN, [{"x": x} for x, _ in VALIDATION]), {}, DataError, "none of the keys"),
    "other features": ((TRAIN, [(x[:, :3], y) for x, y in VALIDATION]), {}, DataError, r"float32 \(10, 3\)"),
    "whole numbers as inputs": ((TRAIN, [(x.byte(), y) for x, y in VALIDATION]), {}, DataError, r"uint8 \(10, 6\)"),
    "double precision": ((TRAIN, [(x.double(), y) for x, y in VALIDATION]), {}, DataError, r"float64 \(10, 6\)"),
    "other features in a population": (
        ({"source": TRAIN, "target": [x[:, :3] for x, _ in TRAIN]}, VALIDATION),
        {},
        DataError,
        r"the network failed for a mini-batch of train_loader\['target'\]",
    ),
    "a data set as population": (
        (make_loader().dataset, VALIDATION),
        {},
        DataError,
        r"train_loader yields inputs of shape \(6,\), .*DataLoader",
    ),
    "a data set as validation": ((TRAIN, make_loader().dataset), {}, DataError, "DataLoader"),
    "an empty population": ((iter(()), VALIDATION), {}, DataError, "train_loader yields no mini-batch"),
    "an empty data set": (
        (TRAIN, DataLoader(TensorDataset(torch.zeros(0, 6), torch.zeros(0, dtype=torch.long)))),
        {},
        DataError,
        "validation_loader yields no mini-batch",
    ),
    "a loader that drops its only mini-batch": (
        (DataLoader(make_loader(5).dataset, batch_size=10, drop_last=True), VALIDATION),
        {},
        DataError,
        "train_loader yields no mini-batch",
    ),
    "a mini-batch of no examples": ((TRAIN, [(torch.zeros(0, 6), torch.zeros(0).long())]), {}, DataError, "0 inputs"),
    "a mini-batch in place of a loader": (
        (TRAIN, {"x": TRAIN[0][0], "labels": TRAIN[0][1]}),
        {},
        DataError,
        r"validation_loader\['x'\]",
    ),
    "a name in place of a loader": (("cifar10", VALIDATION), {}, DataError, "train_loader must yield inputs"),
    "an empty condition": (
        (TRAIN, {"clean": VALIDATION, "noise": []}),
        {},
        DataError,
        r"validation_loader\['noise'\] yields no mini-batch",
    ),
    "wrong labels in the second condition": (
        (TRAIN, {"clean": VALIDATION, "noise": with_batch(0, lambda x, y: (x, -y - 1))}),
        {},
        DataError,
        r"validation_loader\['noise'\] yields the class -",
    ),
    "a wrong test loader": (
        (TRAIN, VALIDATION),
        {"test_loader": with_batch(0, lambda x, y: (x, y.double()))},
        DataError,
        "test_loader yields targets",
    ),
    "a mini-batch size above the data": (
        (TRAIN, VALIDATION),
        {"batch_sizes": [5, 51]},
        DataError,
        "has 51, which is larger than the data of validation_loader, 50 examples",
    ),
    "a mini-batch size above a condition": (
        (TRAIN, {"clean": VALIDATION, "noise": batches(30)}),
        {"batch_sizes": [40]},
        DataError,
        r"validation_loader\['noise'\], 30 examples",
    ),
    "a mini-batch size above the test data": (
        (TRAIN, VALIDATION),
        {"batch_sizes": [40], "test_loader": iter(batches(20))},
        DataError,
        "the data of test_loader, 20 examples",
    ),
    "a target that fails": (
        (TRAIN, VALIDATION),
        {"target": lambda batch: batch["y"]},
        DataError,
        "target= failed for a mini-batch of validation_loader",
    ),
    "a target that is no tensor": (
        (TRAIN, VALIDATION),
        {"target": lambda batch: batch[1].tolist()},
        DataError,
        "target= returns list",
    ),
    "a target of another length": (
        (TRAIN, VALIDATION),
        {"target": lambda batch: batch[1][:4]},
        DataError,
        "10 inputs with 4 targets",
    ),
    "a target of another type": (
        (TRAIN, VALIDATION),
        {"target": lambda batch: batch[1].int()},
        DataError,
        "classes are int64",
    ),
    "a forward that fails": (
        (TRAIN, VALIDATION),
        {"forward": lambda model, batch: model(batch["x"])},
        DataError,
        "forward= failed for a mini-batch",
    ),
    "a forward that returns nothing": (
        (TRAIN, VALIDATION),
        {"forward": lambda model, batch: print(end="")},
        ModelError,
        "the network returns NoneType",
    ),
    "a forward that returns a tuple without outputs": (
        (TRAIN, VALIDATION),
        {"forward": lambda model, batch: (3, model(batch[0]))},
        ModelError,
        "give forward=, which returns one tensor",
    ),
    "a forward that returns one number": (
        (TRAIN, VALIDATION),
        {"forward": lambda model, batch: model(batch[0]).sum()},
        ModelError,
        "a single number for a mini-batch",
    ),
    "a forward that drops examples": (
        (TRAIN, VALIDATION),
        {"forward": lambda model, batch: model(batch[0])[:3]},
        ModelError,
        "outputs of shape .* for 10 examples",
    ),
    "slots of a dictionary of lengths": (
        (TRAIN, VALIDATION),
        {"score": lambda outputs, targets: outputs.sum(1)[:3]},
        ModelError,
        "one loss for each of the 10 outputs",
    ),
}


@pytest.mark.parametrize("kind", WRONG_DATA)
def test_wrong_data_are_one_error_before_any_pass(kind):
    (train, validation), options, error, message = WRONG_DATA[kind]
    network = Counted()
    with pytest.raises(error, match=message):
        bln_search.evaluate_configurations(network, train, validation, **options)
    given = (train, validation, options.get("test_loader"))
    loaders = [part for data in given for part in (data.values() if isinstance(data, dict) else [data])]
    assert network.calls <= len(loaders), "the network saw more than the first mini-batch of each loader"


WRONG_ARGUMENTS = {
    "batch_sizes": [0, [0], [-4], [2.5], [True], ["4"], "4", [], {}, [None], [[4]], np.array([]), iter([4])],
    "blends": [
        0.5,
        "0.5",
        [2.0],
        [-0.1],
        [0],
        [1],
        [float("nan")],
        [float("inf")],
        [True],
        [None],
        ["N"],
        ["N0"],
        ["N-3"],
        ["Ninf"],
        ["x"],
        [[0.5]],
        {0.5},
    ],
    "memory_limit": [0, -1, 2.5, "1 GB", None, True],
    "one_pass": ["no", 0, None],
    "per_slot": ["no", 1, None],
    "correction": ["besel", None, 3],
    "score": ["accuracy", None, 3, nn.MSELoss, nn.CrossEntropyLoss(), nn.MSELoss()],
    "forward": ["logits", 3],
    "target": ["labels", 1],
    "gathered": [3, {"epoch": 3}, [1]],
    "metrics": [
        3,
        ["f1"],
        {"f1": 3},
        {"loss": max},
        {"loss_mean": max},
        {"accuracy_deviation": max},
        {" ": max},
        {1: max},
    ],
    "test_loader": [3, {"clean": VALIDATION}],
}


@pytest.mark.parametrize(
    ("argument", "position"),
    [(name, position) for name, values in WRONG_ARGUMENTS.items() for position in range(len(values))],
)
def test_wrong_arguments_are_one_error_without_a_call_of_the_network(argument, position):
    network, value = Counted(), WRONG_ARGUMENTS[argument][position]
    with pytest.raises((ValueError, TypeError, DataError)) as caught:
        bln_search.evaluate_configurations(network, TRAIN, VALIDATION, **{argument: value})
    assert network.calls == 0
    words = {"batch_sizes": "batch_sizes", "blends": "blend", "score": "reduction|score", "metrics": "metric"}
    assert caught.match(words.get(argument, argument))


NAMES = [3, "", " ", "a b", "1st", "ä", "x" * 33, "@", "a@0.1"]


@pytest.mark.parametrize("name", [*NAMES, "epoch", "moving", "memory"])
def test_impossible_names_of_populations_are_one_error_without_a_call(name):
    network = Counted()
    with pytest.raises(ValueError, match=r"population|estimate"):
        bln_search.evaluate_configurations(network, {name: TRAIN}, VALIDATION)
    assert network.calls == 0


@pytest.mark.parametrize("name", [*NAMES, "mean", "worst", "regret", "batch", "configuration", "population", "group"])
def test_impossible_names_of_conditions_are_one_error_without_a_call(name):
    network = Counted()
    with pytest.raises(ValueError, match="condition"):
        bln_search.evaluate_configurations(network, TRAIN, {name: VALIDATION})
    assert network.calls == 0


@pytest.mark.parametrize(
    ("validation", "test", "message"),
    [
        ({}, None, "names no condition"),
        ({"clean": VALIDATION, "noise": VALIDATION}, {"clean": VALIDATION}, "a test loader for each condition"),
        ({"clean": VALIDATION}, {"clean": VALIDATION, "noise": VALIDATION}, "a test loader for each condition"),
        ({"clean": VALIDATION}, VALIDATION, "a single loader"),
        (VALIDATION, {"clean": VALIDATION}, "validation_loader has none"),
    ],
)
def test_conditions_without_their_test_loader_are_one_error_without_a_call(validation, test, message):
    network = Counted()
    with pytest.raises(ValueError, match=message):
        bln_search.evaluate_configurations(network, TRAIN, validation, test_loader=test)
    assert network.calls == 0


def test_populations_without_a_name_are_one_error_without_a_call():
    network = Counted()
    with pytest.raises(ValueError, match="names no population"):
        bln_search.evaluate_configurations(network, {}, VALIDATION)
    with pytest.raises(DataError, match="train_loader"):
        bln_search.evaluate_configurations(network, [TRAIN, TRAIN], VALIDATION)
    assert network.calls == 0


SHARED = {
    "population and validation": lambda data: ((data, data), {}),
    "two populations": lambda data: (({"source": data, "target": data}, VALIDATION), {}),
    "two conditions": lambda data: ((TRAIN, {"clean": data, "noise": data}), {}),
    "validation and test": lambda data: ((TRAIN, data), {"test_loader": data}),
}


@pytest.mark.parametrize(
    "iterator", [iter, lambda data: (batch for batch in data), chain], ids=["iter", "gen", "chain"]
)
@pytest.mark.parametrize("kind", SHARED)
def test_an_iterator_given_twice_is_one_error_without_a_call(kind, iterator):
    network = Counted()
    loaders, options = SHARED[kind](iterator(batches()))
    with pytest.raises(DataError, match=r"are the same \w+, which can be read once"):
        bln_search.evaluate_configurations(network, *loaders, **options)
    assert network.calls == 0


def test_an_iterator_for_several_networks_is_one_error_without_a_call():
    networks = [Counted(), Counted()]
    with torch.no_grad():
        next(networks[1].parameters()).add_(1)
    with pytest.raises(DataError, match="train_loader is a generator, which can be read once, and 2 networks read it"):
        bln_search.evaluate_configurations(networks, (batch for batch in TRAIN), VALIDATION)
    assert [network.calls for network in networks] == [0, 0]


def test_an_exhausted_iterator_is_one_error_without_a_call():
    spent = iter(batches())
    list(spent)
    network = Counted()
    with pytest.raises(DataError, match="can be read once, and was read before"):
        bln_search.evaluate_configurations(network, TRAIN, spent)
    assert network.calls == 0


@pytest.mark.parametrize("options", [{}, {"batch_sizes": [7, 20]}])
def test_iterators_are_loaders(options):
    """They give the results of lists, also where the first mini-batches are read to count examples."""
    expected = bln_search.evaluate_configurations(make_network(), TRAIN, VALIDATION, **options)
    ranked = bln_search.evaluate_configurations(make_network(), iter(TRAIN), iter(VALIDATION), **options)
    assert ranked.to_records() == expected.to_records()


class ReadOnce:
    """A loader that is no iterator and yields nothing when it is read again."""

    def __init__(self, data):
        self.data = list(data)

    def __iter__(self):
        while self.data:
            yield self.data.pop(0)


def test_a_loader_without_mini_batches_for_the_second_network_is_one_error():
    networks = [make_network(), make_network()]
    with torch.no_grad():
        next(networks[1].parameters()).add_(1)
    with pytest.raises(DataError, match="when it is read again, for another network"):
        bln_search.evaluate_configurations(networks, TRAIN, ReadOnce(VALIDATION))


def test_a_network_that_does_not_fit_is_an_error_before_the_pass_of_another():
    networks = [Counted(), Counted()]
    networks[1].network[0] = nn.Linear(3, 8)
    with pytest.raises(DataError, match="the network failed for a mini-batch of validation_loader"):
        bln_search.evaluate_configurations(networks, TRAIN, VALIDATION)
    assert networks[0].calls <= 2


def test_a_class_that_does_not_exist_in_a_later_mini_batch_names_its_loader():
    with pytest.raises(DataError, match="validation_loader yields the class 7, the network has 2 outputs"):
        bln_search.evaluate_configurations(
            make_network(), TRAIN, with_batch(3, lambda x, y: (x, torch.full_like(y, 7)))
        )


def test_missing_values_that_the_network_replaces_are_no_error():
    class Replaces(Counted):
        def forward(self, x):
            return super().forward(x.nan_to_num())

    ranked = bln_search.evaluate_configurations(Replaces(), with_batch(0, with_nan), with_batch(0, with_nan))
    assert all(row.row.rank for row in ranked)


def test_equal_batch_sizes_are_evaluated_once():
    network = make_network()
    twice = bln_search.evaluate_configurations(network, TRAIN, VALIDATION, batch_sizes=[5, np.int64(5)])
    once = bln_search.evaluate_configurations(network, TRAIN, VALIDATION, batch_sizes=np.array([5]))
    assert twice.to_records() == once.to_records()
    assert {type(row.batch_size) for row in twice.board.rows} == {int}


def test_a_network_without_values_is_one_error():
    with pytest.raises(ModelError, match="device meta"):
        bln_search.evaluate_configurations(make_network().to("meta"), TRAIN, VALIDATION)


WRONG_SEARCHES = {
    "more folds than mini-batches": ((TRAIN, batches(20)), {"folds": 3}, DataError, "3 folds of 2 mini-batches"),
    "inputs with NaN": ((TRAIN, with_batch(0, with_nan)), {}, DataError, "validation_loader yields inputs with NaN"),
    "a late class": (
        (TRAIN, with_batch(3, lambda x, y: (x, y + 7))),
        {},
        DataError,
        "validation_loader yields the class",
    ),
    "an iterator given twice": ((TRAIN, iter(VALIDATION)), {}, DataError, "are the same"),
    "other features": ((TRAIN, [(x[:, :3], y) for x, y in VALIDATION]), {}, DataError, r"float32 \(10, 3\)"),
    "other groups": ((TRAIN, VALIDATION), {"groups": {"a": ["layer9"]}}, ModelError, "layer9"),
    "no memory": ((TRAIN, VALIDATION), {"memory_limit": 0}, ValueError, "memory_limit"),
}


@pytest.mark.parametrize("kind", WRONG_SEARCHES)
def test_wrong_per_layer_search_is_one_error_before_any_pass(kind):
    (train, validation), options, error, message = WRONG_SEARCHES[kind]
    network, options = Counted(), copy.copy(options)
    if kind == "an iterator given twice":
        validation = iter(batches())
        options["test_loader"] = validation
    with pytest.raises(error, match=message):
        bln_search.search_layers(network, train, validation, **options)
    assert network.calls <= 2
