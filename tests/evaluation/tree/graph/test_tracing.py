"""A network that cannot be traced is an error that names the module and what can be done."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from bln_search.evaluation.tree.graph.tracing import NotTraceableError, trace_to_root_and_graph
from bln_search.norms import BN


class Branching(nn.Module):
    """Branches on the values of its input."""

    def forward(self, x):
        return x if x.sum() > 0 else -x


class OnSize(nn.Module):
    """Branches on the size of its input."""

    def forward(self, x):
        return x if x.shape[1] > 3 else -x


@pytest.mark.parametrize("kind", [Branching, OnSize])
@pytest.mark.parametrize(
    ("wrap", "named"),
    [
        (lambda kind: nn.Sequential(nn.Linear(6, 6), BN(6), kind()), "its module 2 ({})"),
        (lambda kind: nn.Sequential(nn.Sequential(nn.Linear(6, 6), kind()), BN(6)), "its module 0.1 ({})"),
        (lambda kind: nn.Sequential(kind(), BN(6)), "its module 0 ({})"),
    ],
)
def test_the_module_that_branches_is_named(kind, wrap, named):
    with pytest.raises(NotTraceableError) as raised:
        trace_to_root_and_graph(wrap(kind).eval())
    message = str(raised.value)
    assert f"{named.format(kind.__name__)} cannot be traced (TraceError: symbolically traced variables" in message
    assert "torch.where" in message


def test_a_network_that_branches_itself_is_named():
    class Whole(nn.Sequential):
        def forward(self, x):
            return super().forward(x) if x.sum() > 0 else x

    with pytest.raises(NotTraceableError, match="its own forward pass cannot be traced"):
        trace_to_root_and_graph(Whole(nn.Linear(6, 6), BN(6)).eval())


def test_where_replaces_a_branch():
    class Where(nn.Module):
        def forward(self, x):
            return torch.where(x.sum(1, keepdim=True) > 0, x, -x)

    root, graph = trace_to_root_and_graph(nn.Sequential(nn.Linear(6, 6), BN(6), Where()).eval())
    assert any(node.target == "network.1" for node in graph.nodes)
    assert root is not None
