"""Which devices of a run still receive trials: one that fails repeatedly, or cannot be used at all, gets no more."""

from __future__ import annotations

import logging
from collections.abc import Sequence

from bln_search.core.errors import TrialProcessLostError

_log = logging.getLogger(__name__)

MAX_FAILURES = 3
"""Consecutive failures on a device after which it is excluded, if a trial was completed elsewhere meanwhile."""


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
