"""Nodes of the tree with their values, by position."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from bln_search.evaluation.tree.node_activations import NodeActivations


@pytest.fixture
def paths():
    """Four nodes with three examples each, a number, and a tensor without axes."""
    return NodeActivations(np.array([3, 5, 6, 9]), [torch.arange(24).view(12, 2), 7, torch.tensor(1.5)])


def examples_of(positions):
    return torch.arange(24).view(4, 3, 2)[positions].reshape(-1, 2)


@pytest.mark.parametrize(("start", "stop"), [(0, 2), (1, 4), (2, 9), (1, 2), (0, 4), (0, 9)])
def test_a_slice_holds_the_examples_of_its_nodes(paths, start, stop):
    part = paths.slice_nodes(start, stop)
    assert part.ids.tolist() == [3, 5, 6, 9][start:stop]
    assert torch.equal(part.values[0], examples_of(list(range(4))[start:stop]))
    assert part.values[1:] == paths.values[1:]


@pytest.mark.parametrize("positions", [[0], [3, 1], [0, 1, 2, 3], [2, 2]])
def test_a_selection_holds_the_examples_of_its_nodes(paths, positions):
    part = paths.select_nodes(np.array(positions))
    assert part.ids.tolist() == [[3, 5, 6, 9][position] for position in positions]
    assert torch.equal(part.values[0], examples_of(positions))
    assert part.values[1:] == paths.values[1:]


def test_a_copy_is_changed_alone(paths):
    copy = paths.copy()
    copy.values[0].zero_()
    assert torch.equal(paths.values[0], examples_of([0, 1, 2, 3]))
