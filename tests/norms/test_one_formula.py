"""Every form in which a layer is computed equals the one formula: NumPy loops in float64, all configurations."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch import nn

from bln_search.core.blend import PopulationWeight
from bln_search.core.configuration import InferenceConfiguration, all_configurations
from bln_search.core.enums import PopulationEstimate
from bln_search.core.method import Method
from bln_search.norms.moment_collection import use_new_moment_accumulators
from bln_search.norms.network.folding import find_folding_obstacle, make_affine_step
from bln_search.norms.row_batching.row_tensor import (
    BatchLayout,
    InferenceRow,
    RowBatchingPlan,
    remove_row_tag,
    tag_with_rows,
)
from tests.norms.test_normalization import METHODS, SEMANTICS, SHAPES, layer_and_formula, random_input, train
from tests.support.tiers import latin

GROUPS, SHARE = 2, 0.3
BLENDS = {"bn": ("BB--", "TB--"), "ln": ("--BB", "--FB"), "bln": ("BBBB", "BFTB")}
"""Configurations with mixtures of stored values and those of the mini-batch."""


class Case:
    """A layer, its population and its rows; `expected` is the output of a row by the formula, (G·N, ...)."""

    def __init__(self, method, semantics, shape, correction):
        self.layer, self.formula = layer_and_formula(method, semantics, shape, m=shape[0])
        self.formula.alpha, self.size = SHARE, shape[0]
        self.population, self.values = train(self.layer, self.formula, shape, correction)
        codes = [*map(str, all_configurations(Method(method))), *BLENDS[method]]
        self.rows = tuple(InferenceRow(InferenceConfiguration(code), estimate_of(code)) for code in codes)
        self.x = torch.cat([random_input(shape, seed) for seed in range(50, 50 + GROUPS)])

    def expected(self, row):
        code = str(row.configuration)
        parts = [self.formula(x.numpy(), code, self.values) for x in self.x.split(self.size)]
        return np.concatenate(parts)

    def configure(self, row):
        self.layer.eval().configure(row.configuration, self.population, row.blend)
        return self.layer


def estimate_of(code):
    if "B" in code:
        return f"{PopulationEstimate.FROZEN}@{SHARE}"
    return str(PopulationEstimate.FROZEN) if "T" in code else None


def by_layer(case):
    for row in case.rows:
        layer = case.configure(row)
        yield row, torch.cat([layer(x) for x in case.x.split(case.size)])


def by_affine_step(case):
    for row in case.rows:
        layer = case.configure(row)
        if find_folding_obstacle(layer) is None:
            yield row, make_affine_step(layer)(case.x)


def by_all_rows(case, copies, after=None):
    """The one pass: all rows from one input, or each row from its own, with a further module after the layer."""
    populations = {case.layer: {str(PopulationEstimate.FROZEN): case.population}}
    layout = BatchLayout(RowBatchingPlan(case.rows, populations), GROUPS, case.size)
    outputs = case.layer.eval()(tag_with_rows(torch.cat([case.x] * copies), layout, copies))
    outputs = remove_row_tag(outputs if after is None else after(outputs))
    return zip(case.rows, outputs.split(len(case.x)), strict=True)


def by_mini_batches_at_once(case):
    row = case.rows[[str(row.configuration) for row in case.rows].index(str(case.layer.configuration))]
    layout = BatchLayout(RowBatchingPlan((row,), {}), GROUPS, case.size)
    with use_new_moment_accumulators([case.layer.eval()], in_evaluation=True):
        yield row, remove_row_tag(case.layer(tag_with_rows(case.x, layout, 1)))


def by_fused_kernels(case):
    case.layer.train().uses_fused_kernels = True
    row = case.rows[[str(row.configuration) for row in case.rows].index(str(case.layer.configuration))]
    yield row, torch.cat([case.layer(x) for x in case.x.split(case.size)])


FORMS = {
    "layer": by_layer,
    "affine step": by_affine_step,
    "rows of one input": lambda case: by_all_rows(case, 1),
    "rows of separate inputs": lambda case: by_all_rows(case, len(case.rows)),
    "mini-batches at once": by_mini_batches_at_once,
    "fused kernels": by_fused_kernels,
}


@pytest.mark.parametrize(
    ("form", "shape", "semantics", "method"), latin(list(FORMS), list(SHAPES), SEMANTICS, METHODS), ids=str
)
@pytest.mark.parametrize("correction", ["bessel", "total"])
@torch.no_grad()
def test_every_form_equals_the_formula(form, shape, semantics, method, correction):
    case = Case(method, semantics, SHAPES[shape], correction)
    for row, outputs in FORMS[form](case):
        np.testing.assert_allclose(outputs.numpy(), case.expected(row), rtol=1e-10, atol=1e-10, err_msg=row.label)


@pytest.mark.parametrize(("method", "semantics"), latin(METHODS, SEMANTICS))
@pytest.mark.parametrize("shape", ["(N, D)", "(N, T, D)"])
@torch.no_grad()
def test_rows_after_a_linear_layer_equal_that_of_the_formula(method, semantics, shape):
    case = Case(method, semantics, SHAPES[shape], "bessel")
    linear = nn.Linear(4, 3).double()
    for row, outputs in by_all_rows(case, 1, linear):
        expected = case.expected(row) @ linear.weight.numpy().T + linear.bias.numpy()
        np.testing.assert_allclose(outputs.numpy(), expected, rtol=1e-10, atol=1e-10, err_msg=row.label)


@pytest.mark.parametrize(("method", "semantics"), latin(METHODS, SEMANTICS))
@torch.no_grad()
def test_rows_after_a_convolution_equal_that_of_the_formula(method, semantics):
    case = Case(method, semantics, (5, 4, 3, 3), "bessel")
    convolution = nn.Conv2d(4, 2, 2, padding=1).double()
    for row, outputs in by_all_rows(case, 1, convolution):
        expected = convolution(torch.from_numpy(case.expected(row)))
        torch.testing.assert_close(outputs, expected, rtol=1e-10, atol=1e-10)


def test_a_prior_weighs_the_population_by_the_size_of_the_mini_batch():
    blend = PopulationWeight(16, is_prior=True)
    case = Case("bn", "paper", (5, 4), "bessel")
    case.layer.eval().configure(InferenceConfiguration("BB--"), case.population, blend)
    for size in (1, 4, 16):
        x = random_input((size, 4), seed=size)
        case.formula.alpha = 16 / (16 + size)
        expected = case.formula(x.numpy(), "BB--", case.values)
        np.testing.assert_allclose(case.layer(x).detach().numpy(), expected, rtol=1e-11, atol=1e-11)
