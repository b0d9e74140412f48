"""Splits are disjoint and reproducible; standardization is fitted on training examples."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from bln_search.core.enums import Split
from bln_search.core.errors import DataError
from bln_search.data.dataset import DataSet
from bln_search.data.prepared import fit_standardizer, prepare_data_set
from bln_search.data.splits import split_training_and_validation_indices
from bln_search.data.standardizer import Standardizer
from bln_search.specs import DataSpec
from bln_search.specs.sections.data import Standardization

LABELS = np.tile(np.arange(10), 100)


def make_spec(**options):
    return DataSpec(name="digits", **options)


@given(
    fraction=st.floats(0.3, 0.8),
    validation=st.integers(100, 500),
    stratified=st.booleans(),
    seed=st.integers(0, 2**32 - 1),
)
def test_splits_are_disjoint_reproducible_and_of_the_given_size(fraction, validation, stratified, seed):
    spec = make_spec(fraction=fraction, validation=validation, stratified=stratified, seed=seed)
    training, validation_indices = split_training_and_validation_indices(LABELS, spec)
    assert not set(training) & set(validation_indices)
    assert len(validation_indices) == round(fraction * validation)
    assert len(training) == round(fraction * (1000 - validation))
    repeated = split_training_and_validation_indices(LABELS, spec)
    np.testing.assert_array_equal(training, repeated[0])
    np.testing.assert_array_equal(validation_indices, repeated[1])


def test_another_seed_draws_other_examples():
    assert set(split_training_and_validation_indices(LABELS, make_spec(seed=1))[1]) != set(
        split_training_and_validation_indices(LABELS, make_spec(seed=2))[1]
    )


def test_stratified_keeps_the_proportions():
    training, validation = split_training_and_validation_indices(LABELS, make_spec(fraction=0.5, validation=100))
    assert np.bincount(LABELS[training]).tolist() == [45] * 10
    assert np.bincount(LABELS[validation]).tolist() == [5] * 10


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"validation": 1000}, r"^data\.validation: 1000 of 1000 "),
        ({"validation": 5000}, r"^data\.validation: 5000 of 1000 "),
        ({"fraction": 1e-9, "validation": 100}, r"^data\.fraction 1e-09 of 900 .* 0\.0011"),
        ({"validation": 5}, r"^data\.validation: 5 of 1000 .*stratified"),
    ],
)
def test_an_impossible_split_is_an_error_with_a_remedy(options, message):
    with pytest.raises(DataError, match=message):
        split_training_and_validation_indices(LABELS, make_spec(**options))


def make_images(n=400):
    inputs = np.random.default_rng(0).integers(0, 255, (n, 3, 4, 4)).astype(np.uint8)
    inputs[:, :, 0, 0] = 9
    labels = np.arange(n) % 10
    return DataSet("images", tuple("0123456789"), inputs, labels, inputs[:50], labels[:50])


@pytest.mark.parametrize(("kind", "axes"), [("pixel", (0,)), ("channel", (0, 2, 3))])
def test_standardization_is_fitted_on_training_examples_only(kind, axes):
    prepared = prepare_data_set(make_images(), make_spec(validation=100, standardization=kind))
    x = prepared.splits[Split.TRAIN][0].double()
    torch.testing.assert_close(x.mean(axes), torch.zeros_like(x.mean(axes)), atol=1e-6, rtol=0)
    deviation = x.std(axes, correction=0)
    nonzero = deviation[deviation > 0]
    torch.testing.assert_close(nonzero, torch.ones_like(nonzero), atol=1e-5, rtol=0)
    assert torch.isfinite(x).all()
    assert prepared.splits[Split.VALIDATION][0].double().mean(axes).abs().max() > 1e-3


@pytest.mark.parametrize("kind", list(Standardization))
def test_a_fitted_standardizer_gives_the_bits_of_the_study(kind):
    data, spec = make_images(), make_spec(validation=100, standardization=kind)
    standardizer = fit_standardizer(data, spec)
    deviations = data.test_inputs.astype(np.float64) - standardizer.mean
    by_formula = (deviations / standardizer.deviation).astype(np.float32)
    np.testing.assert_array_equal(by_formula, prepare_data_set(data, spec).splits[Split.TEST][0].numpy())
    assert standardizer.mean.ndim == data.test_inputs.ndim
    if kind is Standardization.NONE:
        np.testing.assert_array_equal(by_formula, (data.test_inputs / 255).astype(np.float32))


@pytest.mark.parametrize("kind", ["pixel", "channel"])
def test_a_constant_input_is_only_centred(kind):
    """The mean of many equal numbers is rounded, but the remaining deviation is not used as a divisor."""
    data = make_images(3000)
    background = (0.1 - 0.1307) / 0.3081
    inputs = data.train_inputs.astype(np.float64)
    inputs[:, 0], inputs[:, 1:, 0, 0] = background, background
    test_inputs = inputs[:50].copy()
    test_inputs[:, :, 0, 0] = 1.0  # not constant in the test examples
    standardizer = Standardizer(inputs, 1.0, Standardization(kind))
    assert np.abs(standardizer(inputs)[:, 0]).max() == 0
    np.testing.assert_allclose(standardizer(test_inputs)[:, 0, 0, 0], 1.0 - background, rtol=1e-6)
    assert standardizer.deviation.min() > 0.1


def test_a_mini_batch_larger_than_a_split_names_the_split():
    prepared = prepare_data_set(make_images(), make_spec(validation=100))
    prepared.check_batch_size(50)
    with pytest.raises(DataError, match=r"51 .* test split.* 50"):
        prepared.check_batch_size(51)
