"""Training steps with fused kernels equal those without, in outputs, gradients and recorded statistics."""

from __future__ import annotations

import copy

import pytest
import torch

from bln_search.norms import make_norm
from bln_search.norms.fused.function import normalize_fused_with_statistics
from bln_search.norms.fused.layout import FusedLayout
from bln_search.norms.fused.terms import FusedTerms, HistoryKind, HistoryTerm
from bln_search.norms.moment_collection import use_new_moment_accumulators
from tests.support.tiers import thinned

SHAPES = [(7, 5), (6, 4, 3, 5), (4, 6, 5), (3, 4, 2, 3, 2), (1, 5), (5, 1), (2, 1, 3, 3)]
LAYERS = [
    ("bn", {}),
    ("bn", {"unbiased": True}),
    ("ln", {}),
    ("bln", {}),
    ("bln", {"batch_size": 32}),
    ("mbn", {}),
    ("mbn", {"between_variance": False}),
    ("mbn", {"lambda_": 0.0}),
    ("brn", {"r_max": 1.2, "d_max": 0.3}),
]
WHOLE_LAYER = [(method, {"axes": "layer"}) for method in ("ln", "bln")]
CASES = [(shape, *layer) for shape in SHAPES for layer in LAYERS] + [
    (shape, *layer) for shape in SHAPES if len(shape) != 3 for layer in WHOLE_LAYER
]


def make_pair(shape, method, options):
    """A layer with random γ and β in float64, and its copy with fused kernels."""
    plain = make_norm(method, shape[2] if len(shape) == 3 else shape[1], **options).double()
    with torch.no_grad():
        plain.weight.normal_()
        plain.bias.normal_()
    fused = copy.deepcopy(plain)
    fused.uses_fused_kernels = True
    return plain, fused


def train_step(layer, x, grad):
    x = x.clone().requires_grad_()
    layer.zero_grad()
    output = layer(x)
    output.backward(grad)
    return output.detach(), x.grad, layer.weight.grad.clone(), layer.bias.grad.clone()


def assert_equal(first, second):
    torch.testing.assert_close(first, second, rtol=1e-11, atol=1e-11)


@pytest.mark.parametrize(("shape", "method", "options"), thinned(CASES, 2))
def test_outputs_gradients_and_history_equal_those_without(shape, method, options):
    torch.manual_seed(0)
    plain, fused = make_pair(shape, method, options)
    for step in range(4):
        x, grad = torch.randn(shape, dtype=torch.float64) * 2 + step, torch.randn(shape, dtype=torch.float64)
        assert fused.find_fused_layout(x, fused.input_axes(x.ndim)) is not None
        assert_equal(train_step(fused, x, grad), train_step(plain, x, grad))
    state = fused.state_dict()
    for name, value in plain.state_dict().items():
        assert_equal(state[name], value)


@pytest.mark.parametrize("method", ["bn", "ln", "bln", "mbn", "brn"])
@pytest.mark.parametrize("shape", [(6, 4, 3, 5), (4, 6, 5), (7, 5)])
def test_collected_moments_equal_those_without(method, shape):
    torch.manual_seed(0)
    pair = make_pair(shape, method, {})
    inputs = [torch.randn(shape, dtype=torch.float64) for _ in range(3)]
    moments = []
    for layer in pair:
        with use_new_moment_accumulators([layer]) as accumulators:
            for x in inputs:
                layer(x)
        has = {"has_batch_statistics": method != "ln", "has_feature_statistics": method in ("ln", "bln")}
        moments.append(accumulators[layer].averaged_moments(**has))
    for kind in ("batch", "feature"):
        first, second = (getattr(each, kind) for each in moments)
        assert (first is None) == (second is None)
        if first is not None:
            assert_equal(first.as_tuple, second.as_tuple)


TERMS = [
    FusedTerms(1e-2, 0.7, 0.4),
    FusedTerms(
        1e-2, 0.8, None, 1.25, HistoryTerm(HistoryKind.MEMORY, torch.rand(2, 3).double(), 0.3, between_variance=True)
    ),
]


@pytest.mark.parametrize("terms", TERMS)
@pytest.mark.parametrize("whole_layer", [False, True])
def test_gradients_are_the_derivatives_of_the_output(terms, whole_layer):
    torch.manual_seed(0)
    layout = FusedLayout(4, 3, 2, whole_layer)
    x, weight, bias = (torch.randn(shape).double().requires_grad_() for shape in ((4, 3, 2), (3,), (3,)))
    assert torch.autograd.gradcheck(
        lambda *args: normalize_fused_with_statistics(*args, layout, terms)[0], (x, weight, bias)
    )


def test_half_precision_inputs_are_normalized_in_single_precision():
    plain, fused = (layer.float() for layer in make_pair((7, 5), "bln", {}))
    x = torch.randn(7, 5, dtype=torch.bfloat16)
    assert fused(x).dtype == plain(x).dtype == x.dtype
    torch.testing.assert_close(fused(x), plain(x))


@pytest.mark.parametrize(
    ("shape", "method", "options"),
    [
        ((6, 4, 3, 5), "bln", {"semantics": "reference"}),
        ((6, 4, 3, 5), "ln", {"affine": "unit", "axes": "layer", "positions": (3, 5)}),
    ],
)
def test_layers_without_fused_kernels_are_computed_as_before(shape, method, options):
    torch.manual_seed(0)
    plain, fused = make_pair(shape, method, options)
    x = torch.randn(shape, dtype=torch.float64)
    assert fused.find_fused_layout(x, fused.input_axes(x.ndim)) is None
    assert torch.equal(fused(x), plain(x))


def test_evaluation_is_computed_as_before():
    plain, fused = (layer.eval() for layer in make_pair((7, 5), "bln", {}))
    x = torch.randn(7, 5, dtype=torch.float64)
    assert torch.equal(fused(x), plain(x))


def test_not_a_number_stays_in_its_channel():
    _, layer = make_pair((6, 4), "bn", {})
    x = torch.randn(6, 4, dtype=torch.float64)
    x[2, 1] = torch.nan
    output = layer(x)
    assert output[:, 1].isnan().all()
    assert output[:, [0, 2, 3]].isfinite().all()
