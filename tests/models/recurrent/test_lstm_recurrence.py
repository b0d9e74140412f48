"""The explicit recurrence equals an LSTM, forward and backward."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch import nn
from torch.nn import functional as F

from bln_search.models.recurrent.lstm_recurrence import run_lstm
from tests.models.recurrent import oracle
from tests.models.recurrent.layers import draw_sequences
from tests.support.tiers import latin

SIZES = [(4, 5, 3), (1, 5, 2), (4, 1, 3), (1, 1, 1)]


def draw_arguments(n, steps, units, inputs=2):
    """Return the input (N, T, inputs), W_x, W_h and b, all of which require gradients."""
    torch.manual_seed(0)
    x = draw_sequences(n, steps, inputs).requires_grad_()
    shapes = ((4 * units, inputs), (4 * units, units), (4 * units,))
    return x, *(torch.randn(shape, dtype=torch.float64).requires_grad_() for shape in shapes)


def run(x, weight_input, weight_hidden, bias, mask=None):
    projected = F.linear(x, weight_input, bias).transpose(0, 1)
    return run_lstm(projected, weight_hidden, mask).transpose(0, 1)


def run_torch_lstm(x, weight_input, weight_hidden, bias):
    """Run torch's LSTM, whose gates are in the order i, f, g, o."""
    units = weight_hidden.shape[1]
    order = torch.cat([torch.arange(part * units, (part + 1) * units) for part in (2, 1, 3, 0)])
    reference = nn.LSTM(x.shape[2], units, batch_first=True).double()
    values = (weight_input[order], weight_hidden[order], bias[order], torch.zeros_like(bias))
    names = [f"{kind}_l0" for kind in ("weight_ih", "weight_hh", "bias_ih", "bias_hh")]
    return torch.func.functional_call(reference, dict(zip(names, values, strict=True)), (x,))[0]


@pytest.mark.parametrize("sizes", SIZES)
def test_values_and_gradients_equal_those_of_torchs_lstm(sizes):
    arguments = draw_arguments(*sizes)
    weights = torch.randn(sizes[0], sizes[1], sizes[2], dtype=torch.float64)
    outputs, expected = run(*arguments), run_torch_lstm(*arguments)
    torch.testing.assert_close(outputs, expected, rtol=1e-12, atol=1e-12)
    for gradient, expected_gradient in zip(
        torch.autograd.grad((outputs * weights).sum(), arguments),
        torch.autograd.grad((expected * weights).sum(), arguments),
        strict=True,
    ):
        torch.testing.assert_close(gradient, expected_gradient, rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize("sizes", SIZES)
@pytest.mark.parametrize("masked", [False, True])
def test_values_equal_the_equations_with_and_without_mask(sizes, masked):
    arguments = draw_arguments(*sizes)
    mask = torch.tensor([0.0, 1.25, 2.0], dtype=torch.float64)[: sizes[2]].repeat(sizes[0], 1) if masked else None
    x, *weight_values = (value.detach().numpy() for value in arguments)
    weights = dict(zip(("weight_input", "weight_hidden", "bias"), weight_values, strict=True))
    expected = oracle.lstm(weights, x, mask=None if mask is None else mask.numpy())
    np.testing.assert_allclose(run(*arguments, mask).detach().numpy(), expected, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize(("sizes", "masked"), latin(SIZES, [False, True]))
def test_gradients_equal_finite_differences(sizes, masked):
    arguments = draw_arguments(*sizes)
    mask = torch.rand(sizes[0], sizes[2], dtype=torch.float64) if masked else None
    assert torch.autograd.gradcheck(lambda *values: run(*values, mask), arguments)


@pytest.mark.parametrize("sizes", SIZES)
@pytest.mark.parametrize("masked", [False, True])
def test_without_gradients_the_values_are_the_same(sizes, masked):
    arguments = draw_arguments(*sizes)
    mask = torch.rand(sizes[0], sizes[2], dtype=torch.float64) if masked else None
    with torch.no_grad():
        outputs = run(*arguments, mask)
    assert not outputs.requires_grad
    torch.testing.assert_close(outputs, run(*arguments, mask).detach(), rtol=1e-14, atol=1e-15)


@pytest.mark.parametrize(("sizes", "masked"), latin([(4, 5, 3), (2, 1, 3)], [False, True]))
def test_an_exported_program_supports_any_number_of_sequences(sizes, masked):
    class Loop(nn.Module):
        def forward(self, projected, weight, mask):
            return run_lstm(projected, weight, mask)

    def draw_values(n):
        shapes = ((sizes[1], n, 4 * sizes[2]), (4 * sizes[2], sizes[2]), (n, sizes[2]))
        projected, weight, mask = (torch.randn(shape, dtype=torch.float64) for shape in shapes)
        return projected, weight, mask if masked else None

    axis = torch.export.Dim("n", min=1, max=9)
    dynamic = ({1: axis}, None, {0: axis} if masked else None)
    program = torch.export.export(Loop(), draw_values(sizes[0]), dynamic_shapes=dynamic).module()
    for n in (sizes[0], 7):
        values = draw_values(n)
        torch.testing.assert_close(program(*values), run_lstm(*values), rtol=1e-13, atol=1e-14)


@pytest.mark.parametrize("frozen", [slice(0, 2), slice(1, 4)])
def test_gradients_exist_where_only_some_inputs_need_them(frozen):
    """Only the input part, or only W_h, may require a gradient."""
    arguments = draw_arguments(3, 4, 2)
    expected = dict(enumerate(torch.autograd.grad(run(*arguments).sum(), arguments)))
    for value in arguments[frozen]:
        value.requires_grad_(False)
    trainable = {index: value for index, value in enumerate(arguments) if value.requires_grad}
    gradients = torch.autograd.grad(run(*arguments).sum(), list(trainable.values()))
    for index, gradient in zip(trainable, gradients, strict=True):
        torch.testing.assert_close(gradient, expected[index], rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("masked", [False, True])
def test_torch_func_gives_the_same_gradients(masked):
    generator = torch.Generator().manual_seed(0)
    projected = torch.randn(5, 3, 16, generator=generator, dtype=torch.float64)
    weight = torch.randn(16, 4, generator=generator, dtype=torch.float64)
    mask = torch.rand(3, 4, generator=generator, dtype=torch.float64) if masked else None

    def loss(projected, weight):
        return run_lstm(projected, weight, mask).square().sum()

    leaves = [value.clone().requires_grad_() for value in (projected, weight)]
    loss(*leaves).backward()
    for gradient, leaf in zip(torch.func.grad(loss, argnums=(0, 1))(projected, weight), leaves, strict=True):
        torch.testing.assert_close(gradient, leaf.grad)
