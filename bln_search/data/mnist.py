"""MNIST, from its four IDX files.

Format: big-endian. Images start with the magic number 2051, count, rows and columns; labels with 2049 and count; then
follow the bytes.
Checksums: MD5 of the unpacked files as published.
"""

from __future__ import annotations

import struct
from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from bln_search.core.errors import DataError
from bln_search.data.catalog_entry import CatalogEntry, DataFormat
from bln_search.data.dataset import DataSet
from bln_search.data.files import PublishedFile

FILES = (
    PublishedFile("train-images-idx3-ubyte", "6bbc9ace898e44ae57da46a324031adb", 47_040_016),
    PublishedFile("train-labels-idx1-ubyte", "a25bea736e30d166cdddb491f175f624", 60_008),
    PublishedFile("t10k-images-idx3-ubyte", "2646ac647ad5339dbf082846283269ea", 7_840_016),
    PublishedFile("t10k-labels-idx1-ubyte", "27ae3e4e09519cfbb04c329615203637", 10_008),
)
CLASSES = tuple(str(digit) for digit in range(10))


def decode_mnist(read: Callable[[PublishedFile], bytes]) -> DataSet:
    """Return the data set; images (n, 1, 28, 28)."""
    train_images, train_labels, test_images, test_labels = FILES
    return DataSet(
        name="mnist",
        classes=CLASSES,
        train_inputs=decode_idx(read(train_images), train_images.name)[:, None],
        train_labels=decode_idx(read(train_labels), train_labels.name).astype(np.int64),
        test_inputs=decode_idx(read(test_images), test_images.name)[:, None],
        test_labels=decode_idx(read(test_labels), test_labels.name).astype(np.int64),
    )


def decode_idx(content: bytes, name: str) -> NDArray[np.uint8]:
    """Return the array of an IDX file of bytes, in the shape of its header.

    Raises:
        DataError: the content is not an IDX file of bytes, or has another length than its header states.
    """
    dimensions = content[3] if content[:3] == b"\0\0\x08" and len(content) > 3 else 0
    end = 4 + 4 * dimensions
    if not dimensions or len(content) < end:
        raise DataError(f"{name} is not an IDX file of bytes: its header is {content[:4].hex(' ')}")
    shape = struct.unpack(f">{dimensions}I", content[4:end])
    if int(np.prod(shape, dtype=np.uint64)) != len(content) - end:
        raise DataError(
            f"{name}: the header states {shape} bytes, but {len(content) - end} follow: download the file again"
        )
    return np.frombuffer(content, np.uint8, offset=end).reshape(shape)


ENTRY = CatalogEntry(
    "mnist",
    "60,000 + 10,000 handwritten digits, 28×28 (LeCun et al. 1998)",
    CLASSES,
    FILES,
    decode=decode_mnist,
    downloads=tuple(f"https://ossci-datasets.s3.amazonaws.com/mnist/{file.name}.gz" for file in FILES),
    folder="mnist",
    format=DataFormat((1, 28, 28), len(CLASSES)),
)
