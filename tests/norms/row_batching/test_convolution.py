"""Convolutions in pieces of examples, compared with torch's."""

from __future__ import annotations

import pytest
import torch
from torch.nn import functional as F

from bln_search.norms.row_batching import convolution
from bln_search.norms.row_batching.convolution import convolve_in_pieces


@pytest.fixture
def convolved_images(monkeypatch):
    """Numbers of images of the convolutions of torch."""
    recorded = []
    original = torch.conv2d

    def record_images(x, *args, **kwargs):
        recorded.append(len(x))
        return original(x, *args, **kwargs)

    monkeypatch.setattr(torch, "conv2d", record_images)
    return recorded


@pytest.mark.parametrize("examples", [0, 1, 5, 7, 12])
@pytest.mark.parametrize(
    "options",
    [{}, {"padding": 2}, {"padding": "same"}, {"stride": 2}, {"dilation": 2}, {"bias": torch.arange(6.0)}],
)
def test_pieces_equal_the_whole(monkeypatch, examples, options):
    monkeypatch.setattr(convolution, "_PIECE_BYTES", 3 * 16 * 9 * 9 * 4)
    x, weight = torch.randn(examples, 3, 9, 9), torch.randn(6, 3, 3, 3)
    found = convolve_in_pieces(x, weight, **options)
    assert torch.allclose(found, F.conv2d(x, weight, **options), rtol=1e-5, atol=1e-5)


def test_pieces_have_similar_sizes_and_few_channels_count_as_sixteen(monkeypatch, convolved_images):
    monkeypatch.setattr(convolution, "_PIECE_BYTES", 4 * 16 * 9 * 9 * 4)
    convolve_in_pieces(torch.randn(10, 3, 9, 9), torch.randn(6, 3, 3, 3))
    assert convolved_images == [4, 4, 2]


@pytest.mark.parametrize(
    ("shape", "channels", "dtype"),
    [((10, 3, 9, 9), 16, torch.float32), ((10, 3, 9, 9), 6, torch.float64), ((3, 9, 9), 6, torch.float32)],
    ids=["whole blocks", "double", "one image"],
)
def test_other_convolutions_are_computed_at_once(monkeypatch, convolved_images, shape, channels, dtype):
    monkeypatch.setattr(convolution, "_PIECE_BYTES", 1)
    convolve_in_pieces(torch.randn(shape, dtype=dtype), torch.randn(channels, 3, 3, 3, dtype=dtype))
    assert convolved_images == [shape[0]]
