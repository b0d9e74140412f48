"""The names of devices: which of them exist on this machine, and the single devices that a name stands for.

The process that only distributes trials counts GPUs and opens none: a CUDA context occupies hundreds of megabytes until
its process ends, and a GPU in exclusive mode accepts one process.
"""

from __future__ import annotations

import torch

from bln_search.core.errors import ModelError

UUID_PREFIXES = ("GPU-", "MIG-")
"""What the UUID of a GPU, or of a part of one, begins with."""


def resolve_device_name(name: str, *, elsewhere: bool = False) -> str:
    """Return the device or devices for `name`; `auto` is `cuda` if torch sees a GPU, else `cpu`.

    Args:
        name: `cpu`, `cuda` (every GPU), GPUs by index or UUID (`cuda:1`, `cuda:0,2`, `cuda:GPU-8932f937`), another
            torch device, or `auto`. A UUID may stand without `cuda:`.
        elsewhere: Trials run on other machines, so this machine need not have the GPU.

    Raises:
        ModelError: The device does not exist on this machine.
    """
    if name == "auto":
        return "cuda" if torch.cuda.is_available() else "cpu"
    name = f"cuda:{name}" if name.startswith(UUID_PREFIXES) else name
    try:
        if name.partition(":")[0] == "cuda":
            _check_gpus_exist(name, elsewhere=elsewhere)
        else:
            torch.empty(0, device=torch.device(name))
    except (RuntimeError, AssertionError, ValueError) as error:
        reason = str(error).splitlines()[0]
        raise ModelError(
            f"the device {name!r} cannot be used ({reason}); use cpu, cuda, GPUs by index or UUID such as cuda:1, "
            "cuda:0,2 or cuda:GPU-8932f937, or auto"
        ) from None
    return name


def _check_gpus_exist(name: str, *, elsewhere: bool) -> None:
    count = torch.cuda.device_count() if torch.cuda.is_available() else 0
    gpus = name.removeprefix("cuda").removeprefix(":").split(",")
    if len(set(gpus)) < len(gpus):
        raise ValueError("a GPU is named twice")
    for gpu in gpus if ":" in name else ["0"]:
        if gpu.startswith(UUID_PREFIXES):
            index = 0  # an unknown UUID is reported by the process that uses it
        elif gpu.isascii() and gpu.isdigit():
            index = int(gpu)
        else:
            raise ValueError(f"{gpu!r} is neither the index nor the UUID of a GPU")
        if index >= count and not elsewhere:
            raise ValueError(f"torch sees {count} GPUs on this machine; GPU indices start at 0")


def list_devices_of_name(device: str) -> list[str]:
    """The single devices that a name of `resolve_device_name` stands for, without opening one.

    `cuda` stands for every GPU that torch sees, as `cuda:INDEX`; with one GPU it keeps its name.
    """
    if device == "cuda":
        count = torch.cuda.device_count()
        return [f"cuda:{index}" for index in range(count)] if count > 1 else [device]
    if device.startswith("cuda:"):
        return [f"cuda:{gpu}" for gpu in device.removeprefix("cuda:").split(",")]
    return [device]


def choose_first_device_name(device: str) -> str:
    """The first of the devices, without opening it; the CPU if it is a GPU and torch sees none."""
    return list_devices_of_name(device)[0] if not is_gpu(device) or torch.cuda.is_available() else "cpu"


def is_gpu(device: str) -> bool:
    """Is this the name of one or more NVIDIA GPUs?"""
    return device.startswith("cuda")
