"""Copies from the host to a device that let the host go on."""

from __future__ import annotations

import torch
from torch import Tensor


def copy_to_device(tensor: Tensor, device: torch.device) -> Tensor:
    """Return a tensor of the host on a device; the host does not wait until a GPU has copied it."""
    if device.type != "cuda":
        return tensor.to(device)
    return tensor.pin_memory().to(device, non_blocking=True)
