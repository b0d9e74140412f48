"""The format of a file of ranked tables: safetensors, whose metadata describe the tables as JSON."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from os import PathLike
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

FORMAT = "bln-search ranked tables"
FORMAT_VERSION = 1
SUFFIX = ".safetensors"

Json = dict[str, Any]


class NumberedTensors:
    """Named tensors of a file; each gets the next number."""

    def __init__(self, tensors: Mapping[str, Tensor] | None = None) -> None:
        self.tensors: dict[str, Tensor] = dict(tensors or {})

    def add(self, tensor: Tensor) -> str:
        """Add a tensor and return its name."""
        name = str(len(self.tensors))
        self.tensors[name] = tensor.detach().contiguous().cpu().clone()
        return name

    def get_by_name(self, name: str) -> Tensor:
        """The tensor of this name. Raises KeyError if there is none."""
        return self.tensors[name]


def ranked_file_content_sha256(version: str, description: str, tensors: Mapping[str, Tensor]) -> str:
    """SHA-256 of the version that wrote the file, of the description of the tables and of all tensors."""
    digest = hashlib.sha256(f"{version}\n{description}".encode())
    for name in sorted(tensors):
        tensor = tensors[name].contiguous()
        digest.update(f"{name} {tensor.dtype} {tuple(tensor.shape)}\n".encode())
        digest.update(tensor.reshape(-1).view(torch.uint8).numpy().tobytes())
    return digest.hexdigest()


def add_missing_suffix(path: str | PathLike[str]) -> Path:
    """The path, with `.safetensors` if it has no suffix."""
    file = Path(path)
    return file if file.suffix else file.with_name(file.name + SUFFIX)
