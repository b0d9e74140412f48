"""Whether processes and devices of a run still work: losses, failures in a row, and trials without progress."""

from __future__ import annotations

import logging
import time
from collections.abc import Hashable, Sequence

from bln_search.core.errors import TrialProcessLostError
from bln_search.core.states import FailureClass
from bln_search.execution.messages import TaskFailed

_log = logging.getLogger(__name__)

PAUSES = (0.5, 2.0)
"""Seconds without a new process after the first and the second consecutive loss; the third loss ends the run."""

MAX_FAILURES = 3
"""Consecutive failures on a device after which it is excluded, if a trial was completed elsewhere meanwhile."""


class LostProcessCounter:
    """Counts consecutive losses. Several losses within one pause have one cause and count once."""

    def __init__(self) -> None:
        self.count = 0
        self.reason = ""
        self.next_start = 0.0

    def record_lost_process(self, reason: str) -> None:
        """Record a process that did not start, or ended before its first trial."""
        self.reason = reason
        if self.is_start_delayed:
            return
        self.count += 1
        if not self.has_too_many_lost_processes:
            self.next_start = time.monotonic() + PAUSES[self.count - 1]

    def reset_after_completed_trial(self) -> None:
        """A process completed a trial: the next loss is the first one again."""
        self.count = 0

    @property
    def is_start_delayed(self) -> bool:
        """Is it too early to start another process?"""
        return time.monotonic() < self.next_start

    @property
    def has_too_many_lost_processes(self) -> bool:
        """Are there too many consecutive losses?"""
        return self.count > len(PAUSES)

    def check_number_of_lost_processes(self) -> None:
        """Raise TrialProcessLostError if there are too many consecutive losses."""
        if self.has_too_many_lost_processes:
            raise TrialProcessLostError(
                f"{self.count} times in a row a process for trials was lost as it started, the last time: "
                f"{self.reason}; the machine may be short of memory, processes or open files"
            )


class DeviceHealth:
    """Counts consecutive failures of each device. A failure on every device is one of the trials, and excludes none.

    Args:
        devices: All devices of the run.
    """

    def __init__(self, devices: Sequence[str]) -> None:
        self.devices = tuple(devices)
        self._failures = dict.fromkeys(devices, 0)
        self._failed_while_others_work: dict[str, bool] = {}
        self._reasons: dict[str, str] = {}

    @property
    def usable_devices(self) -> list[str]:
        """The devices that are not excluded."""
        return [device for device in self.devices if device not in self._reasons]

    def exclude_device(self, device: str, reason: str) -> None:
        """Exclude a device for the rest of the run. reason: why it cannot be used."""
        if device not in self._reasons:
            self._reasons[device] = reason
            _log.warning("%s gets no more trials in this run: %s", device, reason)

    def record_failure(self, device: str, reason: str) -> None:
        """Record a trial that failed on the device for a reason other than the trial itself."""
        self._failures[device] += 1
        if self._failures[device] >= MAX_FAILURES and self._failed_while_others_work.get(device, False):
            self.exclude_device(device, f"{self._failures[device]} failures in a row, the last one: {reason}")

    def record_completed_trial(self, device: str) -> None:
        """Record a trial that the device completed."""
        self._failures[device] = 0
        self._failed_while_others_work[device] = False
        for other, failures in self._failures.items():
            if failures:
                self._failed_while_others_work[other] = True

    def check_device_is_left(self) -> None:
        """Raise TrialProcessLostError if every device is excluded."""
        if not self.usable_devices:
            reasons = "; ".join(f"{device}: {reason}" for device, reason in self._reasons.items())
            raise TrialProcessLostError(
                f"no device of this run can be used ({reasons}); finished results are stored, `nvidia-smi` shows the "
                "state of the GPUs"
            )


class ProgressClock:
    """Knows since when each process has reported nothing. A report is an epoch, a phase or the end of a trial.

    Args:
        timeout: Seconds after which a process is stalled; None for never.
    """

    def __init__(self, timeout: float | None) -> None:
        self.timeout = timeout
        self._reported_at: dict[Hashable, float] = {}

    def note_progress(self, process: Hashable) -> None:
        """A process has received a trial or reported something."""
        self._reported_at[process] = time.monotonic()

    def forget(self, process: Hashable) -> None:
        """A process has ended or has no trial."""
        self._reported_at.pop(process, None)

    def is_stalled(self, process: Hashable) -> bool:
        """Has a process with trials reported nothing for longer than the timeout?"""
        reported_at = self._reported_at.get(process)
        return self.timeout is not None and reported_at is not None and time.monotonic() - reported_at > self.timeout

    def make_failure(self, *, process_lost: bool = False) -> TaskFailed:
        """The failure of a trial whose process is stalled and was ended. process_lost: it never started."""
        reason = (
            f"no progress for {self.timeout:g} seconds, so the process of the trial was ended; if an epoch, or loading "
            "the data, takes longer, set BLN_SEARCH_TRIAL_TIMEOUT to more seconds"
        )
        return TaskFailed(FailureClass.INFRASTRUCTURE, reason, process_unusable=True, process_lost=process_lost)
