"""Images under a condition: corrupted before the standardization of the clean training images."""

from __future__ import annotations

import numpy as np
import pytest

from bln_search.core.enums import Split
from bln_search.core.errors import DataError
from bln_search.data.conditions import check_conditions_on_examples, make_corrupted_validation_and_test_splits
from bln_search.data.corruptions import corrupt_images
from bln_search.data.dataset import DataSet
from bln_search.data.prepared import prepare_data_set
from bln_search.data.splits import split_training_and_validation_indices
from bln_search.specs.sections.condition import ConditionSpec
from bln_search.specs.sections.data import DataSpec

NOISE = ConditionSpec.model_validate({"corruption": "gaussian_noise", "severity": 4, "seed": 5})
FOG = ConditionSpec.model_validate("fog-2")


def make_data(shape=(3, 8, 8), scale=255.0, **fields):
    generator = np.random.default_rng(0)
    inputs = [generator.integers(0, int(scale) + 1, (n, *shape)).astype(np.uint8) for n in (60, 20)]
    labels = [np.arange(n) % 2 for n in (60, 20)]
    return DataSet("images", ("a", "b"), inputs[0], labels[0], inputs[1], labels[1], scale=scale, **fields)


def spec(**fields):
    return DataSpec(name="images", validation=20, **fields)


@pytest.mark.parametrize("standardization", ["pixel", "channel", "none"])
@pytest.mark.parametrize("condition", [NOISE, FOG])
def test_corrupted_images_equal_the_formula(condition, standardization):
    data, data_spec = make_data(), spec(standardization=standardization)
    training, validation = split_training_and_validation_indices(data.train_labels, data_spec)
    pixels = data.train_inputs[training].astype(np.float64)
    axes = {"pixel": 0, "channel": (0, 2, 3)}
    mean, deviation = 0.0, 255.0
    if standardization in axes:
        mean, deviation = (f(pixels, axis=axes[standardization], keepdims=True) for f in (np.mean, np.std))
    prepared = prepare_data_set(data, data_spec)
    splits = make_corrupted_validation_and_test_splits(prepared, condition)
    sources = {Split.VALIDATION: (data.train_inputs, validation), Split.TEST: (data.test_inputs, np.arange(20))}
    for split, (inputs, indices) in sources.items():
        images = (inputs[indices] / 255).astype(np.float32)
        corrupted = corrupt_images(images, condition.image_corruption, seed=condition.seed, indices=indices)
        expected = (corrupted.astype(np.float64) * 255 - mean) / deviation
        np.testing.assert_allclose(splits[split][0].numpy(), expected, rtol=1e-5, atol=1e-5)
        assert (splits[split][1] == prepared.splits[split][1]).all()
    assert set(splits) == set(sources)


def test_noise_of_an_image_is_independent_of_the_other_examples():
    data = make_data()
    all_images, half = (
        prepare_data_set(data, spec(fraction=fraction, standardization="none")) for fraction in (1.0, 0.5)
    )
    inputs = dict(
        zip(
            all_images.unprepared[Split.VALIDATION].indices,
            make_corrupted_validation_and_test_splits(all_images, NOISE)[Split.VALIDATION][0],
            strict=True,
        )
    )
    indices = half.unprepared[Split.VALIDATION].indices
    corrupted = make_corrupted_validation_and_test_splits(half, NOISE)[Split.VALIDATION][0]
    assert len(indices) == 10
    assert all((inputs[index] == image).all() for index, image in zip(indices, corrupted, strict=True))


def test_clean_images_stay_as_they_are():
    prepared = prepare_data_set(make_data(), spec())
    before = {split: inputs.clone() for split, (inputs, _) in prepared.splits.items()}
    make_corrupted_validation_and_test_splits(prepared, NOISE)
    assert all((prepared.splits[split][0] == inputs).all() for split, inputs in before.items())


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (make_data(shape=(2, 8, 8)), "one or three channels"),
        (make_data(shape=(12,)), "one or three channels"),
        (make_data(scale=200.0, vocabulary=201), "token ids"),
    ],
)
def test_other_data_than_images_are_rejected(data, message):
    prepared = prepare_data_set(data, spec())
    for check in (
        lambda: check_conditions_on_examples(prepared, [FOG]),
        lambda: make_corrupted_validation_and_test_splits(prepared, FOG),
    ):
        with pytest.raises(DataError, match=message):
            check()
    check_conditions_on_examples(prepared, [])


def test_values_above_the_scale_are_rejected():
    data = make_data()
    wrong = DataSet(**{**{name: getattr(data, name) for name in data.__dataclass_fields__}, "scale": 100.0})
    with pytest.raises(DataError, match="values from 0 to 1"):
        check_conditions_on_examples(prepare_data_set(wrong, spec()), [FOG])
