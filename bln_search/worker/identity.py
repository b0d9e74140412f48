"""Who runs an attempt, and whether that process still lives.

A process is told from a later one of the same number by when it started, counted from the start of the machine: its
clock may be set meanwhile. That counts where the machine has not been started anew and processes are numbered alike;
of other places nothing can be known.
"""

from __future__ import annotations

import hashlib
import os
import socket
from pathlib import Path

import psutil

_COUNTED = Path("/proc/self/stat")
_START = 19
"""Of what stands behind the name, which is in brackets: field 22 of all."""


def own_name() -> str:
    """Host, process id, start and place of this process."""
    return f"{socket.gethostname()}/{os.getpid()}/{_started(os.getpid())}-{_place()}"


def is_alive(worker: str) -> bool:
    """Whether the worker of that name may still live; on another machine that cannot be known, so it may."""
    host, pid, start = worker.rsplit("/", 2)
    started, _, place = start.partition("-")
    if host != socket.gethostname() or (place and place != _place()):
        return True
    try:
        present = _started(int(pid)) if place else _by_the_clock(int(pid))  # earlier versions named no place
    except (FileNotFoundError, ProcessLookupError, psutil.NoSuchProcess):
        return False
    except (PermissionError, psutil.AccessDenied):
        return True
    return present == started


def _started(pid: int) -> str:
    """Ticks from the start of the machine to that of the process; by the clock where the system does not count them."""
    status = Path(f"/proc/{pid}/stat")
    if not _COUNTED.exists():
        return _by_the_clock(pid)
    return status.read_text().rpartition(")")[2].split()[_START]


def _by_the_clock(pid: int) -> str:
    return f"{psutil.Process(pid).create_time():.2f}"


def _place() -> str:
    """The same where two processes have the same numbers for the same processes."""
    try:
        parts = Path("/proc/sys/kernel/random/boot_id").read_text(), str(Path("/proc/self/ns/pid").readlink())
    except OSError:
        parts = ("", "")
    return hashlib.sha256("".join(parts).encode()).hexdigest()[:8]
