"""CIFAR-10, from the binary version's six files.

Format: 10,000 records a file, one label byte and 3,072 pixel bytes (three 32×32 planes) each.
Checksums: MD5 of the unpacked files as published. Source: Krizhevsky 2009.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from bln_search.core.errors import DataError
from bln_search.data.dataset import DataSet
from bln_search.data.files import Archive, SourceFile

_SIZE = 30_730_000
_RECORD = 3073
FILES = (
    SourceFile("data_batch_1.bin", "5dd7e06a14cb22eb9f671a540d1b7c25", _SIZE),
    SourceFile("data_batch_2.bin", "5ea93a67294ea407fff1d09f752e9692", _SIZE),
    SourceFile("data_batch_3.bin", "942cd6a4bcdd0dd3c604fbe906cb4421", _SIZE),
    SourceFile("data_batch_4.bin", "ae636b3ba5c66a11e91e8cb52e771fcb", _SIZE),
    SourceFile("data_batch_5.bin", "53f37980c15c3d472c316c40844f3f0d", _SIZE),
    SourceFile("test_batch.bin", "803d5f7f4d78ea53de84dbe85f74fb6d", _SIZE),
)
ARCHIVE = Archive("cifar-10-binary.tar.gz", "cifar-10-batches-bin")
CLASSES = ("airplane", "automobile", "bird", "cat", "deer", "dog", "frog", "horse", "ship", "truck")


def decode(read: Callable[[SourceFile], bytes]) -> DataSet:
    """The data set; images (n, 3, 32, 32)."""
    parts = [decode_records(read(file), file.name) for file in FILES]
    return DataSet(
        name="cifar10",
        classes=CLASSES,
        train_inputs=np.concatenate([images for images, _ in parts[:-1]]),
        train_labels=np.concatenate([labels for _, labels in parts[:-1]]),
        test_inputs=parts[-1][0],
        test_labels=parts[-1][1],
    )


def decode_records(content: bytes, name: str) -> tuple[NDArray[np.uint8], NDArray[np.int64]]:
    """Images (n, 3, 32, 32) and labels (n,) of one file."""
    if not content or len(content) % _RECORD:
        raise DataError(f"{name}: {len(content)} bytes are not a number of records of {_RECORD} bytes")
    records = np.frombuffer(content, np.uint8).reshape(-1, _RECORD)
    labels = records[:, 0].astype(np.int64)
    if labels.max() >= len(CLASSES):
        raise DataError(f"{name}: a record has the class {labels.max()}, CIFAR-10 has 0 to {len(CLASSES) - 1}")
    return records[:, 1:].reshape(-1, 3, 32, 32), labels
