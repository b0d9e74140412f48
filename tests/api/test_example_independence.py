"""A network whose outputs depend on other examples is an error, however the dependence is hidden."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch import nn
from torch.nn import functional as F

import bln_search
from bln_search.core.errors import ModelError
from tests.api.small_network import X, converted, cut
from tests.support.tiers import latin


@pytest.mark.parametrize("value", [1e8, 1e9, float("inf"), float("nan")])
def test_population_rows_are_independent_of_an_extreme_example(value):
    torch.manual_seed(0)
    network = converted(
        nn.Sequential(nn.BatchNorm1d(7), nn.Linear(7, 8), nn.Tanh(), nn.BatchNorm1d(8), nn.Linear(8, 4))
    )
    extreme = X.clone()
    extreme[33, 2] = value
    outcomes, undisturbed = (
        bln_search.evaluate_configurations(network, cut(0, 20), cut(20, 60, x)).outcomes for x in (extreme, X)
    )
    neighbours = np.delete(np.arange(40), 13)
    for key, outcome in outcomes.items():
        if str(key.configuration) == "TTTT":
            np.testing.assert_allclose(
                outcome.losses[neighbours], undisturbed[key].losses[neighbours], rtol=1e-5, atol=1e-6
            )


class Mixes(nn.Module):
    def __init__(self, masked):
        super().__init__()
        self.a, self.n, self.c, self.masked = nn.Linear(7, 6), nn.BatchNorm1d(6), nn.Linear(6, 5), masked

    def forward(self, x):
        h = self.n(self.a(x))
        outputs = self.c(h - h.mean(0, keepdim=True))
        return outputs if self.masked is None else outputs.masked_fill(torch.arange(5) == 4, self.masked)


@pytest.mark.parametrize(
    ("masked", "dtype"), latin([None, -1e6, -1e9, torch.finfo(torch.float32).min], [torch.float32, torch.float64])
)
def test_masked_logit_does_not_hide_mixing_of_examples(masked, dtype):
    network = converted(Mixes(masked)).to(dtype)
    with pytest.raises(ModelError, match="does not treat examples independently"):
        bln_search.evaluate_configurations(network, cut(0, 20, X.to(dtype)), cut(20, 60, X.to(dtype)))


class Branches(nn.Module):
    def __init__(self, kind):
        super().__init__()
        self.a, self.n, self.c, self.kind = nn.Linear(7, 6), nn.BatchNorm1d(6), nn.Linear(6, 4), kind

    def forward(self, x):
        h = self.n(self.a(x))
        if self.kind == "number" and h.shape[0] > 40:
            h = h * 2
        if self.kind == "value" and x.abs().amax() > 50:
            h = h / h.abs().amax()
        return self.c(h)


@pytest.mark.parametrize("kind", ["number", "value"])
def test_branch_on_batch_contents_or_size_is_rejected(kind):
    x = X.clone()
    x[33, 2] = 60.0
    with pytest.raises(ModelError, match=r"depends on values|does not treat examples independently"):
        bln_search.evaluate_configurations(converted(Branches(kind)), cut(0, 20, x), cut(20, 60, x))


def test_score_that_depends_on_other_examples_is_rejected():
    def score(outputs, targets):
        return F.cross_entropy(outputs / outputs.std(), targets, reduction="none"), outputs.argmax(1) == targets

    with pytest.raises(ModelError, match="score= returns another loss"):
        bln_search.evaluate_configurations(converted(), cut(0, 20), cut(20, 60), score=score)
