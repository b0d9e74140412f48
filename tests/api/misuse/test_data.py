"""Wrong data are one clear error before any pass: at most the first mini-batches reach the network."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

import bln_search
from bln_search.core.errors import DataError, ModelError
from tests.api.misuse.counted_network import TRAIN, VALIDATION, Counted, batches, regression, with_batch, with_nan
from tests.api.own_network import make_loader, make_network

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
        r"train_loader is a TensorDataset, which yields single examples.*DataLoader",
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
    if isinstance(options.get("test_loader"), Iterator):
        return  # it is read after the validation data
    given = (train, validation, options.get("test_loader"))
    loaders = [part for data in given for part in (data.values() if isinstance(data, dict) else [data])]
    assert network.calls <= len(loaders), "the network saw more than the first mini-batch of each loader"


def test_a_network_that_does_not_fit_is_an_error_before_the_pass_of_another():
    networks = [Counted(), Counted()]
    networks[1].network[0] = nn.Linear(3, 8)
    with pytest.raises(DataError, match="the network failed for a mini-batch of validation_loader"):
        bln_search.evaluate_configurations(networks, TRAIN, VALIDATION)
    assert networks[0].calls <= 2


def test_missing_values_that_the_network_replaces_are_no_error():
    class Replaces(Counted):
        def forward(self, x):
            return super().forward(x.nan_to_num())

    ranked = bln_search.evaluate_configurations(Replaces(), with_batch(0, with_nan), with_batch(0, with_nan))
    assert all(row.row.rank for row in ranked)


def test_a_network_without_values_is_one_error():
    with pytest.raises(ModelError, match="device meta"):
        bln_search.evaluate_configurations(make_network().to("meta"), TRAIN, VALIDATION)
