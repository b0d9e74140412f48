"""Free disk space."""

from __future__ import annotations

import shutil
from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple


class DiskUsage(NamedTuple):
    """Size and free space of a disk in bytes."""

    total: int
    free: int


def measure_disk_usage(path: Path) -> DiskUsage:
    """The usage of the disk of a path that need not exist yet. Raises OSError."""
    usage = shutil.disk_usage(next(folder for folder in (path, *path.absolute().parents) if folder.exists()))
    return DiskUsage(usage.total, usage.free)


def find_disk_space_problem(folders: Iterable[Path], least_free_bytes: int) -> str | None:
    """Why no further work may start: too little disk space is free, or its amount is unknown. None if there is enough.

    After a semicolon the text says what to do.

    Args:
        folders: The folders that results are written to.
        least_free_bytes: Free space that each of them needs.
    """
    try:
        free = min(measure_disk_usage(folder).free for folder in folders)
    except OSError as error:
        reason = error.strerror or type(error).__name__
        advice = (
            "give this user access to their folders, or set BLN_SEARCH_HOME"
            if isinstance(error, PermissionError)
            else "check the disks that `bln-search settings` names"
        )
        return f"the free disk space for checkpoints and results cannot be determined ({reason}); {advice}"
    if free >= least_free_bytes:
        return None
    return (
        f"only {free / 1e6:,.0f} MB are free for checkpoints and results; free some, for example with `bln-search "
        "checkpoints clean`"
    )
