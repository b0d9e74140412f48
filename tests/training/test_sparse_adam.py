"""Sparse Adam equals dense Adam on embeddings."""

from __future__ import annotations

from copy import deepcopy

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn

from bln_search.specs.sections.training import TrainingSpec
from bln_search.training.optimization import make_optimizer
from bln_search.training.sparse_adam import SparseRowAdam
from tests.support.tiers import latin, thinned

RATE = 0.01


class Embedded(nn.Module):
    """An embedding and a dense layer."""

    def __init__(self, num_rows=300, dtype=torch.float64):
        super().__init__()
        self.table = nn.Embedding(num_rows, 4, dtype=dtype)
        self.dense = nn.Linear(4, 2, dtype=dtype)

    def forward(self, x):
        return self.dense(self.table(x)).square().sum()


def train_weights(make_optimizer, batches, dtype=torch.float64, num_rows=300):
    """Train on mini-batches of row indices; return the weights."""
    torch.manual_seed(0)
    network = Embedded(num_rows, dtype)
    optimizer = make_optimizer(network)
    for step, x in enumerate(batches):
        for group in optimizer.param_groups:
            group["lr"] = RATE / (1 + step / 100)
        optimizer.zero_grad()
        network(x).backward()
        optimizer.step()
    return {name: value.detach().clone() for name, value in network.named_parameters()}


def dense_adam_optimizer(network):
    return torch.optim.Adam(network.parameters(), lr=RATE)


def sparse_adam_optimizer(network):
    return SparseRowAdam(network, RATE)


def draw_rows(steps, per_step, num_rows, seed=0, exponent=1.3):
    """Draw row indices with frequencies proportional to rank^(−exponent)."""
    generator = torch.Generator().manual_seed(seed)
    weights = 1 / torch.arange(1, num_rows + 1, dtype=torch.float64) ** exponent
    return [torch.multinomial(weights, per_step, replacement=True, generator=generator) for _ in range(steps)]


def assert_equals_dense_adam(batches, num_rows=300, dtype=torch.float64, tolerance=1e-9):
    """The tolerance covers updates of inactive rows: 0.9^200 of a few steps of at most 3·learning rate."""
    expected = train_weights(dense_adam_optimizer, batches, dtype, num_rows)
    weights = train_weights(sparse_adam_optimizer, batches, dtype, num_rows)
    for name, value in expected.items():
        torch.testing.assert_close(weights[name], value, rtol=0, atol=tolerance)


def test_weights_equal_dense_adam_with_mostly_idle_rows():
    """Rows become inactive and active again, and some never get a gradient."""
    batches = draw_rows(700, 2, 300)
    assert len(set(torch.cat(batches).tolist())) < 300
    assert_equals_dense_adam(batches)


def test_weights_equal_dense_adam_with_mostly_active_rows():
    assert_equals_dense_adam(draw_rows(300, 200, 300, exponent=0))


def test_weights_equal_dense_adam_across_changes_of_activity():
    assert_equals_dense_adam(
        [*draw_rows(300, 2, 300), *draw_rows(200, 250, 300, exponent=0), *draw_rows(600, 2, 300, seed=1)]
    )


@pytest.mark.slow
def test_a_row_resumes_after_a_long_idle_time():
    rare, frequent = torch.tensor([7, 7]), torch.tensor([1, 2, 3])
    for gap in (1, 63, 64, 199, 200, 201, 500):
        assert_equals_dense_adam([rare, *[frequent] * gap, rare, frequent])


def test_single_precision_differs_by_rounding_only():
    assert_equals_dense_adam(draw_rows(600, 3, 300), dtype=torch.float32, tolerance=2e-6)


@pytest.mark.slow
@settings(max_examples=20, deadline=None)
@given(
    seed=st.integers(0, 1000),
    per_step=st.integers(1, 40),
    num_rows=st.sampled_from([1, 2, 50, 400]),
)
def test_weights_equal_dense_adam_for_any_order_of_rows(seed, per_step, num_rows):
    assert_equals_dense_adam(draw_rows(260, per_step, num_rows, seed), num_rows)


def test_many_new_rows_at_once_equal_dense_adam():
    """All rows become active between two selections of the active rows."""
    all_rows = torch.arange(300)
    assert_equals_dense_adam(
        [
            *draw_rows(20, 2, 300),
            all_rows,
            *draw_rows(20, 2, 300, seed=1),
            *draw_rows(400, 2, 300, seed=2),
            all_rows[:200],
        ]
    )


@pytest.mark.parametrize("obstacle", ["scaled gradient", "parametrized weight"])
def test_embeddings_without_sparse_gradients_use_torchs_adam(obstacle):
    network = Embedded()
    if obstacle == "scaled gradient":
        network.table.scale_grad_by_freq = True
    else:
        nn.utils.parametrizations.weight_norm(network.table)
    optimizer = make_optimizer(network, TrainingSpec())
    assert type(optimizer) is torch.optim.Adam
    network(torch.tensor([1, 2, 2])).backward()
    optimizer.step()


@pytest.mark.parametrize(("interruption", "exponent"), thinned(latin([1, 63, 64, 65, 200, 330], [0, 1.3]), 2))
def test_a_restored_state_continues_bit_for_bit(exponent, interruption):
    batches = draw_rows(400, 200 if exponent == 0 else 2, 300, exponent=exponent)
    torch.manual_seed(0)
    network = Embedded(dtype=torch.float32)
    expected, optimizer = deepcopy(network), sparse_adam_optimizer(network)
    train_further(expected, sparse_adam_optimizer(expected), batches)
    train_further(network, optimizer, batches[:interruption])
    stored = deepcopy(optimizer.state_dict())
    restored = deepcopy(network)
    other = sparse_adam_optimizer(restored)
    other.load_state_dict(stored)
    train_further(restored, other, batches[interruption:])
    for name, value in expected.named_parameters():
        assert torch.equal(restored.get_parameter(name), value)


def train_further(network, optimizer, batches):
    for x in batches:
        optimizer.zero_grad()
        network(x).backward()
        optimizer.step()


def test_tied_embeddings_equal_dense_adam():
    """The embedding shares its weights with a dense layer, whose gradient is dense."""

    def tie_weights(make_optimizer):
        def tie_and_make(network):
            network.dense = nn.Linear(4, 300, bias=False, dtype=torch.float64)
            network.dense.weight = network.table.weight
            return make_optimizer(network)

        return tie_and_make

    batches = draw_rows(40, 5, 300)
    expected = train_weights(tie_weights(dense_adam_optimizer), batches)
    weights = train_weights(tie_weights(sparse_adam_optimizer), batches)
    torch.testing.assert_close(weights["table.weight"], expected["table.weight"], rtol=0, atol=1e-11)


@pytest.mark.parametrize(
    ("network", "spec", "optimizer_type"),
    [
        (Embedded(), TrainingSpec(), SparseRowAdam),
        (Embedded(), TrainingSpec(weight_decay=0.1), torch.optim.Adam),
        (Embedded(), TrainingSpec(optimizer="sgd"), torch.optim.SGD),
        (nn.Linear(2, 2), TrainingSpec(), torch.optim.Adam),
    ],
)
def test_the_network_and_spec_select_the_optimizer_with_their_epsilon(network, spec, optimizer_type):
    assert type(make_optimizer(network, spec)) is optimizer_type
    for epsilon, expected in ((None, 1e-8), (1e-3, 1e-3)) if spec.optimizer == "adam" else ():
        optimizer = make_optimizer(network, spec.model_copy(update={"epsilon": epsilon}))
        assert [group["eps"] for group in optimizer.param_groups] == [expected]
