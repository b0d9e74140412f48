"""The picture of the weights of BLN has the numbers of Eq. 16."""

from __future__ import annotations

from math import sqrt

import numpy as np
import pytest

from bench.documents.pictures import IMAGES
from bench.documents.weights import PICTURE, SIZES, branch_weights_by_size, weights_chart
from bln_search.norms import BLN

EPSILON = 1e-4


def test_picture_has_the_weights_of_the_formula():
    m = np.arange(1, 51)
    mini_batch, features = weights_chart().data
    np.testing.assert_array_equal(mini_batch.x, m)
    np.testing.assert_array_equal(features.x, m)
    np.testing.assert_allclose(mini_batch.y, 1 - (1 / m + EPSILON), rtol=0, atol=1e-15)
    np.testing.assert_allclose(features.y, 1 / m - EPSILON, rtol=0, atol=1e-15)
    assert (IMAGES / f"{PICTURE}.png").is_file(), "run python -m bench.documents.weights --write"


@pytest.mark.parametrize("features", [1, 6, 120])
def test_layer_divides_the_weights_by_the_root_of_its_features(features):
    weights = branch_weights_by_size(SIZES)
    of_layer = np.array([BLN(features).branch_weights(size) for size in SIZES])
    np.testing.assert_allclose(of_layer * sqrt(features), np.transpose(list(weights.values())), rtol=1e-12)
