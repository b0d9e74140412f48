"""The images of the runs."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch

from tests.training.stacked.builders import IMAGE_SIZE


@pytest.fixture(scope="module")
def images(data):
    """Few small images in double precision."""
    generator = torch.Generator().manual_seed(0)

    def draw(split):
        n = 45 if split == "train" else 20
        inputs = torch.randn(n, 2, IMAGE_SIZE, IMAGE_SIZE, generator=generator, dtype=torch.float64)
        return inputs, torch.randint(0, 4, (n,), generator=generator)

    return replace(data, splits={split: draw(split) for split in data.splits})
