"""The execution environment of trials: folders, checkpoint store, device and threads."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path

import torch

from bln_search.core.checkpoints import CheckpointStore
from bln_search.core.errors import ModelError
from bln_search.core.registry import LAZY_DATA_SETS
from bln_search.data import load_data_set, load_texts_of_length
from bln_search.data.catalog import get_catalog_entry
from bln_search.data.imagenet import get_image_folders, prepare_lazy_images
from bln_search.data.prepared import PreparedData, prepare_data_set
from bln_search.specs.sections.data import DataSpec


@dataclass(frozen=True)
class ExecutionEnvironment:
    """Where a trial runs.

    Attributes:
        data: Folder of data sets.
        cache: Folder of decoded data sets.
        checkpoints: Store of trained networks.
        device: torch device name: `cpu`, `cuda`, `cuda:1`.
        threads: CPU threads of one trial.
    """

    data: Path
    cache: Path
    checkpoints: CheckpointStore
    device: str = "cpu"
    threads: int = 1

    @property
    def adapted_to_this_process(self) -> ExecutionEnvironment:
        """The same environment for work of this process: on the CPU if the device is CUDA and torch sees no GPU."""
        if self.device.startswith("cuda") and not torch.cuda.is_available():
            return replace(self, device="cpu")
        return self


def choose_device(name: str, *, elsewhere: bool = False) -> str:
    """Return the device for `name`; `auto` is `cuda` if torch sees a GPU, else `cpu`.

    GPUs are counted and not initialized: a CUDA context occupies hundreds of megabytes until the process ends.

    Args:
        name: `cpu`, `cuda`, `cuda:INDEX`, another torch device, or `auto`.
        elsewhere: Trials run on other machines, so this machine need not have the GPU.

    Raises:
        ModelError: The device does not exist on this machine.
    """
    if name == "auto":
        return "cuda" if torch.cuda.is_available() else "cpu"
    try:
        device = torch.device(name)
        if device.type == "cuda":
            _check_gpu_exists(device.index or 0, elsewhere=elsewhere)
        else:
            torch.empty(0, device=device)
    except (RuntimeError, AssertionError, ValueError) as error:
        reason = str(error).splitlines()[0]
        raise ModelError(
            f"the device {name!r} cannot be used ({reason}); use cpu, cuda, a GPU by its index such as cuda:1, or auto"
        ) from None
    return name


def _check_gpu_exists(index: int, *, elsewhere: bool) -> None:
    """Raise ValueError if this machine has no GPU of this index."""
    count = torch.cuda.device_count() if torch.cuda.is_available() else 0
    if index >= count and not elsewhere:
        raise ValueError(f"torch sees {count} GPUs on this machine; GPU indices start at 0")


@lru_cache(maxsize=1)
def load_prepared_data(spec: DataSpec, data: Path, cache: Path, device: str) -> PreparedData:
    """Load and prepare a study's data on the device; the last result is cached for the next trial of the study."""
    if spec.name in LAZY_DATA_SETS:
        return prepare_lazy_images(
            get_image_folders(get_catalog_entry(spec.name).list_search_folders(data)), spec, device
        )
    return prepare_data_set(
        load_data_set(spec.name, data, cache),
        spec,
        device,
        load_texts=lambda length: load_texts_of_length(spec.name, length, data, cache),
    )
