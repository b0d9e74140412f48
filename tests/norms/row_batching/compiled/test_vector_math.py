"""Elementary functions of the compiled kernels: their errors against double precision."""

from __future__ import annotations

import numpy as np
import pytest

pytest.importorskip("numba", reason="the extra `fast` is not installed")

from numba import njit

from bln_search.norms.row_batching.compiled import vector_math
from bln_search.norms.row_batching.compiled.simd import LANES, load, store

pytestmark = pytest.mark.xdist_group("kernels")


def apply(function, values):
    @njit
    def run(x, out):
        for i in range(0, len(x), LANES):
            store(out, i, function(load(x, i)))

    padded = np.zeros(-(-len(values) // LANES) * LANES, np.float32)
    padded[: len(values)] = values
    out = np.empty_like(padded)
    run(padded, out)
    return padded[: len(values)].astype(np.float64), out[: len(values)].astype(np.float64)


def test_tanh_is_accurate_at_every_scale():
    rng = np.random.default_rng(0)
    x, y = apply(vector_math.tanh, np.concatenate([rng.normal(0, 10.0**k, 4_000) for k in range(-9, 3)]))
    assert (np.abs(y - np.tanh(x)) <= 3e-7 * np.abs(np.tanh(x))).all()
    assert (np.abs(y) <= 1).all()


def test_tanh_of_special_values():
    _, y = apply(vector_math.tanh, [np.nan, np.inf, -np.inf, 0.0, -0.0])
    assert np.isnan(y[0])
    assert np.abs(y[1:] - [1, -1, 0, 0]).max() < 3e-7


def test_exp_is_accurate_and_has_limits():
    x, y = apply(vector_math.exp, np.linspace(-86, 87, 10_000))
    assert (np.abs(y - np.exp(x)) <= 2e-7 * np.exp(x)).all()
    _, y = apply(vector_math.exp, [np.nan, np.inf, 89.0, -np.inf, -200.0])
    assert np.isnan(y[0])
    assert (y[1:3] == np.inf).all()
    assert ((y[3:] >= 0) & (y[3:] < 2e-38)).all()


def test_log1p_is_accurate_at_every_scale():
    x, y = apply(vector_math.log1p, np.exp(np.linspace(-60, 80, 10_000)))
    assert (np.abs(y - np.log1p(x)) <= 3e-7 * np.log1p(x)).all()
    _, y = apply(vector_math.log1p, [0.0, np.nan, np.inf])
    assert y[0] == 0
    assert not np.isfinite(y[1:]).any()
