"""Decoding of the published formats of MNIST, CIFAR-10 and CIFAR-100."""

from __future__ import annotations

import struct

import numpy as np
import pytest

from bln_search.core.errors import DataError
from bln_search.core.registry import DATA_SETS
from bln_search.data import cifar100, load_data_set
from bln_search.data.cifar10 import decode_records
from bln_search.data.mnist import decode_idx


def test_an_idx_file_has_the_shape_of_its_header():
    pixels = np.arange(24, dtype=np.uint8).reshape(2, 3, 4)
    content = bytes([0, 0, 8, 3]) + struct.pack(">3I", 2, 3, 4) + pixels.tobytes()
    np.testing.assert_array_equal(decode_idx(content, "file"), pixels)


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"\0\0\x08",
        b"\0\0\x0d\x01\0\0\0\0",
        bytes([0, 0, 8, 3]) + struct.pack(">3I", 2, 3, 4) + b"short",
        bytes([0, 0, 8, 1]) + struct.pack(">I", 2**32 - 1),
        bytes([0, 0, 8, 3]) + struct.pack(">3I", 2**32 - 1, 2**32 - 1, 2**32 - 1),
    ],
)
def test_content_other_than_idx_is_an_error_that_names_the_file(content):
    with pytest.raises(DataError, match="train-images"):
        decode_idx(content, "train-images")


def test_a_cifar_record_is_a_label_and_three_planes():
    record = bytes([7]) + bytes(range(256)) * 12
    images, labels = decode_records(record * 2, "file")
    assert images.shape == (2, 3, 32, 32)
    assert labels.tolist() == [7, 7]
    assert images[0, 1, 0, 0] == record[1 + 1024]


@pytest.mark.parametrize("content", [b"", b"x" * 3072, bytes([10]) + b"\0" * 3072])
def test_content_other_than_cifar_records_is_an_error(content):
    with pytest.raises(DataError, match="data_batch_1"):
        decode_records(content, "data_batch_1.bin")


def test_a_cifar100_record_is_two_labels_and_three_planes():
    record = bytes([19, 99]) + bytes(range(256)) * 12
    images, labels = cifar100.decode_records(record * 2, "file")
    assert images.shape == (2, 3, 32, 32)
    assert labels.tolist() == [99, 99]
    assert images[0, 1, 0, 5] == record[2 + 1024 + 5]


def test_cifar100_is_read_from_its_two_files():
    content = {
        file.name: bytes([3, label]) + bytes([label]) * 3072
        for file, label in zip(cifar100.FILES, (7, 42), strict=True)
    }
    data = cifar100.decode_cifar100(lambda file: content[file.name])
    data.check()
    assert (data.train_labels.tolist(), data.test_labels.tolist()) == ([7], [42])
    assert (int(data.train_inputs.max()), int(data.test_inputs.min())) == (7, 42)
    assert (len(set(data.classes)), data.classes[7], data.classes[99]) == (100, "beetle", "worm")


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"x" * 3073,
        bytes([20, 0]) + b"\0" * 3072,
        bytes([0, 100]) + b"\0" * 3072,
        (bytes([9]) + b"\xff" * 3072) * 2,
    ],
)
def test_content_other_than_cifar100_records_is_an_error(content):
    with pytest.raises(DataError, match=r"train\.bin"):
        cifar100.decode_records(content, "train.bin")


def test_digits_need_no_files(tmp_path):
    digits = load_data_set("digits", tmp_path)
    assert (len(digits.train_labels), len(digits.test_labels)) == (1437, 360)
    assert digits.input_shape == (1, 8, 8)


def test_an_unknown_data_set_is_an_error_that_lists_the_known(tmp_path):
    with pytest.raises(DataError, match=", ".join(DATA_SETS.list_names())):
        load_data_set("svhn", tmp_path)


def test_mnist_has_its_counts(real_data, tmp_path):
    mnist = load_data_set("mnist", real_data, tmp_path)
    assert mnist.train_inputs.shape == (60_000, 1, 28, 28)
    assert np.bincount(mnist.train_labels).tolist() == [5923, 6742, 5958, 6131, 5842, 5421, 5918, 6265, 5851, 5949]
    cached = load_data_set("mnist", tmp_path / "no files here", tmp_path)
    np.testing.assert_array_equal(cached.test_inputs, mnist.test_inputs)
