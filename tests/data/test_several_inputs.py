"""Data sets whose examples have several inputs: fields of a structured array become tensors with names."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch
from torch import nn

from bln_search.core.enums import Split
from bln_search.core.errors import DataError, ModelError
from bln_search.data.cache import find_cached_data_set, try_write_cached_data_set
from bln_search.data.dataset import DataSet
from bln_search.data.input_shape import InputField, make_zero_inputs, require_single_tensor_for_purpose
from bln_search.data.inputs import StructuredInputs
from bln_search.data.prepared import fit_standardizer, prepare_data_set
from bln_search.models import build_model
from bln_search.specs import DataSpec
from bln_search.specs.sections.data import Standardization
from bln_search.specs.sections.training import AugmentationSpec
from bln_search.training.augmentation import Augmentation

FIELDS = np.dtype(
    [("image", "u1", (1, 2, 3)), ("speed", "f8", (2,)), ("text", "u2", (4,)), ("length", "u2"), ("mask", "?", (4,))]
)


def make_inputs(examples: int, seed: int) -> np.ndarray:
    random = np.random.default_rng(seed)
    inputs = np.zeros(examples, FIELDS)
    inputs["image"] = random.integers(0, 256, (examples, 1, 2, 3))
    inputs["speed"] = random.normal(5, 2, (examples, 2))
    inputs["text"] = random.integers(0, 40_000, (examples, 4))
    inputs["length"] = random.integers(1, 5, examples)
    inputs["mask"] = random.random((examples, 4)) < 0.5
    return inputs


def make_data_set(**changes: object) -> DataSet:
    labels = np.arange(40) % 2
    data = DataSet("fields", ("a", "b"), make_inputs(40, 0), labels, make_inputs(20, 1), labels[:20])
    return replace(data, **changes)  # type: ignore[arg-type]


SPEC = DataSpec(name="digits", validation=10)


def prepared_fields(split: Split, spec: DataSpec = SPEC) -> StructuredInputs:
    inputs = prepare_data_set(make_data_set(), spec).splits[split][0]
    assert isinstance(inputs, StructuredInputs)
    return inputs


def test_each_field_becomes_a_tensor_of_its_type() -> None:
    inputs = prepared_fields(Split.TEST)
    raw = make_data_set().test_inputs

    assert len(inputs) == 20
    assert {name: inputs[name].dtype for name in FIELDS.names or ()} == {
        "image": torch.float32,
        "speed": torch.float32,
        "text": torch.int64,
        "length": torch.int64,
        "mask": torch.bool,
    }
    for name in ("text", "length", "mask"):
        np.testing.assert_array_equal(inputs[name].numpy(), raw[name])


@pytest.mark.parametrize("name", ["image", "speed"])
def test_measurements_are_standardized_by_the_training_examples_field_by_field(name: str) -> None:
    inputs = prepared_fields(Split.TRAIN)[name].double()

    np.testing.assert_allclose(inputs.mean(0), 0, atol=1e-6)
    np.testing.assert_allclose(inputs.std(0, correction=0), 1, atol=1e-6)


def test_without_standardization_only_bytes_are_divided() -> None:
    inputs = prepared_fields(Split.TEST, SPEC.model_copy(update={"standardization": Standardization.NONE}))
    raw = make_data_set().test_inputs

    np.testing.assert_allclose(inputs["image"].numpy(), raw["image"] / 255, rtol=1e-6)
    np.testing.assert_allclose(inputs["speed"].numpy(), raw["speed"], rtol=1e-6)


def test_examples_of_all_fields_are_selected_together() -> None:
    inputs = prepared_fields(Split.TEST)

    chosen = inputs[torch.tensor([3, 1])]

    assert len(chosen) == 2
    for name in FIELDS.names or ():
        torch.testing.assert_close(chosen[name], inputs[name][[3, 1]])


def test_the_cache_keeps_all_fields(tmp_path: object) -> None:
    data = make_data_set(remarks=("a remark",))
    try_write_cached_data_set(tmp_path, "1", data)  # type: ignore[arg-type]

    cached = find_cached_data_set(tmp_path, "fields", "1", data.classes)  # type: ignore[arg-type]

    assert cached is not None
    assert cached.train_inputs.dtype == FIELDS
    np.testing.assert_array_equal(cached.train_inputs, data.train_inputs)
    assert cached.sha256 == data.sha256


def test_the_hash_depends_on_values_and_names_of_fields() -> None:
    data = make_data_set()
    renamed = np.dtype([(name.replace("speed", "rate"), *rest) for name, *rest in FIELDS.descr])
    other = data.train_inputs.copy()
    other["length"][0] += 1

    hashes = {
        data.sha256,
        make_data_set(train_inputs=data.train_inputs.view(renamed)).sha256,
        make_data_set(train_inputs=other).sha256,
    }

    assert len(hashes) == 3


def test_input_shape_has_a_field_for_each_name() -> None:
    shape = make_data_set().input_shape

    assert not isinstance(shape, tuple)
    assert shape["image"] == InputField((1, 2, 3), torch.float32)
    assert shape["length"] == InputField((), torch.int64)
    zeros = make_zero_inputs(shape, 3, is_text=False)
    assert isinstance(zeros, StructuredInputs)
    assert {name: tuple(zeros[name].shape) for name in shape} == {
        name: (3, *field.shape) for name, field in shape.items()
    }


def with_nan() -> np.ndarray:
    inputs = make_inputs(40, 0)
    inputs["speed"][7, 1] = np.nan
    return inputs


@pytest.mark.parametrize(
    ("changes", "named"),
    [
        ({"train_inputs": with_nan()}, "speed"),
        ({"test_inputs": make_inputs(20, 1)[["image", "speed"]]}, "test_inputs"),
        ({"test_inputs": make_inputs(20, 1).reshape(10, 2)}, "test_inputs"),
        ({"train_inputs": np.zeros(40, [("text", "i8", (4,))])}, "text"),
    ],
)
def test_wrong_fields_are_refused_by_name(changes: dict[str, object], named: str) -> None:
    with pytest.raises(DataError, match=named):
        make_data_set(**changes).check()


@pytest.mark.parametrize("shape", [(), (3,), (1, 2, 3)])
@pytest.mark.parametrize("split", ["train_inputs", "test_inputs"])
def test_fields_of_other_ranges_are_refused_by_name(shape: tuple[int, ...], split: str) -> None:
    fields = np.dtype([("mask", "?"), ("bytes", "u1"), ("image", "f4", shape)])
    inputs = {"train_inputs": np.zeros(40, fields), "test_inputs": np.zeros(20, fields)}
    for array in inputs.values():
        array["image"] = np.linspace(0, 255, array["image"].size).reshape(array["image"].shape)
    make_data_set(**inputs).check()
    inputs[split]["image"] /= 255
    with pytest.raises(DataError, match=r"test_inputs, field image.*255"):
        make_data_set(**inputs).check()


def test_a_model_with_one_input_is_refused() -> None:
    with pytest.raises(ModelError, match=r"mlp .* image, speed, text, length, mask"):
        build_model("mlp", make_data_set().input_shape, 2, nn.BatchNorm1d, seed=0)


def test_what_needs_one_tensor_says_so() -> None:
    inputs, shape = prepared_fields(Split.TEST), make_data_set().input_shape

    with pytest.raises(ModelError, match="several"):
        require_single_tensor_for_purpose(inputs, "this")
    with pytest.raises(ModelError, match="image, speed"):
        Augmentation(AugmentationSpec(crop=1), shape, torch.Generator())
    with pytest.raises(DataError, match="several inputs"):
        fit_standardizer(make_data_set(), SPEC)
