"""Batches and outputs of any structure give the losses of the same network with one tensor, or one error."""

from __future__ import annotations

import copy
from collections import UserDict

import pytest
import torch
from torch.nn import functional as F

import bln_search
from tests.api.inputs.structured import (
    MASK,
    SIZE,
    Network,
    Pair,
    Sample,
    X,
    Y,
    Z,
    check,
    keywords,
    outcomes,
    split,
)
from tests.support.tiers import latin, thinned

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


@pytest.mark.parametrize(("kind", "one_pass"), thinned(latin(tuple(BATCHES), [True, False]), 2))
def test_batches_of_any_structure_are_exact(kind, one_pass):
    make, options, use_mask = BATCHES[kind]
    check(Network(), split(make), use_mask, one_pass=one_pass, **options)


OUTPUTS = {
    "logits": lambda scores: {"logits": scores, "hidden": scores * 2},
    "out": lambda scores: {"aux": scores * 2, "out": scores},
    "tuple": lambda scores: (scores, scores * 2),
    "mapping": lambda scores: UserDict(logits=scores),
    "object": lambda scores: type("Output", (), {"logits": scores})(),
}


@pytest.mark.parametrize(("output", "one_pass"), latin(tuple(OUTPUTS), [True, False]))
def test_outputs_are_reduced_to_their_tensor(output, one_pass):
    check(Network(OUTPUTS[output]), split(keywords), use_mask=True, one_pass=one_pass)


def test_a_population_of_dictionaries_needs_no_labels():
    unlabelled = [{key: part for key, part in batch.items() if key != "labels"} for batch in split(keywords)]
    labelled = bln_search.evaluate_configurations(Network(), split(keywords), split(keywords))
    ranked = check(Network(), split(keywords), True, train=unlabelled)
    assert all((outcomes(ranked)[key] == losses).all() for key, losses in outcomes(labelled).items())


def test_a_function_that_calls_the_original_model_is_exact():
    """A copy in double precision is then not possible, as the function does not call it."""
    network = Network()
    check(network, split(keywords), True, forward=lambda _, batch: network(batch["x"], batch["z"], batch["mask"]))


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
