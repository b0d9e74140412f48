"""CIFAR-10, from the six files of its binary version.

Format: 10,000 records in each file. A record has one label byte and 3,072 pixel bytes (three 32×32 planes).
Checksums: MD5 of the unpacked files as published. Source: Krizhevsky 2009.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from bln_search.core.errors import DataError
from bln_search.data.catalog_entry import CatalogEntry, DataFormat
from bln_search.data.dataset import DataSet
from bln_search.data.files import Archive, PublishedFile, split_fixed_length_records

_FILE_BYTES = 30_730_000
_RECORD_BYTES = 3073
FILES = (
    PublishedFile("data_batch_1.bin", "5dd7e06a14cb22eb9f671a540d1b7c25", _FILE_BYTES),
    PublishedFile("data_batch_2.bin", "5ea93a67294ea407fff1d09f752e9692", _FILE_BYTES),
    PublishedFile("data_batch_3.bin", "942cd6a4bcdd0dd3c604fbe906cb4421", _FILE_BYTES),
    PublishedFile("data_batch_4.bin", "ae636b3ba5c66a11e91e8cb52e771fcb", _FILE_BYTES),
    PublishedFile("data_batch_5.bin", "53f37980c15c3d472c316c40844f3f0d", _FILE_BYTES),
    PublishedFile("test_batch.bin", "803d5f7f4d78ea53de84dbe85f74fb6d", _FILE_BYTES),
)
ARCHIVE = Archive("cifar-10-binary.tar.gz", "cifar-10-batches-bin")
CLASSES = ("airplane", "automobile", "bird", "cat", "deer", "dog", "frog", "horse", "ship", "truck")


def decode_cifar10(read: Callable[[PublishedFile], bytes]) -> DataSet:
    """Return the data set; images (n, 3, 32, 32)."""
    batches = [decode_records(read(file), file.name) for file in FILES]
    return DataSet(
        name="cifar10",
        classes=CLASSES,
        train_inputs=np.concatenate([images for images, _ in batches[:-1]]),
        train_labels=np.concatenate([labels for _, labels in batches[:-1]]),
        test_inputs=batches[-1][0],
        test_labels=batches[-1][1],
    )


def decode_records(content: bytes, name: str) -> tuple[NDArray[np.uint8], NDArray[np.int64]]:
    """Return the images (n, 3, 32, 32) and labels (n,) of one file.

    Raises:
        DataError: the content is not a sequence of records.
    """
    records = split_fixed_length_records(content, _RECORD_BYTES, name)
    labels = records[:, 0].astype(np.int64)
    if labels.max() >= len(CLASSES):
        raise DataError(f"{name}: a record has the class {labels.max()}, but CIFAR-10 has 0 to {len(CLASSES) - 1}")
    return records[:, 1:].reshape(-1, 3, 32, 32), labels


ENTRY = CatalogEntry(
    "cifar10",
    "50,000 + 10,000 colour images of ten classes, 32×32 (Krizhevsky 2009)",
    CLASSES,
    FILES,
    ARCHIVE,
    decode_cifar10,
    (f"https://www.cs.toronto.edu/~kriz/{ARCHIVE.name}",),
    format=DataFormat((3, 32, 32), len(CLASSES)),
)
