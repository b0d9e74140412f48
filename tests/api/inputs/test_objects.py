"""Mini-batches that are objects of another library, or tensors of a subclass."""

from __future__ import annotations

import pytest
import torch
from torch import nn
from torch.nn import functional as F

import bln_search
from bln_search.core.errors import DataError, ModelError
from tests.api.inputs.structured import (
    Network,
    X,
    Y,
    keywords,
    outcomes,
    split,
)


class Graphs:
    """Like a batch of a graph library: no structure of tensors, moved by `to`."""

    def __init__(self, nodes, edges):
        self.nodes, self.edges = nodes, edges

    def to(self, device):
        return Graphs(self.nodes.to(device), self.edges.to(device))


class GraphNetwork(nn.Module):
    def __init__(self):
        super().__init__()
        torch.manual_seed(2)
        self.first, self.norm, self.head = nn.Linear(5, 8), bln_search.BLN(8, batch_size=33), nn.Linear(8, 3)

    def forward(self, graphs):
        source, target = graphs.edges
        y = self.norm(self.first(graphs.nodes))
        return self.head(torch.tanh(y + torch.zeros_like(y).index_add(0, target, y[source])))


GRAPH = {
    "forward": lambda model, batch: model(batch[0] if isinstance(batch, tuple) else batch),
    "target": lambda batch: batch[1],
}
EDGES = torch.randint(0, 33, (2, 40), generator=torch.Generator().manual_seed(0))


def test_objects_are_evaluated_one_by_one_and_exactly():
    batch = (Graphs(X, EDGES), Y)
    ranked = bln_search.evaluate_configurations(GraphNetwork(), [batch[0]], [batch], one_pass=False, **GRAPH)
    for row in ranked:
        network = bln_search.apply_configuration(GraphNetwork(), row).eval()
        with torch.no_grad():
            losses = F.cross_entropy(network(batch[0]), Y, reduction="none")
        got = outcomes(ranked)[str(row.configuration), row.row.estimate]
        torch.testing.assert_close(torch.from_numpy(got), losses, rtol=1e-5, atol=1e-5)


def test_slots_of_graphs_are_one_error_before_any_pass():
    batch = (Graphs(X, EDGES), Y)
    with pytest.raises(DataError, match="per_slot=True needs the examples on the first axis"):
        bln_search.evaluate_configurations(GraphNetwork(), [batch[0]], [batch], one_pass=False, per_slot=True, **GRAPH)


class Tagged(torch.Tensor):
    """A tensor whose shape and type can be read, but that no operation may use, like MONAI's MetaTensor."""

    @classmethod
    def __torch_function__(cls, func, types, args=(), kwargs=None):
        assert func.__name__ in ("__get__", "__len__", "is_floating_point"), (
            f"{func} was called with a tensor of a subclass"
        )
        return super().__torch_function__(func, types, args, kwargs or {})


def test_tensors_of_a_subclass_are_evaluated_as_plain_ones():
    def tagged(part):
        with torch._C.DisableTorchFunctionSubclass():
            return {key: value.as_subclass(Tagged) for key, value in keywords(part).items()}

    with torch._C.DisableTorchFunctionSubclass():
        batches = split(tagged)
    assert type(batches[0]["x"]) is Tagged
    network = Network()
    ranked = bln_search.evaluate_configurations(network, split(keywords), split(keywords))
    assert all(
        (outcomes(ranked)[key] == losses).all()
        for key, losses in outcomes(bln_search.evaluate_configurations(network, batches, batches)).items()
    )


def test_objects_in_the_one_pass_are_one_error_before_any_pass():
    network, calls = GraphNetwork(), []
    network.register_forward_pre_hook(lambda *_: calls.append(1))
    batch = (Graphs(X, EDGES), Y)
    with pytest.raises(ModelError, match=r"these have \(Graphs, int64 \(33,\)\): evaluate with one_pass=False"):
        bln_search.evaluate_configurations(network, [batch[0]], [batch], **GRAPH)
    assert not calls
