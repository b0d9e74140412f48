"""CIFAR-100, from the two files of its binary version, with the hundred fine classes.

Format: 50,000 (train.bin) and 10,000 (test.bin) records. A record has a byte for the coarse class, a byte for the fine
class, and 3,072 pixel bytes (three 32×32 planes).
Checksums: MD5 of the unpacked files of the published archive. Source: Krizhevsky 2009.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from bln_search.core.errors import DataError
from bln_search.data.catalog_entry import CatalogEntry, DataFormat
from bln_search.data.dataset import DataSet
from bln_search.data.files import Archive, PublishedFile, split_fixed_length_records

_RECORD_BYTES = 3074
_LABEL_BYTES = 2
_COARSE_CLASSES = 20
TRAIN_FILE = PublishedFile("train.bin", "6172c7755cfe09b2fe270c85cebc1b15", 50_000 * _RECORD_BYTES)
TEST_FILE = PublishedFile("test.bin", "4499cfba6c016c1be1438163640a0898", 10_000 * _RECORD_BYTES)
FILES = (TRAIN_FILE, TEST_FILE)
ARCHIVE = Archive("cifar-100-binary.tar.gz", "cifar-100-binary")
_CLASS_NAMES = """
apple aquarium_fish baby bear beaver bed bee beetle bicycle bottle bowl boy bridge bus butterfly camel can castle
caterpillar cattle chair chimpanzee clock cloud cockroach couch crab crocodile cup dinosaur dolphin elephant flatfish
forest fox girl hamster house kangaroo keyboard lamp lawn_mower leopard lion lizard lobster man maple_tree motorcycle
mountain mouse mushroom oak_tree orange orchid otter palm_tree pear pickup_truck pine_tree plain plate poppy porcupine
possum rabbit raccoon ray road rocket rose sea seal shark shrew skunk skyscraper snail snake spider squirrel streetcar
sunflower sweet_pepper table tank telephone television tiger tractor train trout tulip turtle wardrobe whale
willow_tree wolf woman worm
"""
CLASSES = tuple(_CLASS_NAMES.split())


def decode_cifar100(read: Callable[[PublishedFile], bytes]) -> DataSet:
    """Return the data set; images (n, 3, 32, 32), labels of the fine classes."""
    train_images, train_labels = decode_records(read(TRAIN_FILE), TRAIN_FILE.name)
    test_images, test_labels = decode_records(read(TEST_FILE), TEST_FILE.name)
    return DataSet("cifar100", CLASSES, train_images, train_labels, test_images, test_labels)


def decode_records(content: bytes, name: str) -> tuple[NDArray[np.uint8], NDArray[np.int64]]:
    """Return the images (n, 3, 32, 32) and the fine labels (n,) of one file.

    Raises:
        DataError: the content is not a sequence of records.
    """
    records = split_fixed_length_records(content, _RECORD_BYTES, name)
    for position, kind, classes in ((0, "coarse", _COARSE_CLASSES), (1, "fine", len(CLASSES))):
        largest = records[:, position].max()
        if largest >= classes:
            raise DataError(
                f"{name}: a record has the {kind} class {largest}, but CIFAR-100 has 0 to {classes - 1}: is it a file "
                "of CIFAR-10?"
            )
    return records[:, _LABEL_BYTES:].reshape(-1, 3, 32, 32), records[:, 1].astype(np.int64)


ENTRY = CatalogEntry(
    "cifar100",
    "50,000 + 10,000 colour images of a hundred classes, 32×32 (Krizhevsky 2009)",
    CLASSES,
    FILES,
    ARCHIVE,
    decode_cifar100,
    (f"https://www.cs.toronto.edu/~kriz/{ARCHIVE.name}",),
    format=DataFormat((3, 32, 32), len(CLASSES)),
)
