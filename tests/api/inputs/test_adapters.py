"""Batches and outputs of any structure give the losses of the same network with one tensor, or one error."""

from __future__ import annotations

import copy
from collections import UserDict, namedtuple
from dataclasses import dataclass

import pytest
import torch
from torch import nn
from torch.nn import functional as F

import bln_search
from bln_search.core.errors import DataError, ModelError

SIZE = 6
torch.manual_seed(3)
X, Z, Y = torch.randn(33, 5), torch.randn(33, 4), torch.randint(0, 3, (33,))
MASK = torch.rand(33, 5) > 0.3

Pair = namedtuple("Pair", ["x", "z"])


@dataclass
class Sample:
    x: torch.Tensor
    z: torch.Tensor
    y: torch.Tensor
    name: str = "sample"


class Network(nn.Module):
    """Two inputs and a mask, which meet before and behind normalization layers; output of a given form."""

    def __init__(self, output=lambda scores: scores):
        super().__init__()
        torch.manual_seed(1)
        self.first, self.second, self.head = nn.Linear(5, 8), nn.Linear(4, 8), nn.Linear(8, 3)
        self.norms = nn.ModuleList([bln_search.BLN(8, batch_size=SIZE) for _ in range(2)])
        self.output = output
        with torch.no_grad():
            for norm in self.norms:
                norm.weight.uniform_(0.5, 1.5)
                norm.bias.normal_()

    def forward(self, x, z, mask=None):
        x = x if mask is None else x * mask
        y = torch.tanh(self.norms[0](self.first(x)))
        y = self.norms[1](y + self.second(z))
        return self.output(self.head(y if mask is None else y * mask.float().mean(1, keepdim=True)))


def split(make):
    return [make(slice(start, min(start + SIZE, len(X)))) for start in range(0, len(X), SIZE)]


def keywords(part):
    return {"x": X[part], "z": Z[part], "mask": MASK[part], "labels": Y[part]}


def outcomes(ranked):
    return {(str(key.configuration), key.estimate): value.losses for key, value in ranked.outcomes.items()}


@torch.no_grad()
def expected_outcomes(ranked, network, use_mask):
    """Losses of every applied row by plain passes; the last mini-batch is filled with the first examples."""
    losses = {}
    for row in ranked:
        applied = bln_search.apply_configuration(copy.deepcopy(network), row).eval()
        applied.output = lambda scores: scores
        order = [*range(33), *range(3)]
        scores = torch.cat(
            [applied(X[part], Z[part], MASK[part] if use_mask else None) for part in torch.tensor(order).split(SIZE)]
        )
        losses[str(row.configuration), row.row.estimate] = F.cross_entropy(scores[:33], Y, reduction="none").numpy()
    return losses


def check(network, loader, use_mask=False, train=None, **options):
    ranked = bln_search.evaluate_configurations(network, loader if train is None else train, loader, **options)
    expected = expected_outcomes(ranked, network, use_mask)
    assert outcomes(ranked).keys() == expected.keys()
    assert len(expected) == 16
    for key, losses in outcomes(ranked).items():
        torch.testing.assert_close(torch.from_numpy(losses), torch.from_numpy(expected[key]), rtol=1e-5, atol=1e-5)
    assert len({round(float(losses.mean()), 4) for losses in expected.values()}) > 8
    return ranked


BATCHES = {
    "dictionary": (keywords, {}, True),
    "mapping": (lambda part: UserDict(keywords(part)), {}, True),
    "inputs in a tuple": (lambda part: ((X[part], Z[part]), Y[part]), {}, False),
    "inputs in a dictionary": (lambda part: ({"x": X[part], "z": Z[part]}, Y[part]), {}, False),
    "named tuple": (lambda part: [Pair(X[part], Z[part]), Y[part]], {}, False),
    "three parts": (
        lambda part: (X[part], Z[part], Y[part]),
        {"forward": lambda model, batch: model(batch[0], batch[1]), "target": lambda batch: batch[2]},
        False,
    ),
    "other keys": (
        lambda part: {"a": X[part], "b": Z[part], "y": Y[part]},
        {"forward": lambda model, batch: model(batch["a"], batch["b"]), "target": lambda batch: batch["y"]},
        False,
    ),
    "own target key": (
        lambda part: {"x": X[part], "z": Z[part], "y": Y[part]},
        {"target": lambda batch: batch["y"]},
        False,
    ),
    "dataclass": (
        lambda part: Sample(X[part], Z[part], Y[part]),
        {"forward": lambda model, batch: model(batch.x, batch.z), "target": lambda batch: batch.y},
        False,
    ),
    "constants": (
        lambda part: {"x": X[part], "z": Z[part], "y": Y[part], "scale": torch.tensor(1.0), "epoch": 3},
        {
            "forward": lambda model, batch: model(batch["x"] * batch["scale"], batch["z"]),
            "target": lambda batch: batch["y"],
        },
        False,
    ),
}


@pytest.mark.parametrize("one_pass", [True, False])
@pytest.mark.parametrize("kind", BATCHES)
def test_batches_of_any_structure_are_exact(kind, one_pass):
    make, options, use_mask = BATCHES[kind]
    check(Network(), split(make), use_mask, one_pass=one_pass, **options)


@pytest.mark.parametrize(
    "output",
    [
        lambda scores: {"logits": scores, "hidden": scores * 2},
        lambda scores: {"aux": scores * 2, "out": scores},
        lambda scores: (scores, scores * 2),
        lambda scores: UserDict(logits=scores),
        lambda scores: type("Output", (), {"logits": scores})(),
    ],
    ids=["logits", "out", "tuple", "mapping", "object"],
)
@pytest.mark.parametrize("one_pass", [True, False])
def test_outputs_are_reduced_to_their_tensor(output, one_pass):
    check(Network(output), split(keywords), use_mask=True, one_pass=one_pass)


def test_another_output_is_taken_by_forward():
    network = Network(lambda scores: {"scores": scores})
    check(
        network,
        split(keywords),
        True,
        forward=lambda model, batch: model(batch["x"], batch["z"], batch["mask"])["scores"],
    )


def test_batch_sizes_regroup_structured_examples():
    by_size = bln_search.evaluate_configurations(Network(), split(keywords), split(keywords), batch_sizes=[SIZE, 11])
    expected = expected_outcomes(by_size.at_batch_size(SIZE), Network(), use_mask=True)
    assert {row.batch_size for row in by_size.board.rows} == {SIZE, 11}
    for key, value in by_size.outcomes.items():
        if key.batch_size == SIZE:
            losses = torch.from_numpy(expected[str(key.configuration), key.estimate])
            torch.testing.assert_close(torch.from_numpy(value.losses), losses, rtol=1e-5, atol=1e-5)


def test_a_population_of_dictionaries_needs_no_labels():
    unlabelled = [{key: part for key, part in batch.items() if key != "labels"} for batch in split(keywords)]
    labelled = bln_search.evaluate_configurations(Network(), split(keywords), split(keywords))
    ranked = check(Network(), split(keywords), True, train=unlabelled)
    assert all((outcomes(ranked)[key] == losses).all() for key, losses in outcomes(labelled).items())


def test_a_function_that_calls_the_original_model_is_exact():
    """A copy in double precision is then not possible, as the function does not call it."""
    network = Network()
    check(network, split(keywords), True, forward=lambda _, batch: network(batch["x"], batch["z"], batch["mask"]))


def test_layer_names_are_those_of_the_network():
    ranked = bln_search.evaluate_configurations(Network(), split(keywords), split(keywords))
    assert set(ranked.populations["frozen"]) == {"norms.0", "norms.1"}


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


def test_a_population_of_graphs_includes_every_mini_batch():
    parts = [X[:5], X[5:20], X[20:]]
    graphs = [Graphs(x, torch.zeros(2, 0, dtype=torch.long)) for x in parts]
    network = GraphNetwork()
    ranked = bln_search.evaluate_configurations(network, graphs, [(Graphs(X, EDGES), Y)], one_pass=False, **GRAPH)
    with torch.no_grad():
        expected = torch.stack([network.first(x).double().mean(0) for x in parts]).mean(0)
    mean = ranked.populations["frozen"]["norm"].batch.mean
    torch.testing.assert_close(mean.flatten(), expected, rtol=1e-5, atol=1e-6)


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


def test_batch_sizes_of_objects_are_one_error():
    batch = (Graphs(X, EDGES), Y)
    with pytest.raises(DataError, match="batch_sizes= needs tensors with the examples on their first axis"):
        bln_search.evaluate_configurations(
            GraphNetwork(), [batch[0]], [batch], one_pass=False, batch_sizes=[4], **GRAPH
        )


def test_per_layer_search_of_structured_batches_runs_plain_passes():
    network, data = Network(), split(keywords)
    with pytest.warns(UserWarning, match="mini-batches of several tensors"):
        layered = bln_search.search_layers(network, data, data, search="coordinate", evaluations=40)
    applied = bln_search.apply_configuration(copy.deepcopy(network), layered.best).eval()
    assert set(layered.record.space.layers) == {"norms.0", "norms.1"}
    filled = torch.tensor([*range(33), *range(3)]).split(SIZE)
    with torch.no_grad():
        scores = torch.cat([applied(X[part], Z[part], MASK[part]) for part in filled])[:33]
    assert layered.result.rows[0].loss == pytest.approx(F.cross_entropy(scores, Y).item(), rel=1e-5)


def test_per_layer_search_of_one_tensor_with_another_output_is_traced():
    class Segments(nn.Sequential):
        def forward(self, x):
            return {"out": super().forward(x)}

    torch.manual_seed(0)
    layers = nn.Linear(5, 8), bln_search.BN(8), nn.Tanh(), nn.Linear(8, 6), bln_search.BN(6), nn.Linear(6, 3)
    data = split(lambda part: (X[part], Y[part]))
    layered = bln_search.search_layers(Segments(*layers), data, data)
    expected = bln_search.search_layers(nn.Sequential(*layers), data, data)
    assert layered.result.rows == expected.result.rows
    assert layered.record.space.layers == ("1", "4")


GOOD = split(keywords)


@pytest.mark.parametrize(
    ("train", "validation", "options", "error", "message"),
    [
        (GOOD, [], {}, DataError, "validation_loader yields no mini-batch"),
        ([], GOOD, {}, DataError, "train_loader yields no mini-batch"),
        (GOOD, GOOD, {"test_loader": []}, DataError, "test_loader yields no mini-batch"),
        (GOOD, GOOD, {"forward": 3}, TypeError, "forward has the type int: give a function"),
        (GOOD, GOOD, {"target": "labels"}, TypeError, "target has the type str: give a function"),
        (
            GOOD,
            [{"x": X, "z": Z}],
            {},
            DataError,
            r"validation_loader yields dict\(x: float32 \(33, 5\), z: .*none of the keys labels, .*give target=",
        ),
        (GOOD, [(X, Z, Y)], {}, DataError, r"it yields \(float32 \(33, 5\), .*give target=.*, and forward="),
        (
            GOOD,
            [(X, Z, Y)],
            {"target": lambda batch: batch[2]},
            DataError,
            r"must yield \(inputs, targets\), .*it yields \(float32 \(33, 5\), .*give forward=",
        ),
        (
            GOOD,
            GOOD,
            {"target": lambda batch: batch["y"]},
            DataError,
            r"target= failed for a mini-batch of validation_loader \(KeyError: 'y'\), which is dict\(x: ",
        ),
        (GOOD, GOOD, {"target": lambda batch: [1, 2]}, DataError, "target= returns list: targets are a tensor"),
        (
            GOOD,
            GOOD,
            {"forward": lambda model, batch: model(batch["input"])},
            DataError,
            r"forward= failed for a mini-batch of validation_loader \(KeyError: 'input'\), which is dict\(x: ",
        ),
        (
            GOOD,
            [{**keywords(slice(0, 6)), "weights": Y[:6]}],
            {},
            DataError,
            r"the network failed for a mini-batch of validation_loader \(TypeError: .*'weights'\).*give forward=",
        ),
        (
            GOOD,
            GOOD,
            {"forward": lambda model, batch: {"a": model(batch["x"], batch["z"])}},
            ModelError,
            r"returns dict\(a: float32 \(6, 3\)\).*give forward=",
        ),
        (
            GOOD,
            GOOD,
            {"forward": lambda model, batch: model(batch["x"], batch["z"])[:2]},
            ModelError,
            r"outputs of shape \(2, 3\) for 6 examples",
        ),
        (
            GOOD,
            GOOD,
            {"forward": lambda model, batch: model(batch["x"], batch["z"]).sum()},
            ModelError,
            "single number for a mini-batch",
        ),
        (GOOD, [({"x": X, "z": Z}, Y[:4])], {}, DataError, "validation_loader yields 33 inputs with 4 targets"),
        (
            GOOD,
            [{**keywords(slice(0, 6)), "labels": Y[:6].float()}],
            {},
            DataError,
            "targets of type torch.float32 .* classes are int64",
        ),
        (
            [Sample(X, Z, Y)],
            GOOD,
            {},
            DataError,
            r"train_loader must yield inputs, .*it yields Sample\(x: float32 \(33, 5\), .*give forward=",
        ),
        (
            GOOD,
            [*GOOD[:2], {key: part[:3] for key, part in keywords(slice(12, 18)).items()} | {"x": X[:3, :4]}],
            {},
            DataError,
            "cannot be filled with examples of the first one",
        ),
    ],
)
def test_a_wrong_adapter_or_batch_is_one_error(train, validation, options, error, message):
    with pytest.raises(error, match=message):
        bln_search.evaluate_configurations(Network(), train, validation, **options)


def test_errors_of_the_first_mini_batch_come_before_the_population_pass():
    network, calls = Network(), []
    network.norms[0].register_forward_pre_hook(lambda *_: calls.append(1))
    with pytest.raises(DataError, match="the network has 3 outputs"):
        bln_search.evaluate_configurations(network, GOOD, [{**keywords(slice(0, 6)), "labels": Y[:6] + 7}])
    assert len(calls) == 1
