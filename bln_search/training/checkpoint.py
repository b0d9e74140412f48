"""Checkpoints: weights and population moments in one safetensors file, written atomically."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import torch
from safetensors import SafetensorError
from safetensors.torch import load, save
from torch import Tensor, nn

from bln_search.core.checkpoints import CheckpointStore, check_store_exists
from bln_search.core.enums import PopulationEstimate
from bln_search.core.errors import DataError
from bln_search.norms import Normalization
from bln_search.norms.moment_collection import LayerMoments, flatten_moments_to_tensors, restore_moments_from_tensors
from bln_search.norms.network.layers import MomentsByEstimate

_WEIGHT_PREFIX, _POPULATION_PREFIX = "weight|", "population|"


def write_checkpoint(
    store: CheckpointStore, weights: Mapping[str, Tensor], moments: MomentsByEstimate, provenance: Mapping[str, Any]
) -> tuple[str, str]:
    """Write a checkpoint into `store`; return its content-addressed name and its SHA-256.

    Args:
        store: folder or bucket.
        weights: by name.
        moments: of each layer under each estimate.
        provenance: written as JSON into the metadata.

    Raises:
        StorageFullError: the disk is full.
        CheckpointStoreError: the bucket fails.
    """
    tensors = {_WEIGHT_PREFIX + name: value.detach().cpu().contiguous() for name, value in weights.items()}
    for estimate, moments_of_layers in moments.items():
        for name, value in flatten_moments_to_tensors(moments_of_layers).items():
            tensors[f"{_POPULATION_PREFIX}{estimate}|{name}"] = value.cpu().contiguous()
    content = save(tensors, {"provenance": json.dumps(provenance, sort_keys=True)})
    sha256 = hashlib.sha256(content).hexdigest()
    name = f"{sha256[:32]}.safetensors"
    store.write(name, content)
    return name, sha256


def read_checkpoint_weights_and_moments(
    store: CheckpointStore, name: str, sha256: str
) -> tuple[dict[str, Tensor], dict[str, dict[str, LayerMoments]]]:
    """Read weights and moments from a checkpoint.

    Args:
        store: folder or bucket.
        name: of the checkpoint in the store.
        sha256: of the checkpoint.

    Returns:
        The weights by name, and the moments of each layer under each estimate.

    Raises:
        DataError: the file is missing or damaged.
        CheckpointStoreError: the store is not available.
    """
    path = f"{store}/{name}"
    try:
        content = store.read(name)
    except OSError as error:
        check_store_exists(store)
        raise DataError(f"the checkpoint {path} cannot be read: {error}") from None
    content_sha256 = hashlib.sha256(content).hexdigest()
    if content_sha256 != sha256:
        raise DataError(f"the checkpoint {path} is damaged: its SHA-256 is {content_sha256}, recorded was {sha256}")
    try:
        tensors = load(content)
    except SafetensorError as error:
        raise DataError(f"the checkpoint {path} is not a safetensors file: {error}") from None
    weights = {
        name.removeprefix(_WEIGHT_PREFIX): value for name, value in tensors.items() if name.startswith(_WEIGHT_PREFIX)
    }
    moments: dict[str, dict[str, LayerMoments]] = {}
    for estimate in PopulationEstimate:
        prefix = f"{_POPULATION_PREFIX}{estimate}|"
        moment_tensors = {
            name.removeprefix(prefix): value for name, value in tensors.items() if name.startswith(prefix)
        }
        if moment_tensors:
            moments[estimate] = restore_moments_from_tensors(moment_tensors)
    return weights, moments


def weights_and_buffers_by_name(network: nn.Module) -> dict[str, Tensor]:
    """Return parameters and persistent buffers (such as running statistics of torch's BatchNorm) by name.

    Of the buffers of this package's normalization layers only `weight_buffers` are included: the others hold
    population values, which a checkpoint stores beside the weights.
    """
    weights: dict[str, Tensor] = dict(network.named_parameters())
    for prefix, module in network.named_modules():
        buffers = dict(module.named_buffers(recurse=False))
        if isinstance(module, Normalization):
            stored = buffers.keys() & module.weight_buffers
        else:
            stored = buffers.keys() - module._non_persistent_buffers_set
        weights |= {f"{prefix}.{name}".lstrip("."): value for name, value in buffers.items() if name in stored}
    return weights


def clone_weights(weights: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Return copies of the weights, which further training does not change."""
    return {name: value.detach().clone() for name, value in weights.items()}


@contextmanager
def restore_weights_on_exit(network: nn.Module) -> Iterator[None]:
    """Restore the present weights of `network` at the end of this context."""
    weights = clone_weights(weights_and_buffers_by_name(network))
    try:
        yield
    finally:
        copy_weights_into_network(network, weights)


def copy_weights_into_network(network: nn.Module, weights: Mapping[str, Tensor]) -> None:
    """Copy `weights` into `network`.

    Args:
        network: has weights of the same names and shapes.
        weights: by name.

    Raises:
        DataError: the names differ.
    """
    _allocate_dynamic_buffers(network, weights)
    targets = weights_and_buffers_by_name(network)
    if targets.keys() != weights.keys():
        different = sorted(targets.keys() ^ weights.keys())
        raise DataError(f"the checkpoint was written by another network: only one of the two has {different[0]}")
    with torch.no_grad():
        for name, target in targets.items():
            target.copy_(weights[name])


def _allocate_dynamic_buffers(network: nn.Module, weights: Mapping[str, Tensor]) -> None:
    for prefix, layer in network.named_modules():
        if isinstance(layer, Normalization):
            for name in layer.weight_buffers:
                layer.allocate_buffer(name, weights.get(f"{prefix}.{name}".lstrip(".")))
