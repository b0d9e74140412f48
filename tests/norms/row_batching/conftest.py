"""Fixtures of the functions that replace those of torch."""

from __future__ import annotations

import pytest
import torch


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
