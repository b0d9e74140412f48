"""Mini-batches of few classes are recognized by their predictions."""

from __future__ import annotations

import pytest
import torch

from bln_search.adaptation.class_concentration import are_classes_balanced, move_concentration

NONE, YES, NO = torch.tensor(0.0), torch.tensor(True), torch.tensor(False)


def certain(classes, number=5):
    return 50.0 * torch.nn.functional.one_hot(torch.tensor(classes), number).float()


def test_concentration_is_one_for_one_class_and_zero_on_average_for_independent_examples():
    assert move_concentration(NONE, certain([2] * 8), None, is_first=YES) == pytest.approx(1)
    generator = torch.Generator().manual_seed(0)
    independent = [certain(torch.randint(5, (16,), generator=generator).tolist()) for _ in range(300)]
    values = torch.stack([move_concentration(NONE, logits, None, is_first=YES) for logits in independent])
    assert values.mean() < 0.02  # negative values are cut
    share = sum(bool(are_classes_balanced(value, x)) for value, x in zip(values, independent, strict=True)) / 300
    assert share > 0.9


def test_shares_of_the_source_count_as_balanced():
    shares = torch.tensor([0.5, 0.5, 0.0, 0.0, 0.0])
    logits = certain([0, 1] * 4)
    assert move_concentration(NONE, logits, shares, is_first=YES) == 0
    assert move_concentration(NONE, logits, None, is_first=YES) > 0.2


def test_average_has_a_memory_and_single_examples_do_not_change_it():
    half = move_concentration(NONE, certain([1] * 8), None, is_first=NO)
    assert half == pytest.approx(0.3)
    assert move_concentration(half, certain([1]), None, is_first=NO) == half
    assert not are_classes_balanced(half, certain([1] * 8))
