"""`bln-search check` on networks and data by reference."""

from __future__ import annotations

import json

import numpy as np
import pytest
import torch

from bln_search.ranking.network_check import CheckVerdict, NetworkCheck
from tests.api.check.networks import make_data, make_network, train

PROGRAM = """
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

def load():
    return nn.Sequential(
        nn.Linear(10, 16), nn.BatchNorm1d(16), nn.ReLU(), nn.Dropout(0.0),
        nn.Linear(16, 16), nn.BatchNorm1d(16), nn.ReLU(), nn.Linear(16, 3))

def fails():
    raise KeyError("no such file")

number = 3
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("check")
    (folder / "my_net_of_test.py").write_text(PROGRAM)
    torch.save(train(make_network()).state_dict(), folder / "weights.pt")
    inputs, classes = (values.numpy() for values in make_data())
    np.savez(folder / "train.npz", inputs=inputs[:600], targets=classes[:600])
    np.savez(folder / "validation.npz", inputs=inputs[600:], targets=classes[600:])
    header = ",".join([*(f"x{column}" for column in range(10)), "label"])
    table = np.column_stack([inputs[600:], classes[600:]])
    formats = ["%.6f"] * 10 + ["%d"]
    np.savetxt(folder / "validation.csv", table, formats, ",", header=header, comments="")
    return folder


def call(invoke, folder, network=None, validation="validation.npz", *more):
    network = network or f"{folder / 'my_net_of_test.py'}:load"
    return invoke("check", network, "--validation", folder / validation, *more)


@pytest.mark.parametrize("validation", ["validation.npz", "validation.csv"])
def test_a_report_is_printed_and_written(invoke, folder, tmp_path, validation):
    more = ("--train", folder / "train.npz", "--weights", folder / "weights.pt", "--report", tmp_path / "report.json")
    done = call(invoke, folder, None, validation, *more)
    assert done.exit_code == 0, done.output
    check = NetworkCheck.model_validate(json.loads((tmp_path / "report.json").read_text()))
    assert (check.verdict, check.examples) == (CheckVerdict.KEEP, 300)
    assert "deployed" in done.stdout


WRONG = {
    "no file": ("missing.py:load", "validation.npz", ()),
    "no name": ("{folder}/my_net_of_test.py:other", "validation.npz", ()),
    "no network": ("{folder}/my_net_of_test.py:number", "validation.npz", ()),
    "a failing function": ("{folder}/my_net_of_test.py:fails", "validation.npz", ()),
    "a file of weights": ("{folder}/weights.pt", "validation.npz", ()),
    "a program": ("net.onnx", "validation.npz", ()),
    "a missing package": ("timm:resnet10t", "validation.npz", ()),
    "no data": (None, "missing.npz", ()),
    "other data": (None, "weights.pt", ()),
    "no column": (None, "validation.csv", ("--target-column", "y")),
    "no numbers": (None, "validation.npz", ("--at", "1,x")),
    "weights of another network": (None, "validation.npz", ("--weights", "{folder}/train.npz")),
}


@pytest.mark.parametrize("case", WRONG)
def test_a_wrong_reference_is_one_clear_error(invoke, folder, case):
    network, validation, more = WRONG[case]
    network = None if network is None else network.format(folder=folder)
    done = call(invoke, folder, network, validation, *(word.format(folder=folder) for word in more))
    assert done.exit_code != 0
    assert isinstance(done.exception, Exception)
    assert done.stdout == ""
