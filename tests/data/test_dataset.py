"""The arrays of a data set have valid types and shapes, or an error names them."""

from __future__ import annotations

import numpy as np
import pytest

from bln_search.core.errors import DataError
from bln_search.data.dataset import DataSet

INPUTS = np.zeros((4, 3), np.float32)
LABELS = np.array([0, 1, 1, 0])


def data_set(**arrays):
    all_arrays = {
        "train_inputs": INPUTS,
        "train_labels": LABELS,
        "test_inputs": INPUTS,
        "test_labels": LABELS,
        **arrays,
    }
    return DataSet("own", ("no", "yes"), **all_arrays)


@pytest.mark.parametrize("dtype", [np.uint8, np.uint16, np.float32, np.float64])
def test_inputs_may_be_unsigned_integers_or_floating_point(dtype):
    data_set(train_inputs=INPUTS.astype(dtype), test_inputs=INPUTS.astype(dtype)).check()


@pytest.mark.parametrize(
    ("arrays", "message"),
    [
        ({"train_labels": LABELS.astype(np.int32)}, r"own: train_labels are int32 of shape \(4,\): int64 of shape"),
        ({"test_labels": LABELS.astype(np.float64)}, "own: test_labels are float64"),
        ({"test_labels": LABELS[:, None]}, r"own: test_labels are int64 of shape \(4, 1\)"),
        ({"test_labels": LABELS[:3]}, r"own: test_labels are int64 of shape \(3,\): int64 of shape \(4,\)"),
        ({"train_labels": LABELS + 1}, "own: train_labels go from 1 to 2: 2 classes have labels from 0 to 1"),
        ({"train_labels": LABELS - 1}, "own: train_labels go from -1 to 0"),
        ({"train_labels": [0, 1, 1, 0]}, "own: train_labels are list"),
        ({"train_inputs": INPUTS.astype(np.int64)}, "own: train_inputs are int64 of shape .4, 3.: uint8, uint16 or"),
        ({"train_inputs": INPUTS.tolist()}, "own: train_inputs are list"),
        (
            {"test_inputs": INPUTS[:, :2]},
            r"own: test_inputs are float32 of shape \(4, 2\): \(examples, 3\) is required",
        ),
        ({"test_inputs": INPUTS[:0], "test_labels": LABELS[:0]}, r"own: test_inputs are float32 of shape \(0, 3\)"),
        ({"test_inputs": INPUTS + np.nan}, "own: test_inputs contain NaN or infinity"),
    ],
)
def test_an_error_names_an_unusable_array(arrays, message):
    with pytest.raises(DataError, match=f"^the data set {message}"):
        data_set(**arrays).check()
