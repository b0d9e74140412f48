"""The memory of NOTE balances classes, and is a uniform sample of each over time."""

from __future__ import annotations

from collections import Counter

import torch

from bln_search.adaptation.prediction_balanced_memory import PredictionBalancedMemory


def fill(labels, capacity=12, seed=0):
    """Return the numbers of the examples that remain."""
    memory = PredictionBalancedMemory(capacity, torch.Generator().manual_seed(seed))
    for number, label in enumerate(labels):
        memory.add(torch.tensor([[number]]), label)
        assert len(memory) <= capacity
    return [int(example) for example in memory.list_examples()]


def test_rare_classes_have_their_share():
    labels = [0] * 100 + [1] * 6 + [2] * 50
    assert Counter(labels[number] for number in fill(labels)) == {0: 4, 1: 4, 2: 4}


def test_each_example_of_a_class_remains_with_the_same_probability():
    counts = Counter(number // 20 for seed in range(150) for number in fill([0] * 100, 10, seed))
    assert all(abs(counts[part] - 300) < 70 for part in range(5))
