"""Who runs an attempt, and whether that process still lives."""

from __future__ import annotations

import os
import socket

import psutil


def own_name() -> str:
    """Host, process id and start time of this process."""
    started = psutil.Process(os.getpid()).create_time()
    return f"{socket.gethostname()}/{os.getpid()}/{started:.2f}"


def is_alive(worker: str) -> bool:
    """Whether the worker of that name may still live; on another machine that cannot be known, so it may."""
    host, pid, started = worker.rsplit("/", 2)
    if host != socket.gethostname():
        return True
    try:
        return f"{psutil.Process(int(pid)).create_time():.2f}" == started
    except psutil.NoSuchProcess:
        return False
