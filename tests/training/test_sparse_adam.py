"""Adam over the rows of an embedding is Adam."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn

from bln_search.core.errors import ModelError
from bln_search.specs.training import TrainingSpec
from bln_search.training import sparse_adam
from bln_search.training.optimization import make_optimizer
from bln_search.training.sparse_adam import SparseRowAdam

RATE = 0.01


class Tagged(nn.Module):
    """A table of words and a dense layer behind it."""

    def __init__(self, words=300, dtype=torch.float64):
        super().__init__()
        self.table = nn.Embedding(words, 4, dtype=dtype)
        self.dense = nn.Linear(4, 2, dtype=dtype)

    def forward(self, x):
        return self.dense(self.table(x)).square().sum()


def trained(make, marks, dtype=torch.float64, words=300):
    torch.manual_seed(0)
    network = Tagged(words, dtype)
    optimizer = make(network)
    for step, x in enumerate(marks):
        for group in optimizer.param_groups:
            group["lr"] = RATE / (1 + step / 100)
        optimizer.zero_grad()
        network(x).backward()
        optimizer.step()
    return {name: value.detach().clone() for name, value in network.named_parameters()}


def dense_adam(network):
    return torch.optim.Adam(network.parameters(), lr=RATE)


def by_rows(network):
    return SparseRowAdam(network, RATE)


def drawn(steps, per_step, words, seed=0, frequent=1.3):
    generator = torch.Generator().manual_seed(seed)
    weights = 1 / torch.arange(1, words + 1, dtype=torch.float64) ** frequent
    return [torch.multinomial(weights, per_step, replacement=True, generator=generator) for _ in range(steps)]


def assert_same(marks, words=300, dtype=torch.float64, tolerance=1e-9):
    """What a row at rest would still have moved: 0.9^200 of some steps of at most three times the learning rate."""
    expected = trained(dense_adam, marks, dtype, words)
    found = trained(by_rows, marks, dtype, words)
    for name, value in expected.items():
        torch.testing.assert_close(found[name], value, rtol=0, atol=tolerance)


def test_weights_equal_dense_adam_with_mostly_idle_rows():
    """Few of many words a step: rows fall asleep, wake up, and some are never seen."""
    marks = drawn(700, 2, 300)
    assert len(set(torch.cat(marks).tolist())) < 300
    assert_same(marks)


def test_weights_equal_dense_adam_with_mostly_active_rows():
    assert_same(drawn(300, 200, 300, frequent=0))


def test_weights_equal_dense_adam_across_changes_of_activity():
    assert_same([*drawn(300, 2, 300), *drawn(200, 250, 300, frequent=0), *drawn(600, 2, 300, seed=1)])


def test_a_row_resumes_after_a_long_idle_time():
    rare, often = torch.tensor([7, 7]), torch.tensor([1, 2, 3])
    for gap in (1, 63, 64, 199, 200, 201, 500):
        assert_same([rare, *[often] * gap, rare, often])


def test_single_precision_differs_by_rounding_only():
    assert_same(drawn(600, 3, 300), dtype=torch.float32, tolerance=2e-6)


@settings(max_examples=20, deadline=None)
@given(
    seed=st.integers(0, 1000),
    per_step=st.integers(1, 40),
    words=st.sampled_from([1, 2, 50, 400]),
)
def test_weights_equal_dense_adam_for_any_order_of_rows(seed, per_step, words):
    assert_same(drawn(260, per_step, words, seed), words)


def test_the_tolerance_detects_a_too_short_idle_time():
    """The tolerance of the tests above is tight enough to see rows that rest after ten steps."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sparse_adam, "_IDLE_STEPS", 10)
        patch.setattr(sparse_adam, "_SELECTION_INTERVAL", 4)
        with pytest.raises(AssertionError):
            assert_same(drawn(300, 2, 300))


def test_many_new_rows_at_once_equal_dense_adam():
    """From few rows to all of them between two looks at which rest."""
    every = torch.arange(300)
    assert_same([*drawn(20, 2, 300), every, *drawn(20, 2, 300, seed=1), *drawn(400, 2, 300, seed=2), every[:200]])


@pytest.mark.parametrize("kind", ["scaled", "parametrized"])
def test_embeddings_without_sparse_gradients_use_torchs_adam(kind):
    network = Tagged()
    if kind == "scaled":
        network.table.scale_grad_by_freq = True
    else:
        nn.utils.parametrizations.weight_norm(network.table)
    optimizer = make_optimizer(network, TrainingSpec())
    assert type(optimizer) is torch.optim.Adam
    network(torch.tensor([1, 2, 2])).backward()
    optimizer.step()


def test_the_incomplete_state_dict_is_an_error():
    with pytest.raises(ModelError, match="no state dict"):
        SparseRowAdam(Tagged(), RATE).state_dict()


def test_tied_embeddings_equal_dense_adam():
    def tied(make):
        def made(network):
            network.dense = nn.Linear(4, 300, bias=False, dtype=torch.float64)
            network.dense.weight = network.table.weight
            return make(network)

        return made

    marks = drawn(40, 5, 300)
    expected, found = trained(tied(dense_adam), marks), trained(tied(by_rows), marks)
    torch.testing.assert_close(found["table.weight"], expected["table.weight"], rtol=0, atol=1e-11)


@pytest.mark.parametrize(
    ("network", "spec", "kind"),
    [
        (Tagged(), TrainingSpec(), SparseRowAdam),
        (Tagged(), TrainingSpec(weight_decay=0.1), torch.optim.Adam),
        (Tagged(), TrainingSpec(optimizer="sgd"), torch.optim.SGD),
        (nn.Linear(2, 2), TrainingSpec(), torch.optim.Adam),
    ],
)
def test_the_network_and_spec_select_the_optimizer(network, spec, kind):
    assert type(make_optimizer(network, spec)) is kind


@pytest.mark.parametrize("network", [Tagged(), nn.Linear(2, 2)])
def test_the_default_epsilon_is_torchs(network):
    for spec, epsilon in [(TrainingSpec(), 1e-8), (TrainingSpec(epsilon=1e-3), 1e-3)]:
        assert [group["eps"] for group in make_optimizer(network, spec).param_groups] == [epsilon]


def test_another_epsilon_equals_dense_adam():
    marks = drawn(300, 3, 300)
    expected = trained(lambda network: torch.optim.Adam(network.parameters(), lr=RATE, eps=0.1), marks)
    found = trained(lambda network: SparseRowAdam(network, RATE, 0.1), marks)
    torch.testing.assert_close(found["table.weight"], expected["table.weight"], rtol=0, atol=1e-9)


@pytest.mark.parametrize("spec", [TrainingSpec(weight_decay=0.1), TrainingSpec(optimizer="sgd", momentum=0.9)])
def test_an_embedding_network_trains_with_every_optimizer(spec):
    network = Tagged(dtype=torch.float32)
    before = network.table.weight.detach().clone()
    optimizer = make_optimizer(network, spec)
    network(torch.tensor([1, 2])).backward()
    optimizer.step()
    assert not torch.equal(network.table.weight, before)
