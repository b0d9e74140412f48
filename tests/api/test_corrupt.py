"""`bln_search.corrupt` takes tensors and arrays, and names with and without a severity."""

from __future__ import annotations

import numpy as np
import pytest
import torch

import bln_search

IMAGES = np.random.default_rng(0).random((4, 3, 8, 8)).astype(np.float32)


def test_tensor_and_array_give_the_same_values():
    array = bln_search.corrupt(IMAGES, "gaussian_noise", severity=2, seed=5)
    tensor = bln_search.corrupt(torch.from_numpy(IMAGES).requires_grad_(), "gaussian_noise-2", seed=5)
    assert isinstance(array, np.ndarray)
    assert tensor.dtype == torch.float32
    assert not tensor.requires_grad
    np.testing.assert_array_equal(tensor.numpy(), array)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16, torch.float64])
def test_every_floating_point_type_gives_single_precision(dtype):
    corrupted = bln_search.corrupt(torch.from_numpy(IMAGES).to(dtype), "contrast")
    assert corrupted.dtype == torch.float32
    torch.testing.assert_close(corrupted, bln_search.corrupt(torch.from_numpy(IMAGES), "contrast-3"), atol=5e-3, rtol=0)


def test_indices_select_the_noise_of_the_data_set():
    whole = bln_search.corrupt(IMAGES, "shot_noise")
    part = bln_search.corrupt(torch.from_numpy(IMAGES[2:]), "shot_noise", indices=torch.tensor([2, 3]))
    np.testing.assert_array_equal(part.numpy(), whole[2:])


@pytest.mark.parametrize(
    ("images", "name"),
    [(torch.zeros(2, 3, 4, 4), "blur"), (torch.full((2, 3, 4, 4), 7.0), "fog"), (torch.zeros(4), "fog")],
)
def test_invalid_input_is_one_error_of_the_package(images, name):
    with pytest.raises(bln_search.DataError):
        bln_search.corrupt(images, name)
