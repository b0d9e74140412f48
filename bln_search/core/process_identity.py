"""The name of a process that runs attempts, and whether that process is still alive.

A process id may be reused, so the name also has the start time of the process. It is counted in ticks from the start of
the machine, because the clock may be set meanwhile. Ticks and process ids can be compared only within one start of the
machine and one PID namespace, so the name has a digest of both.
"""

from __future__ import annotations

import hashlib
import os
import socket
from pathlib import Path

import psutil

_OWN_STATUS = Path("/proc/self/stat")
"""Exists where the system counts ticks from the start of the machine."""

_STATE_FIELD, _START_FIELD = 0, 19
"""Indices of state and start time among the fields after the process name, which is in brackets: proc(5), 3 and 22."""

_ENDED_STATES = ("Z", "X")
"""States of a process that has ended, and whose parent has not asked for its exit code yet."""


def name_of_this_process() -> str:
    """HOST/PID/START-NAMESPACE of this process."""
    return f"{socket.gethostname()}/{os.getpid()}/{_start_ticks_of_process(os.getpid())}-{_pid_namespace_digest()}"


def may_be_alive(worker: str) -> bool:
    """Whether the worker of that name may be alive: True for a worker that this process cannot observe."""
    host, pid, start = worker.rsplit("/", 2)
    start_time, _, namespace = start.partition("-")
    if host != socket.gethostname() or (namespace and namespace != _pid_namespace_digest()):
        return True
    try:
        # names of earlier versions have no namespace, and the start time by the clock
        if _has_ended(int(pid)):
            return False
        present = _start_ticks_of_process(int(pid)) if namespace else _start_seconds_of_process(int(pid))
    except (FileNotFoundError, ProcessLookupError, psutil.NoSuchProcess):
        return _is_hidden(int(pid))
    except (PermissionError, psutil.AccessDenied):
        return True
    return present == start_time


def _is_hidden(pid: int) -> bool:
    """Whether a process exists that the system does not show, as /proc with hidepid hides those of other users."""
    if os.name != "posix":  # os.kill would end it
        return False
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except OSError:
        return True
    return True


def _start_ticks_of_process(pid: int) -> str:
    """Ticks from the start of the machine to that of the process; by the clock where the system counts no ticks."""
    if not _OWN_STATUS.exists():
        return _start_seconds_of_process(pid)
    return _read_status_fields(pid)[_START_FIELD]


def _has_ended(pid: int) -> bool:
    """Whether the process with this id has ended, and only its exit code is left."""
    return _OWN_STATUS.exists() and _read_status_fields(pid)[_STATE_FIELD] in _ENDED_STATES


def _read_status_fields(pid: int) -> list[str]:
    """The fields of proc(5) after the process name."""
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()


def _start_seconds_of_process(pid: int) -> str:
    """Start of the process in seconds since 1970."""
    return f"{psutil.Process(pid).create_time():.2f}"


def _pid_namespace_digest() -> str:
    """Digest of the start of the machine and the PID namespace; equal for processes with the same process ids."""
    try:
        parts = Path("/proc/sys/kernel/random/boot_id").read_text(), str(Path("/proc/self/ns/pid").readlink())
    except OSError:
        parts = ("", "")
    return hashlib.sha256("".join(parts).encode()).hexdigest()[:8]
