"""Where trials run: folders and device."""

from __future__ import annotations

from dataclasses import dataclass, replace
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

    @property
    def here(self) -> Place:
        """The same for what this process computes itself: on the CPU where it has no GPU of its own."""
        if self.device.startswith("cuda") and not torch.cuda.is_available():
            return replace(self, device="cpu")
        return self


def choose_device(name: str, *, elsewhere: bool = False) -> str:
    """`auto` is the GPU where there is one. Raises ModelError for a device that is not there.

    GPUs are counted, not used: a context on one takes hundreds of megabytes of it for as long as the process lives.
    elsewhere: trials run on other machines, whose GPUs this one need not have.
    """
    if name == "auto":
        return "cuda" if torch.cuda.is_available() else "cpu"
    try:
        device = torch.device(name)
        if device.type == "cuda":
            _check_gpu(device.index or 0, elsewhere=elsewhere)
        else:
            torch.empty(0, device=device)
    except (RuntimeError, AssertionError, ValueError) as error:
        reason = str(error).splitlines()[0]
        raise ModelError(
            f"the device {name!r} cannot be used ({reason}); use cpu, cuda, a GPU by its number like cuda:1, or auto"
        ) from None
    return name


def _check_gpu(index: int, *, elsewhere: bool) -> None:
    """Raise ValueError where this machine does not have the GPU."""
    count = torch.cuda.device_count() if torch.cuda.is_available() else 0
    if index >= count and not elsewhere:
        raise ValueError(f"torch sees {count} GPUs on this machine, which are counted from 0")


@lru_cache(maxsize=1)
def prepared_data(spec: DataSpec, data: Path, cache: Path, device: str) -> PreparedData:
    """The data of a study on the device, kept for the next trial of the same study."""
    return prepare(load_data(spec.name, data, cache), spec, device)
