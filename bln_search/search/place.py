"""Where trials run: folders and device."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

import torch

from bln_search.core.checkpoints import CheckpointStore
from bln_search.core.errors import ModelError
from bln_search.data import load_data
from bln_search.data.prepared import PreparedData, prepare
from bln_search.specs.data import DataSpec


@dataclass(frozen=True)
class Place:
    """data: folder of data sets; cache: decoded ones; checkpoints: where they go; device: `cpu` or `cuda`..."""

    data: Path
    cache: Path
    checkpoints: CheckpointStore
    device: str = "cpu"
    threads: int = 1


def choose_device(name: str) -> str:
    """`auto` is the GPU where there is one. Raises ModelError for a device that is not there."""
    if name == "auto":
        return "cuda" if torch.cuda.is_available() else "cpu"
    try:
        torch.empty(0, device=name)
    except (RuntimeError, AssertionError) as error:
        reason = str(error).splitlines()[0]
        raise ModelError(f"the device {name!r} cannot be used ({reason}); use cpu, cuda or auto") from None
    return name


@lru_cache(maxsize=1)
def prepared_data(spec: DataSpec, data: Path, cache: Path, device: str) -> PreparedData:
    """The data of a study on the device, kept for the next trial of the same study."""
    return prepare(load_data(spec.name, data, cache), spec, device)
