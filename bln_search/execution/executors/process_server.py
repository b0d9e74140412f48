"""The server process from which processes for trials are forked; it loads torch once for all of them.

This module loads nothing else, so that the server can load torch while the driver does.
"""

from __future__ import annotations

import multiprocessing
from multiprocessing.forkserver import ensure_running

_PRELOADED = "bln_search.execution.executors.preloaded"
"""Loads the modules that every trial needs."""

HAS_SERVER = "forkserver" in multiprocessing.get_all_start_methods()
CONTEXT = multiprocessing.get_context("forkserver" if HAS_SERVER else "spawn")


def register_modules_for_preloading() -> None:
    """Let the server load the modules of trials when it starts. After its start this has no effect."""
    if HAS_SERVER:
        CONTEXT.set_forkserver_preload([_PRELOADED])


def start_process_server() -> None:
    """Start the server, unless it runs; it loads its modules in the background. A failure shows at the first trial."""
    if HAS_SERVER:
        register_modules_for_preloading()
        ensure_running()
