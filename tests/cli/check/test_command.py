"""`bln-search check` on networks and data by reference."""

from __future__ import annotations

import json

import numpy as np
import pyarrow.parquet
import pytest
import torch
from PIL import Image

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

def needs(width):
    return width

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
    columns = [pyarrow.array(column) for column in (*inputs[600:].T, classes[600:])]
    pyarrow.parquet.write_table(pyarrow.table(columns, names=header.split(",")), folder / "validation.parquet")
    return folder


def call(invoke, folder, network=None, validation="validation.npz", *more):
    network = network or f"{folder / 'my_net_of_test.py'}:load"
    return invoke("check", network, "--validation", folder / validation, *more)


@pytest.mark.parametrize("validation", ["validation.npz", "validation.csv", "validation.parquet"])
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
    "size 0": (None, "validation.npz", ("--at", "0")),
    "a size above the examples": (None, "validation.npz", ("--at", "4000")),
    "another ending": (None, "validation.npz", ("--report", "report.txt")),
    "a condition twice": (None, "validation.npz", ("--condition", "a=x.npz", "--condition", "a=y.npz")),
    "a condition without a name": (None, "validation.npz", ("--condition", "x.npz")),
    "corruption of arrays": (None, "validation.npz", ("--corruption", "contrast")),
    "unknown corruption": (None, "validation.npz", ("--corruption", "rain")),
    "two means": (None, "validation.npz", ("--mean", "0.1,0.2")),
    "classes of a function": (None, "validation.npz", ("--classes", "5")),
    "a function with arguments": ("{folder}/my_net_of_test.py:needs", "validation.npz", ()),
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


def write_images(folder, classes, count=6, seed=0):
    """Random grey images of 8 × 8 pixels in a folder for each class."""
    random = np.random.default_rng(seed)
    for name in classes:
        (folder / name).mkdir(parents=True)
        for number in range(count):
            Image.fromarray(random.integers(0, 256, (8, 8), np.uint8)).save(folder / name / f"{number}.png")
    return folder


IMAGE_PROGRAM = """
from torch import nn

def load():
    return nn.Sequential(nn.Conv2d(1, 4, 3), nn.BatchNorm2d(4), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(4, 3))
"""


@pytest.fixture
def images(tmp_path):
    (tmp_path / "image_net_of_test.py").write_text(IMAGE_PROGRAM)
    return tmp_path


def check_images(invoke, folder, *words):
    options = ("--image-size", 8, "--mean", "0.5", "--deviation", "0.5", "--report", folder / "report.json")
    return invoke("check", f"{folder / 'image_net_of_test.py'}:load", *options, *words)


def test_classes_of_image_folders_are_those_of_the_training_data(invoke, images):
    training = write_images(images / "training", ["a", "b", "c"])
    some = write_images(images / "some", ["c"], seed=1)
    flat = write_images(images / "flat", ["x"], seed=2) / "x"
    done = check_images(invoke, images, "--train", training, "--validation", some, "--target", flat)
    assert done.exit_code == 0, done.output
    check = NetworkCheck.model_validate(json.loads((images / "report.json").read_text()))
    assert (check.examples, check.training_examples) == (6, 18)
    other = write_images(images / "other", ["d"])
    assert "d" in str(check_images(invoke, images, "--train", training, "--validation", other).exception)


def test_corruptions_of_validation_images_are_conditions(invoke, images):
    validation = write_images(images / "validation", ["a", "b", "c"])
    words = ("--corruption", "contrast-5", "--corruption", "gaussian_noise")
    done = check_images(invoke, images, "--validation", validation, *words)
    assert done.exit_code == 0, done.output
    check = NetworkCheck.model_validate(json.loads((images / "report.json").read_text()))
    assert [condition.name for condition in check.conditions] == ["contrast-5", "gaussian_noise-3"]
    assert len({check.deployed.loss, *(condition.variants[0].loss for condition in check.conditions)}) == 3


def test_unlabelled_arrays_are_training_and_target_data(invoke, folder, tmp_path):
    np.savez(tmp_path / "unlabelled.npz", inputs=make_data()[0][:320].numpy())
    more = ("--train", tmp_path / "unlabelled.npz", "--target", tmp_path / "unlabelled.npz")
    done = call(invoke, folder, None, "validation.npz", "--weights", folder / "weights.pt", *more)
    assert done.exit_code == 0, done.output
    refused = invoke("check", f"{folder / 'my_net_of_test.py'}:load", "--validation", tmp_path / "unlabelled.npz")
    assert refused.exit_code != 0


def test_weights_of_a_parallel_network_are_loaded(invoke, folder, tmp_path):
    state = torch.load(folder / "weights.pt", weights_only=True)
    torch.save({f"module.{name}": value for name, value in state.items()}, tmp_path / "parallel.pt")
    done = call(invoke, folder, None, "validation.npz", "--weights", tmp_path / "parallel.pt")
    assert done.exit_code == 0, done.output
