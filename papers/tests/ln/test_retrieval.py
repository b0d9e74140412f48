"""Losses, ranks and recall of a retrieval compared with loops over pairs, in double precision."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from bln_search.core.errors import DataError
from bln_search.specs.sections.task import TaskSpec
from bln_search.tasks import make_task
from bln_search.tasks.task_metrics import DimensionsAndTargetDeviation, make_metrics
from bln_search_papers.ln import retrieval
from bln_search_papers.ln.retrieval import RetrievalMetrics, RetrievalScore

N, D, MARGIN = 11, 4, 0.3
SIMILARITIES = ("cosine", "order")


def similarity_of(kind, first, second):
    if kind == "cosine":
        return first @ second / math.sqrt((first @ first) * (second @ second))
    return -sum(max(0.0, b - a) ** 2 for a, b in zip(first, second, strict=True))


def loss_by_loops(kind, outputs, labels, index):
    own, terms = similarity_of(kind, *outputs[index]), []
    for other, label in enumerate(labels):
        if label != labels[index]:
            found = similarity_of(kind, outputs[index, 0], outputs[other, 1])
            finding = similarity_of(kind, outputs[other, 0], outputs[index, 1])
            terms.append(max(0, MARGIN - own + found) + max(0, MARGIN - own + finding))
    return sum(terms) / len(terms) if terms else 0.0


def rank_by_loops(kind, outputs, labels, index, *, by_first):
    def similarity(other):
        pair = (outputs[index, 0], outputs[other, 1]) if by_first else (outputs[other, 0], outputs[index, 1])
        return similarity_of(kind, *pair)

    best = max(similarity(other) for other, label in enumerate(labels) if label == labels[index])
    others = [similarity(other) for other, label in enumerate(labels) if label != labels[index]]
    return 1 + sum(value > best for value in others) + sum(value == best for value in others) / 2


def make_embeddings(seed, labels=5):
    random = np.random.default_rng(seed)
    return random.normal(0.2, 1, (N, 2, D)), random.integers(0, labels, N)


@pytest.mark.parametrize("kind", SIMILARITIES)
@pytest.mark.parametrize("labels", [1, 5, 1000])
@pytest.mark.parametrize("chunk", [1, 3 * N * D, 2**23])
def test_losses_equal_loops_in_chunks_of_any_size(kind, labels, chunk, monkeypatch):
    monkeypatch.setattr(retrieval, "_LARGEST_CHUNK", chunk)
    outputs, targets = make_embeddings(0, labels)

    losses, correct = RetrievalScore(kind, MARGIN).score_examples_together(torch.tensor(outputs), torch.tensor(targets))

    expected = [loss_by_loops(kind, outputs, targets, index) for index in range(N)]
    np.testing.assert_allclose(losses, expected, rtol=1e-10, atol=1e-12)
    assert not correct.any()


@settings(max_examples=25)
@given(seed=st.integers(0, 2**20), kind=st.sampled_from(SIMILARITIES), labels=st.integers(1, 30))
def test_metrics_equal_loops_over_ranks(seed, kind, labels):
    outputs, targets = make_embeddings(seed, labels)
    outputs = outputs.round()  # many equal similarities
    outputs[..., 0] += 0.5  # no embedding is zero, which has no cosine
    metrics = RetrievalMetrics(similarity=kind, margin=MARGIN)
    for rows in (slice(4), slice(4, N)):
        metrics.update(torch.tensor(outputs[rows]), torch.tensor(targets[rows]))

    found = metrics.compute()

    for name, by_first in (("first_to_second", True), ("second_to_first", False)):
        if kind == "order":
            ranks = np.array([rank_by_loops(kind, outputs, targets, i, by_first=by_first) for i in range(N)])
            assert found[f"mean_rank_{name}"] == pytest.approx(ranks.mean())
            assert found[f"recall_at_1_{name}"] == np.mean(ranks <= 1)
            assert found[f"recall_at_10_{name}"] == np.mean(ranks <= 10)
        assert 1 <= found[f"mean_rank_{name}"] <= N
        assert 0 <= found[f"recall_at_1_{name}"] <= found[f"recall_at_10_{name}"] <= 1


@pytest.mark.parametrize("seed", range(4))
def test_ranks_by_cosine_equal_loops(seed):
    outputs, targets = make_embeddings(seed)
    metrics = RetrievalMetrics(similarity="cosine", margin=MARGIN)
    metrics.update(torch.tensor(outputs), torch.tensor(targets))
    ranks = np.array([rank_by_loops("cosine", outputs, targets, i, by_first=True) for i in range(N)])
    assert metrics.compute()["mean_rank_first_to_second"] == pytest.approx(ranks.mean())


def test_equal_embeddings_have_the_mean_rank_of_chance():
    metrics = RetrievalMetrics(similarity="cosine", margin=MARGIN)
    metrics.update(torch.ones(9, 2, D), torch.arange(9))
    values = metrics.compute()
    assert values["mean_rank_first_to_second"] == 5
    assert values["recall_at_1_first_to_second"] == 0


def test_embeddings_that_are_not_finite_have_no_metrics():
    outputs, targets = make_embeddings(0)
    outputs[3, 1, 0] = math.nan
    metrics = RetrievalMetrics(similarity="order", margin=MARGIN)
    metrics.update(torch.tensor(outputs), torch.tensor(targets))
    assert all(math.isnan(value) for value in metrics.compute().values())
    metrics.reset()
    assert metrics.compute() == {}


@pytest.mark.parametrize("kind", SIMILARITIES)
def test_training_minimizes_the_mean_of_the_mini_batch(kind):
    spec = TaskSpec(name="retrieval", similarity=kind, margin=MARGIN)
    outputs, targets = make_embeddings(1)
    tensor = torch.tensor(outputs, requires_grad=True)

    loss = make_task(spec).mean_loss(tensor, torch.tensor(targets))

    assert loss.item() == pytest.approx(np.mean([loss_by_loops(kind, outputs, targets, i) for i in range(N)]))
    assert torch.autograd.gradcheck(lambda x: make_task(spec).mean_loss(x, torch.tensor(targets)), tensor)


def test_every_described_metric_is_computed():
    spec = TaskSpec(name="retrieval")
    ((name, metric),) = make_metrics(spec, DimensionsAndTargetDeviation(None)).items()
    metric.update(torch.randn(N, 2, D), torch.arange(N))
    assert name == "recall_at_1_first_to_second"
    assert list(metric.compute()) == [described.name for described in spec.description.metrics]


@pytest.mark.parametrize(("outputs", "targets"), [((5, 2), (5,)), ((5, 3, 4), (5,)), ((5, 2, 4), (5, 1))])
def test_other_shapes_are_one_error(outputs, targets):
    score = RetrievalScore("cosine", MARGIN)
    with pytest.raises(DataError, match="two embeddings"):
        score.score_examples_together(torch.zeros(outputs), torch.zeros(targets, dtype=torch.int64))
