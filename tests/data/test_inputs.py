"""Structures of tensors are sliced, concatenated and compared like one tensor."""

from __future__ import annotations

from collections import OrderedDict

import pytest
import torch

from bln_search.data.inputs import (
    can_append_examples,
    concatenate_inputs,
    convert_to_double,
    describe_inputs,
    have_same_form,
    have_same_shape,
    make_structured_inputs,
)


def structure(n=6, width=3, scale=1.0):
    x = torch.arange(float(n * width)).view(n, width)
    return {"x": x, "parts": [x[:, 0].long(), (x[:, 1:],)], "scale": torch.tensor(scale), "name": "a"}


def test_a_structure_is_rebuilt_in_its_own_types():
    value = OrderedDict(structure())
    built = make_structured_inputs(value).build_structure()
    assert type(built) is OrderedDict
    assert type(built["parts"][1]) is tuple
    assert built["name"] == "a"
    assert torch.equal(built["parts"][1][0], value["x"][:, 1:])


def test_slices_of_a_structure_concatenate_to_it():
    inputs = make_structured_inputs(structure())
    joined = concatenate_inputs([inputs[:4], inputs[4:]])
    assert [len(inputs[:4]), len(inputs[4:]), len(joined)] == [4, 2, 6]
    assert all(map(torch.equal, joined.tensors, inputs.tensors))
    picked = inputs[torch.tensor([5, 0])]
    assert len(picked) == 2
    assert torch.equal(picked.tensors[0], inputs.tensors[0][[5, 0]])


def test_a_clone_shares_no_tensor():
    inputs = make_structured_inputs(structure())
    inputs.clone().tensors[0].zero_()
    assert inputs.tensors[0].sum() > 0


def test_forms_differ_by_shape_constant_and_key():
    inputs = make_structured_inputs(structure())
    assert have_same_form(inputs, make_structured_inputs(structure(n=4)))
    assert not have_same_shape(inputs, make_structured_inputs(structure(n=4)))
    assert not have_same_form(inputs, make_structured_inputs(structure(width=4)))
    assert not have_same_form(inputs, make_structured_inputs(structure(scale=2.0)))
    assert not have_same_form(inputs, make_structured_inputs(structure() | {"name": "b"}))
    assert can_append_examples(inputs, make_structured_inputs(structure() | {"name": "b"}))
    assert not have_same_form(inputs, structure()["x"])


@pytest.mark.parametrize(
    "value", [{"x": torch.zeros(6, 2), "edges": torch.zeros(2, 9)}, {"x": torch.zeros(6), "o": object()}]
)
def test_other_axes_and_objects_cannot_be_sliced(value):
    inputs = make_structured_inputs(value, 6)
    assert not inputs.examples_first
    assert not have_same_form(inputs, inputs)
    with pytest.raises(TypeError, match="examples are not on the first axis"):
        inputs[:2]


def test_double_precision_leaves_ids_and_refuses_objects():
    inputs = convert_to_double(make_structured_inputs(structure()))
    assert [tensor.dtype for tensor in inputs.tensors] == [torch.float64, torch.int64, torch.float64, torch.float64]
    with pytest.raises(TypeError, match="object"):
        convert_to_double(make_structured_inputs({"x": torch.zeros(2), "o": object()}))


def test_a_description_has_keys_and_shapes():
    text = describe_inputs(make_structured_inputs(structure()))
    assert text == ("dict(x: float32 (6, 3), parts: (int64 (6,), (float32 (6, 2))), scale: float32 (), name: str)")
