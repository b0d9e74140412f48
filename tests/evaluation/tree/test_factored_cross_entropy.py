"""Cross-entropy from the terms of logits equals that of their sums; the first of equal classes is the answer."""

from __future__ import annotations

import pytest
import torch
from torch.nn import functional as F

from bln_search.evaluation.tree.factored_cross_entropy import try_compute_factored_cross_entropy
from bln_search.norms.row_batching.dense_sum import ClassMajorLogitsAsSums

CLASSES, SIZE, GROUPS = 4, 6, 3
ROWS = tuple((b, f) for f in (1, 0) for b in (0, 1, 2))


def make_terms(levels=None, dtype=torch.float64):
    generator = torch.Generator().manual_seed(0)
    shape = CLASSES, GROUPS, SIZE
    batch, feature = (torch.randn(count, *shape, dtype=dtype, generator=generator) for count in (3, 2))
    if levels:
        batch, feature = (torch.round(term * levels) for term in (batch, feature))
    return ClassMajorLogitsAsSums(tuple(batch), feature, ROWS), torch.randint(
        0, CLASSES, (GROUPS, SIZE), generator=generator
    )


def sums_of_rows(terms):
    return torch.stack([terms.batch[b] + terms.feature[f] for b, f in terms.rows])


def test_losses_and_correctness_equal_those_of_the_sums():
    terms, targets = make_terms()
    losses, correct = try_compute_factored_cross_entropy(terms, targets)
    logits = sums_of_rows(terms).movedim(1, -1)
    for row, expected in enumerate(logits):
        expected_loss = F.cross_entropy(expected.flatten(0, 1), targets.flatten(), reduction="none")
        torch.testing.assert_close(losses[row].flatten(), expected_loss, rtol=1e-12, atol=1e-12)
        torch.testing.assert_close(correct[row], expected.argmax(-1) == targets)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_the_first_of_equal_classes_is_the_answer(dtype):
    terms, targets = make_terms(levels=1, dtype=dtype)
    logits = sums_of_rows(terms)
    assert ((logits == logits.amax(1, keepdim=True)).sum(1) > 1).any()
    _, correct = try_compute_factored_cross_entropy(terms, targets)
    first = (logits == logits.amax(1, keepdim=True)).double().argmax(1)
    torch.testing.assert_close(correct, first == targets)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_classes_with_equal_sums_of_different_terms_are_ties(dtype):
    generator = torch.Generator().manual_seed(0)
    first, second, difference = (
        torch.randint(-1280, 1281, (2000,), generator=generator).to(dtype) / 64 for _ in range(3)
    )  # sums are exact
    batch = torch.stack([first, first + difference])[:, None]
    feature = torch.stack([second, second - difference])[:, None]
    terms = ClassMajorLogitsAsSums((batch,), feature[None], ((0, 0),))
    for target in (0, 1):
        losses, correct = try_compute_factored_cross_entropy(terms, torch.full((1, 2000), target))
        assert torch.equal(correct, torch.full_like(correct, target == 0))
        torch.testing.assert_close(losses, torch.full_like(losses, 2).log(), rtol=16 * torch.finfo(dtype).eps, atol=0)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_classes_with_equal_rounded_sums_are_ties(dtype):
    generator = torch.Generator().manual_seed(0)
    first, second, other, change = torch.rand(4, 20_000, dtype=dtype, generator=generator) * 16 - 8
    last = first + second - other + change * torch.finfo(dtype).eps
    is_tie = first + second == other + last
    first, second, other, last = (term[is_tie] for term in (first, second, other, last))
    terms = ClassMajorLogitsAsSums(
        (torch.stack([first, other])[:, None],), torch.stack([second, last])[None, :, None], ((0, 0),)
    )
    for target in (0, 1):
        _, correct = try_compute_factored_cross_entropy(terms, torch.full((1, len(first)), target))
        assert torch.equal(correct, torch.full_like(correct, target == 0))


def test_where_all_logits_are_equal_the_first_class_is_the_answer():
    terms, targets = make_terms()
    equal = ClassMajorLogitsAsSums(
        tuple(torch.zeros_like(term) for term in terms.batch), torch.zeros_like(terms.feature), ROWS
    )
    _, correct = try_compute_factored_cross_entropy(equal, targets)
    torch.testing.assert_close(correct, (targets == 0).expand_as(correct))


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("sign", [1, -1])
def test_of_nearly_equal_classes_the_larger_is_the_answer(dtype, sign):
    tiny = sign * torch.finfo(dtype).eps / 8
    assert torch.tensor(tiny, dtype=dtype).exp() == 1
    batch = torch.tensor([0.0, tiny], dtype=dtype).view(1, 2, 1, 1)
    terms = ClassMajorLogitsAsSums((batch[0],), torch.zeros_like(batch), ((0, 0),))
    for target in (0, 1):
        _, correct = try_compute_factored_cross_entropy(terms, torch.tensor([[target]]))
        assert bool(correct) == (target == (sign == 1))


def test_overflowing_exponentials_and_unknown_classes_are_not_computed():
    terms, targets = make_terms()
    assert try_compute_factored_cross_entropy(terms, targets + CLASSES) is None
    overflowing = ClassMajorLogitsAsSums(tuple(term * 1e4 for term in terms.batch), terms.feature, terms.rows)
    assert try_compute_factored_cross_entropy(overflowing, targets) is None
