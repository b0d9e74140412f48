"""The 1,797 handwritten digits of scikit-learn: 8×8 pixels with 17 grey levels; a fifth of them is the test split."""

from __future__ import annotations

import numpy as np

from bln_search.core.errors import MissingPackageError
from bln_search.data.catalog_entry import CatalogEntry, DataFormat
from bln_search.data.dataset import DataSet

CLASSES = tuple(str(digit) for digit in range(10))


def load_digits_data_set() -> DataSet:
    """Return the data set; images (n, 1, 8, 8). The test split is stratified and always the same."""
    try:  # the import takes more than a second, so only users of this data set pay for it
        from sklearn.datasets import load_digits  # noqa: PLC0415
        from sklearn.model_selection import train_test_split  # noqa: PLC0415
    except ModuleNotFoundError as error:
        raise MissingPackageError("sklearn", "search") from error

    digits = load_digits()
    images = digits.images.astype(np.uint8)[:, None]
    labels = digits.target.astype(np.int64)
    train, test = train_test_split(np.arange(len(labels)), test_size=0.2, random_state=0, stratify=labels)
    return DataSet("digits", CLASSES, images[train], labels[train], images[test], labels[test], scale=16.0)


ENTRY = CatalogEntry(
    "digits",
    "1,797 handwritten digits, 8×8, shipped with scikit-learn",
    CLASSES,
    load=load_digits_data_set,
    format=DataFormat((1, 8, 8), len(CLASSES)),
)
