"""Linear layers by convolutions equal those of torch, and are used for large products of single precision only."""

from __future__ import annotations

import pytest
import torch
from torch import nn
from torch.nn import functional as F

from bln_search.norms.row_batching import linear_by_convolution
from bln_search.norms.row_batching.linear_by_convolution import linear
from bln_search.norms.row_batching.row_tensor import BatchLayout, RowBatchingPlan, tag_with_rows

UNITS, OUTPUTS = 12, 5

LIMITS = {"_FEWEST_PRODUCTS": 48 * UNITS * OUTPUTS, "_FEWEST_EXAMPLES": 48, "_FEWEST_OUTPUTS": OUTPUTS}
"""The smallest numbers that 48 examples reach."""


class WeightOfLibrary(torch.Tensor):
    """A weight of a library with operations of its own."""


@pytest.fixture
def calls(monkeypatch, convolved_images):
    """Numbers of images of the convolutions of torch; each product is large enough for one."""
    for name in LIMITS:
        monkeypatch.setattr(linear_by_convolution, name, 1)
    return convolved_images


@pytest.mark.parametrize(
    ("shape", "images"), [((1,), 1), ((7,), 1), ((48,), 16), ((2, 3), 1), ((4, 8), 16), ((2, 4, 4), 16)]
)
@pytest.mark.parametrize("has_bias", [True, False])
def test_outputs_equal_those_of_torch(calls, shape, images, has_bias):
    x, weight = torch.randn(*shape, UNITS), nn.Parameter(torch.randn(OUTPUTS, UNITS))
    bias = torch.randn(OUTPUTS) if has_bias else None
    with torch.no_grad():
        outputs = linear(x, weight, bias)
        torch.testing.assert_close(outputs, F.linear(x, weight, bias), rtol=1e-5, atol=1e-5)
    assert outputs.is_contiguous()
    assert calls == [images]


def test_inputs_and_weights_may_be_transposed(calls):
    x, weight = torch.randn(UNITS, 48).t(), torch.randn(UNITS, OUTPUTS).t()
    torch.testing.assert_close(linear(x, weight), F.linear(x, weight), rtol=1e-5, atol=1e-5)
    assert calls == [16]


@pytest.mark.parametrize("value", [float("nan"), float("inf")])
def test_a_value_that_is_not_finite_changes_its_own_example_only(calls, value):
    x = torch.randn(48, UNITS)
    x[5, 3] = value
    assert linear(x, torch.randn(OUTPUTS, UNITS)).isfinite().all(1).tolist() == [example != 5 for example in range(48)]
    assert calls == [16]


@pytest.mark.parametrize(
    ("x", "weight"),
    [
        (torch.randn(48, UNITS, dtype=torch.float64), torch.randn(OUTPUTS, UNITS, dtype=torch.float64)),
        (torch.randn(UNITS), torch.randn(OUTPUTS, UNITS)),
        (torch.randn(48, UNITS), torch.randn(UNITS)),
        (torch.randn(48, UNITS), torch.randn(OUTPUTS, UNITS).as_subclass(WeightOfLibrary)),
        (torch.randn(48, UNITS), torch.randn(OUTPUTS, UNITS).to_sparse()),
        (torch.randn(0, UNITS), torch.randn(OUTPUTS, UNITS)),
    ],
    ids=["double", "one example", "one output", "weight of a library", "sparse", "no example"],
)
def test_other_products_are_those_of_torch(calls, x, weight):
    assert torch.equal(linear(x, weight), F.linear(x, weight))
    assert calls == []


@pytest.mark.parametrize("shape", [(), (1,), (1, OUTPUTS), (48, 1), (48, OUTPUTS)])
def test_a_bias_may_have_every_shape_that_torch_takes(calls, shape):
    x, weight, bias = torch.randn(48, UNITS), torch.randn(OUTPUTS, UNITS), torch.randn(shape)
    assert torch.equal(linear(x, weight, bias), F.linear(x, weight, bias))
    assert calls == []


@pytest.mark.parametrize("bias", [torch.randn(OUTPUTS, dtype=torch.float64), torch.randn(OUTPUTS - 1)])
def test_a_wrong_bias_is_the_error_of_torch(calls, bias):
    x, weight = torch.randn(48, UNITS), torch.randn(OUTPUTS, UNITS)
    with pytest.raises(RuntimeError) as expected:
        F.linear(x, weight, bias)
    with pytest.raises(RuntimeError) as found:
        linear(x, weight, bias)
    assert str(found.value) == str(expected.value)
    assert calls == []


@pytest.mark.parametrize("name", LIMITS)
def test_small_products_are_those_of_torch(calls, monkeypatch, name):
    x, weight = torch.randn(48, UNITS), torch.randn(OUTPUTS, UNITS)
    monkeypatch.setattr(linear_by_convolution, name, LIMITS[name])
    linear(x, weight)
    assert calls == [16]
    monkeypatch.setattr(linear_by_convolution, name, LIMITS[name] + 1)
    assert torch.equal(linear(x, weight), F.linear(x, weight))
    assert calls == [16]


def test_autocast_is_that_of_torch(calls):
    with torch.autocast("cpu", torch.bfloat16):
        assert linear(torch.randn(48, UNITS), torch.randn(OUTPUTS, UNITS)).dtype == torch.bfloat16
    assert calls == []


def test_without_onednn_products_are_those_of_torch(calls, monkeypatch):
    monkeypatch.setattr(torch.backends.mkldnn, "enabled", False)
    x, weight = torch.randn(48, UNITS), torch.randn(OUTPUTS, UNITS)
    assert torch.equal(linear(x, weight), F.linear(x, weight))
    assert calls == []


def test_layers_over_many_rows_use_it(calls):
    layer = nn.Linear(UNITS, OUTPUTS)
    x = torch.randn(48, UNITS)
    with torch.no_grad():
        outputs = layer(tag_with_rows(x, BatchLayout(RowBatchingPlan((), {}), 6, 8), 1))
        torch.testing.assert_close(outputs.as_subclass(torch.Tensor), layer(x), rtol=1e-5, atol=1e-5)
    assert calls == [16]


def test_a_weight_by_name_is_that_of_torch(calls):
    x, weight = torch.randn(48, UNITS), torch.randn(OUTPUTS, UNITS)
    tagged = tag_with_rows(x, BatchLayout(RowBatchingPlan((), {}), 6, 8), 1)
    assert torch.equal(F.linear(tagged, weight=weight).as_subclass(torch.Tensor), F.linear(x, weight))
    assert calls == []


@pytest.mark.parametrize("channels", [UNITS - 1, UNITS + 1])
def test_a_wrong_number_of_units_is_the_error_of_torch(calls, channels):
    with pytest.raises(RuntimeError, match="shapes cannot be multiplied"):
        linear(torch.randn(48, channels), torch.randn(OUTPUTS, UNITS))
    assert calls == []
