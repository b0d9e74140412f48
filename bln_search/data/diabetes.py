"""The diabetes data of scikit-learn: 442 patients, 10 measurements, and the progression of the disease a year later.

Source: Efron, Hastie, Johnstone & Tibshirani 2004, "Least Angle Regression", section 1. A fifth of the patients is the
test split.
"""

from __future__ import annotations

import numpy as np

from bln_search.core.errors import MissingPackageError
from bln_search.data.catalog_entry import CatalogEntry, DataFormat
from bln_search.data.dataset import DataSet

NUMBERS = ("progression",)


def load_diabetes_data_set() -> DataSet:
    """Return the data set; measurements (n, 10) in their original units. The test split is always the same."""
    try:  # the import takes more than a second, so only users of this data set pay for it
        from sklearn.datasets import load_diabetes  # noqa: PLC0415
        from sklearn.model_selection import train_test_split  # noqa: PLC0415
    except ModuleNotFoundError as error:
        raise MissingPackageError("sklearn", "search") from error

    patients = load_diabetes(scaled=False)
    measurements, progression = patients.data.astype(np.float64), patients.target.astype(np.float64)[:, None]
    train, test = train_test_split(np.arange(len(progression)), test_size=0.2, random_state=0)
    splits = measurements[train], progression[train], measurements[test], progression[test]
    return DataSet("diabetes", NUMBERS, *splits, scale=1.0)


ENTRY = CatalogEntry(
    "diabetes",
    "442 patients with 10 measurements and the progression of diabetes (Efron et al. 2004), from scikit-learn",
    NUMBERS,
    load=load_diabetes_data_set,
    format=DataFormat((10,), len(NUMBERS)),
)
