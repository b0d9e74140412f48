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
from bln_search.core.errors import DataError
from bln_search.core.words import PopulationEstimate
from bln_search.norms.finding import Gathered
from bln_search.norms.gathering import GatheredMoments, moments_from_tensors, moments_to_tensors

_WEIGHT, _POPULATION = "weight|", "population|"


def write_checkpoint(
    store: CheckpointStore, weights: Mapping[str, Tensor], gathered: Gathered, provenance: Mapping[str, Any]
) -> tuple[str, str]:
    """Write a file into `store`; returns its name, made of its content, and the SHA-256 of that.

    Raises StorageFullError where the disk is full, CheckpointStoreError where a bucket gives way.
    """
    tensors = {_WEIGHT + name: value.cpu().contiguous() for name, value in weights.items()}
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


def load_weights(network: nn.Module, weights: Mapping[str, Tensor]) -> None:
    """Put `weights` into the parameters of `network`, which must be the same by name and shape."""
    parameters = dict(network.named_parameters())
    if parameters.keys() != weights.keys():
        different = sorted(parameters.keys() ^ weights.keys())
        raise DataError(f"the checkpoint was written by another network: {different[0]} is in one of the two only")
    with torch.no_grad():
        for name, parameter in parameters.items():
            parameter.copy_(weights[name])
