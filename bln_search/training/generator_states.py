"""The states of the global random number generators of torch, on which dropout and latent noise depend.

Those of Python and NumPy are not among them: no training draws from them, and no seed of a trial sets them.
"""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor

_CPU, _CUDA = "cpu", "cuda"


def read_global_generator_states(device: torch.device) -> dict[str, Tensor]:
    """Return the states of the generators that a training on `device` draws from, by kind of device."""
    states = {_CPU: torch.get_rng_state()}
    if device.type == _CUDA:
        states[_CUDA] = torch.cuda.get_rng_state(device)
    return states


def restore_global_generator_states(states: Mapping[str, Tensor], device: torch.device) -> None:
    """Restore the states that `read_global_generator_states` returned."""
    torch.set_rng_state(states[_CPU])
    if device.type == _CUDA:
        torch.cuda.set_rng_state(states[_CUDA], device)
