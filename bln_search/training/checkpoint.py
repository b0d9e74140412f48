"""Checkpoints: weights and gathered populations in one safetensors file, written whole or not at all."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from typing import Any

import torch
from safetensors import SafetensorError
from safetensors.torch import load, save
from torch import Tensor, nn

from bln_search.core.checkpoints import CheckpointStore
from bln_search.core.enums import PopulationEstimate
from bln_search.core.errors import DataError
from bln_search.norms import Normalization
from bln_search.norms.moment_collection import GatheredMoments, moments_from_tensors, moments_to_tensors
from bln_search.norms.network_layers import Gathered

_WEIGHT, _POPULATION = "weight|", "population|"


def write_checkpoint(
    store: CheckpointStore, weights: Mapping[str, Tensor], gathered: Gathered, provenance: Mapping[str, Any]
) -> tuple[str, str]:
    """Write a file into `store`; returns its name, made of its content, and the SHA-256 of that.

    Raises StorageFullError where the disk is full, CheckpointStoreError where a bucket gives way.
    """
    tensors = {_WEIGHT + name: value.detach().cpu().contiguous() for name, value in weights.items()}
    for estimate, moments in gathered.items():
        for name, value in moments_to_tensors(moments).items():
            tensors[f"{_POPULATION}{estimate}|{name}"] = value.cpu().contiguous()
    content = save(tensors, {"provenance": json.dumps(provenance, sort_keys=True)})
    sha256 = hashlib.sha256(content).hexdigest()
    name = f"{sha256[:32]}.safetensors"
    store.write(name, content)
    return name, sha256


def read_checkpoint(
    store: CheckpointStore, name: str, sha256: str
) -> tuple[dict[str, Tensor], dict[PopulationEstimate, dict[str, GatheredMoments]]]:
    """Weights and gathered populations.

    Raises DataError where the file is absent or not the one that was written, CheckpointStoreError where the store
    cannot be asked.
    """
    path = f"{store}/{name}"
    try:
        content = store.read(name)
    except OSError as error:
        raise DataError(f"the checkpoint {path} cannot be read: {error}") from None
    found = hashlib.sha256(content).hexdigest()
    if found != sha256:
        raise DataError(f"the checkpoint {path} is damaged: its SHA-256 is {found}, recorded was {sha256}")
    try:
        tensors = load(content)
    except SafetensorError as error:
        raise DataError(f"the checkpoint {path} is not a safetensors file: {error}") from None
    weights = {name.removeprefix(_WEIGHT): value for name, value in tensors.items() if name.startswith(_WEIGHT)}
    gathered = {}
    for estimate in PopulationEstimate:
        prefix = f"{_POPULATION}{estimate}|"
        part = {name.removeprefix(prefix): value for name, value in tensors.items() if name.startswith(prefix)}
        if part:
            gathered[estimate] = moments_from_tensors(part)
    return weights, gathered


def weights_of(network: nn.Module) -> dict[str, Tensor]:
    """What makes the network answer as it does, by name: its parameters, and what other layers than ours keep in
    buffers of their state dict, as torch's BatchNorm does its running statistics.

    What our normalization layers keep in theirs is a population, which stands beside the weights.
    """
    found: dict[str, Tensor] = dict(network.named_parameters())
    for place, module in network.named_modules():
        if not isinstance(module, Normalization):
            own = module.named_buffers(place, recurse=False)
            passing = module._non_persistent_buffers_set
            found |= {name: value for name, value in own if name.rpartition(".")[2] not in passing}
    return found


def copied(weights: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """The same values, which further training leaves alone."""
    return {name: value.detach().clone() for name, value in weights.items()}


def load_weights(network: nn.Module, weights: Mapping[str, Tensor]) -> None:
    """Put what `weights_of` found into `network`, which must be the same by name and shape."""
    own = weights_of(network)
    if own.keys() != weights.keys():
        different = sorted(own.keys() ^ weights.keys())
        raise DataError(f"the checkpoint was written by another network: {different[0]} is in one of the two only")
    with torch.no_grad():
        for name, value in own.items():
            value.copy_(weights[name])
