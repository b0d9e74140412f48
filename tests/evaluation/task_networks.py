"""Small networks of every task with normalization layers, their examples and targets."""

from __future__ import annotations

from functools import partial

import torch
from torch import nn

from bln_search.core.tasks import NO_CLASS, RegressionLoss, TaskName
from bln_search.models import MLP
from bln_search.norms import make_norm
from bln_search.norms.network.layers import get_norms_by_name
from bln_search.specs.sections.task import TaskSpec
from tests.evaluation.builders import SIZE
from tests.evaluation.recurrent_builders import VOCABULARY, build_recurrent, draw_sequences

N = 14
"""Examples; the last mini-batch is filled with two of the first."""

OUTPUTS = 3


class NormalDensity(nn.Module):
    """A network that gives the negative log-likelihood of its first features under N(mean, 1)."""

    def __init__(self) -> None:
        super().__init__()
        self.mean = make_mlp()

    def forward(self, x):
        return 0.5 * (x[:, :OUTPUTS] - self.mean(x)).square().sum(1, keepdim=True)


def make_mlp():
    return MLP((5,), OUTPUTS, partial(make_norm, "bln", batch_size=SIZE), widths=(7, 6))


def draw_dense_case(network, draw_targets):
    """Return a network with random γ and β, inputs of N validation and 4·SIZE training examples, and targets."""
    generator = torch.Generator().manual_seed(2)
    for layer in get_norms_by_name(network).values():
        nn.init.normal_(layer.weight, 1, 0.3, generator)
        nn.init.normal_(layer.bias, 0, 0.3, generator)
    inputs = torch.randn(N + 4 * SIZE, 5, generator=generator, dtype=torch.float64)
    return network.double().eval(), inputs[:N], inputs[N:], draw_targets(generator)


def draw_token_case():
    """Return a network with an output for each token, and texts whose padding has no class."""
    network = build_recurrent("gru", classes=OUTPUTS, vocabulary=VOCABULARY, normalize="layers", per_token=True)
    tokens, _ = draw_sequences(N + 4 * SIZE, 2, vocabulary=VOCABULARY)
    targets = (tokens[:N] % OUTPUTS).masked_fill(tokens[:N] == 0, NO_CLASS)
    targets[3] = NO_CLASS
    return network, tokens[:N], tokens[N:], targets


def draw_numbers(generator):
    return torch.randn(N, OUTPUTS, generator=generator)


TASK_CASES = {
    "squared error": (
        TaskSpec(name=TaskName.REGRESSION),
        lambda: draw_dense_case(make_mlp(), draw_numbers),
    ),
    "absolute error": (
        TaskSpec(name=TaskName.REGRESSION, loss=RegressionLoss.ABSOLUTE_ERROR),
        lambda: draw_dense_case(make_mlp(), draw_numbers),
    ),
    "multi_label": (
        TaskSpec(name=TaskName.MULTI_LABEL),
        lambda: draw_dense_case(make_mlp(), lambda generator: (draw_numbers(generator) > 0).float()),
    ),
    "density": (
        TaskSpec(name=TaskName.DENSITY),
        lambda: draw_dense_case(NormalDensity(), lambda _: torch.empty(N, 0)),
    ),
    "token_classification": (TaskSpec(name=TaskName.TOKEN_CLASSIFICATION), draw_token_case),
    "language_model": (TaskSpec(name=TaskName.LANGUAGE_MODEL), draw_token_case),
}
"""The task, and a function that returns a network, inputs, training inputs and targets."""
