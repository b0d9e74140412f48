"""Wrong data are one clear error before any pass: at most the first mini-batches reach the network."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import torch
from torch import nn
from torch.nn import functional as F
from torch.utils.data import DataLoader, TensorDataset

import bln_search
from bln_search.core.errors import DataError, ModelError
from tests.api.misuse.counted_network import TRAIN, VALIDATION, Counted, batches, regression, with_batch, with_nan
from tests.api.own_network import make_loader, make_network


def labelled(change):
    """The validation data with changed mini-batches."""
    return [change(x, y) for x, y in VALIDATION]


WRONG_LOADERS = {
    "validation_loader yields inputs with NaN": {"validation": with_batch(0, with_nan)},
    "train_loader yields inputs": {"train": with_batch(0, with_nan)},
    r"train_loader\['target'\] yields inputs with NaN": {"train": {"source": TRAIN, "target": with_batch(0, with_nan)}},
    "2 outputs: classes are numbered from 0 to 1": {"validation": with_batch(0, lambda x, y: (x, y + 5))},
    "classes are int64": {"validation": labelled(lambda x, y: (x, y.float()))},
    "classes are int64, one for each example": {"validation": labelled(lambda x, y: (x, F.one_hot(y)))},
    r"classes are int64, one .*shape|shape \(10, 1\)": {"validation": labelled(lambda x, y: (x, y[:, None]))},
    r"targets\.squeeze\(1\);": {"validation": labelled(lambda x, y: (x, y[:, None]))},
    r"targets\.squeeze\(1\)\.long\(\);": {"validation": labelled(lambda x, y: (x, y[:, None].float()))},
    r"targets\.long\(\);": {"validation": labelled(lambda x, y: (x, y.to(torch.uint8)))},
    r"targets\.argmax\(1\);": {"validation": labelled(lambda x, y: (x, F.one_hot(y).float()))},
    r"one for each example; for other targets": {"validation": labelled(lambda x, y: (x, y + 0.5))},
    "targets that are NaN": {"validation": regression(lambda n: torch.full((n, 2), torch.nan)), "score": "mse"},
    "outside of 0 to 1": {"validation": regression(lambda n: torch.full((n, 2), 2.0)), "score": "bce"},
    "10 inputs with 9 targets": {"validation": labelled(lambda x, y: (x, y[:-1]))},
    "that are tensors": {"validation": labelled(lambda x, y: (x, y.tolist()))},
    "ndarray": {"validation": labelled(lambda x, y: (x.numpy(), y.numpy()))},
    "a dictionary of tensors": {"validation": labelled(lambda x, y: {"x": x.tolist(), "labels": y})},
    "none of the keys": {"validation": labelled(lambda x, y: {"x": x})},
    r"float32 \(10, 3\)": {"validation": labelled(lambda x, y: (x[:, :3], y))},
    r"uint8 \(10, 6\)": {"validation": labelled(lambda x, y: (x.byte(), y))},
    r"float64 \(10, 6\)": {"validation": labelled(lambda x, y: (x.double(), y))},
    r"the network failed for a mini-batch of train_loader\['b'\]": {
        "train": {"a": TRAIN, "b": [x[:, :3] for x, _ in TRAIN]}
    },
    "train_loader is a TensorDataset, which yields single examples.*DataLoader": {"train": make_loader().dataset},
    "train_loader is a pair of tensors: .*TensorDataset": {"train": make_loader().dataset.tensors},
    "train_loader yields no mini-batch": {"train": iter(())},
    "train_loader yields no mini-batch$": {"train": DataLoader(make_loader(5).dataset, batch_size=10, drop_last=True)},
    "validation_loader yields no mini-batch": {
        "validation": DataLoader(TensorDataset(torch.zeros(0, 6), torch.zeros(0, dtype=torch.long)))
    },
    "0 inputs": {"validation": [(torch.zeros(0, 6), torch.zeros(0).long())]},
    r"validation_loader\['x'\]": {"validation": {"x": TRAIN[0][0], "labels": TRAIN[0][1]}},
    "train_loader must yield inputs": {"train": "cifar10"},
    r"validation_loader\['b'\] yields no mini-batch": {"validation": {"a": VALIDATION, "b": []}},
    r"validation_loader\['b'\] yields the class -": {
        "validation": {"a": VALIDATION, "b": with_batch(0, lambda x, y: (x, -y - 1))}
    },
    "test_loader yields targets": {"test_loader": with_batch(0, lambda x, y: (x, y.double()))},
    "has 51, which is larger than the data of validation_loader, 50 examples": {"batch_sizes": [5, 51]},
    r"validation_loader\['b'\], 30 examples": {
        "validation": {"a": VALIDATION, "b": batches(30)},
        "batch_sizes": [40],
    },
    "the data of test_loader, 20 examples": {"batch_sizes": [40], "test_loader": iter(batches(20))},
    "target= failed for a mini-batch of validation_loader": {"target": lambda batch: batch["y"]},
    "target= returns list": {"target": lambda batch: batch[1].tolist()},
    "10 inputs with 4 targets": {"target": lambda batch: batch[1][:4]},
    "classes are int64, .*int32|torch.int32": {"target": lambda batch: batch[1].int()},
    "forward= failed for a mini-batch": {"forward": lambda model, batch: model(batch["x"])},
}
WRONG_OUTPUTS = {
    "the network returns NoneType": {"forward": lambda model, batch: print(end="")},
    "give forward=, which returns one tensor": {"forward": lambda model, batch: (3, model(batch[0]))},
    "a single number for a mini-batch": {"forward": lambda model, batch: model(batch[0]).sum()},
    "outputs of shape .* for 10 examples": {"forward": lambda model, batch: model(batch[0])[:3]},
    "one loss for each of the 10 outputs": {"score": lambda outputs, targets: outputs.sum(1)[:3]},
}
"""The message, and the arguments that cause it."""


@pytest.mark.parametrize(
    ("error", "message"),
    [*((DataError, message) for message in WRONG_LOADERS), *((ModelError, message) for message in WRONG_OUTPUTS)],
)
def test_wrong_data_are_one_error_before_any_pass(error, message):
    options = {"train": TRAIN, "validation": VALIDATION, **(WRONG_LOADERS | WRONG_OUTPUTS)[message]}
    network, train, validation = Counted(), options.pop("train"), options.pop("validation")
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


def test_outputs_that_are_probabilities_have_a_warning():
    network = nn.Sequential(*make_network(), nn.Softmax(1))
    with pytest.warns(UserWarning, match="seem to be probabilities, and cross-entropy takes logits"):
        bln_search.evaluate_configurations(network, TRAIN, VALIDATION)


def test_validation_examples_of_one_class_have_a_warning():
    """A constant output would be the best, and no loss of the class frequencies can tell."""
    sorted_by_class = labelled(lambda x, y: (x, torch.ones_like(y)))
    with pytest.warns(UserWarning, match="every example of validation_loader has the class 1"):
        bln_search.evaluate_configurations(make_network(), TRAIN, sorted_by_class)
