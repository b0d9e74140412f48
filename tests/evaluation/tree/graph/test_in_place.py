"""Operations that write into an argument are found by name, operator, keyword and module."""

from __future__ import annotations

import operator

import pytest
import torch
from torch import fx, nn
from torch.nn import functional as F

from bln_search.evaluation.tree.graph.in_place import find_written_argument

ROOT = nn.ModuleDict({"writes": nn.ReLU(inplace=True), "reads": nn.ReLU()})


@pytest.mark.parametrize(
    ("op", "target", "kwargs", "writes"),
    [
        ("call_method", "add_", {}, True),
        ("call_method", "add", {}, False),
        ("call_method", "__add__", {}, False),
        ("call_function", F.relu_, {}, True),
        ("call_function", F.relu, {"inplace": True}, True),
        ("call_function", F.relu, {"inplace": False}, False),
        ("call_function", operator.iadd, {}, True),
        ("call_function", operator.setitem, {}, True),
        ("call_function", operator.add, {}, False),
        ("call_function", torch.add, {}, False),
        ("call_module", "writes", {}, True),
        ("call_module", "reads", {}, False),
    ],
)
def test_the_first_argument_is_written_in_place(op, target, kwargs, writes):
    graph = fx.Graph()
    x = graph.placeholder("x")
    node = graph.create_node(op, target, (x,), kwargs)
    assert find_written_argument(node, ROOT) is (x if writes else None)


def test_the_output_argument_is_written():
    graph = fx.Graph()
    x, out = graph.placeholder("x"), graph.placeholder("out")
    assert find_written_argument(graph.call_function(torch.add, (x, x), {"out": out}), ROOT) is out
