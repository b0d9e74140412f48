"""Seconds in which a process for trials starts: Python, torch and this package."""

from __future__ import annotations

import subprocess
import sys

from bln_search.core.errors import TrialProcessLostError
from bln_search.training.step_timing import DeviceSynchronizedClock

_PROGRAM = "import bln_search.execution.trial"


def measure_process_start_seconds(stopwatch: DeviceSynchronizedClock) -> float:
    """Start a process that loads what a trial needs, and return the seconds until it has ended.

    Raises:
        TrialProcessLostError: The process cannot be started, or does not end as expected.
    """
    start = stopwatch.read_seconds()
    try:
        subprocess.run([sys.executable, "-c", _PROGRAM], check=True, capture_output=True)  # noqa: S603 - our program
    except (OSError, subprocess.CalledProcessError) as error:
        raise TrialProcessLostError(f"this machine cannot start a process for trials: {error}") from error
    return stopwatch.read_seconds() - start
