"""The memory of RoTTA keeps recent, certain examples of every class, as a loop over its rules does."""

from __future__ import annotations

import math
import random

import pytest
import torch

from bln_search.adaptation.category_balanced_memory import CategoryBalancedMemory


def remember(memory, item, classes, capacity, age_weight, uncertainty_weight):
    """Add an item, which is [label, x, uncertainty, age], to a list by the rules of CSTU."""

    def score(it):
        return age_weight / (1 + math.exp(-it[3] / capacity)) + uncertainty_weight * it[2] / math.log(classes)

    counts = [sum(it[0] == c for it in memory) for c in range(classes)]
    if counts[item[0]] < capacity / classes and len(memory) < capacity:
        memory.append(item)
    else:
        majority = [c for c in range(classes) if counts[c] == max(counts)]
        worst = None
        for c in [item[0]] if counts[item[0]] >= capacity / classes else majority:
            for it in memory:
                if it[0] == c and (worst is None or score(it) >= score(worst)):
                    worst = it
        if score(worst) > score(item):
            memory[:] = [it for it in memory if it is not worst]
            memory.append(item)
    for it in memory:
        it[3] += 1


@pytest.mark.parametrize(("classes", "capacity"), [(3, 9), (4, 10), (5, 3), (2, 1)])
@pytest.mark.parametrize("age_weight", [1.0, 0.0])
def test_memory_is_that_of_the_papers_algorithm(classes, capacity, age_weight):
    generator = random.Random(classes)
    memory, items = CategoryBalancedMemory(capacity, classes, age_weight, 1.0), []
    for number in range(200):
        label = min(int(generator.expovariate(1)), classes - 1)
        uncertainty = round(generator.uniform(0, math.log(classes)), 1)
        memory.add(torch.tensor([[number]]), label, uncertainty)
        remember(items, [label, number, uncertainty, 0], classes, capacity, age_weight, 1.0)
        expected = [(it[1], it[2], it[3]) for c in range(classes) for it in items if it[0] == c]
        assert [(int(e.inputs), e.uncertainty, e.age) for e in memory.list_examples()] == expected
        assert len(memory) <= capacity


def test_examples_without_a_number_as_entropy_do_not_make_it_grow():
    memory = CategoryBalancedMemory(4, 2, 1.0, 1.0)
    for number in range(20):
        memory.add(torch.tensor([[number]]), number % 2, math.nan)
    assert len(memory) == 4
