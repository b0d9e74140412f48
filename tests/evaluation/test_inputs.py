"""Structures of tensors are sliced, concatenated and compared like one tensor."""

from __future__ import annotations

from collections import OrderedDict

import pytest
import torch

from bln_search.evaluation.inputs import (
    can_fill,
    concatenate,
    describe_inputs,
    have_same_form,
    have_same_shape,
    structured_inputs,
    to_double,
)


def structure(n=6, width=3, scale=1.0):
    x = torch.arange(float(n * width)).view(n, width)
    return {"x": x, "parts": [x[:, 0].long(), (x[:, 1:],)], "scale": torch.tensor(scale), "name": "a"}


def test_a_structure_is_rebuilt_in_its_own_types():
    value = OrderedDict(structure())
    built = structured_inputs(value).build()
    assert type(built) is OrderedDict
    assert type(built["parts"][1]) is tuple
    assert built["name"] == "a"
    assert torch.equal(built["parts"][1][0], value["x"][:, 1:])


def test_slices_of_a_structure_concatenate_to_it():
    inputs = structured_inputs(structure())
    joined = concatenate([inputs[:4], inputs[4:]])
    assert [len(inputs[:4]), len(inputs[4:]), len(joined)] == [4, 2, 6]
    assert all(map(torch.equal, joined.tensors, inputs.tensors))
    picked = inputs[torch.tensor([5, 0])]
    assert len(picked) == 2
    assert torch.equal(picked.tensors[0], inputs.tensors[0][[5, 0]])


def test_a_clone_shares_no_tensor():
    inputs = structured_inputs(structure())
    inputs.clone().tensors[0].zero_()
    assert inputs.tensors[0].sum() > 0


def test_forms_differ_by_shape_constant_and_key():
    inputs = structured_inputs(structure())
    assert have_same_form(inputs, structured_inputs(structure(n=4)))
    assert not have_same_shape(inputs, structured_inputs(structure(n=4)))
    assert not have_same_form(inputs, structured_inputs(structure(width=4)))
    assert not have_same_form(inputs, structured_inputs(structure(scale=2.0)))
    assert not have_same_form(inputs, structured_inputs(structure() | {"name": "b"}))
    assert can_fill(inputs, structured_inputs(structure() | {"name": "b"}))
    assert not have_same_form(inputs, structure()["x"])


@pytest.mark.parametrize(
    "value", [{"x": torch.zeros(6, 2), "edges": torch.zeros(2, 9)}, {"x": torch.zeros(6), "o": object()}]
)
def test_other_axes_and_objects_cannot_be_sliced(value):
    inputs = structured_inputs(value, 6)
    assert not inputs.examples_first
    assert not have_same_form(inputs, inputs)
    with pytest.raises(TypeError, match="examples are not on the first axis"):
        inputs[:2]


def test_double_precision_leaves_ids_and_refuses_objects():
    inputs = to_double(structured_inputs(structure()))
    assert [tensor.dtype for tensor in inputs.tensors] == [torch.float64, torch.int64, torch.float64, torch.float64]
    with pytest.raises(TypeError, match="object"):
        to_double(structured_inputs({"x": torch.zeros(2), "o": object()}))


def test_a_description_has_keys_and_shapes():
    text = describe_inputs(structured_inputs(structure()))
    assert text == ("dict(x: float32 (6, 3), parts: (int64 (6,), (float32 (6, 2))), scale: float32 (), name: str)")
