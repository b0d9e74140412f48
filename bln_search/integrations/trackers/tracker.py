"""The protocol of trackers, and their opening."""

from __future__ import annotations

import os
from importlib import import_module
from importlib.util import find_spec
from typing import Protocol, runtime_checkable

from bln_search.core.errors import MissingPackageError
from bln_search.integrations.trackers.records import (
    RecommendedNetwork,
    TrackedStudy,
    TrackedSummary,
    TrackedTrial,
)
from bln_search.integrations.trackers.target import TrackerKind, TrackerTarget


class Tracker(Protocol):
    """The place of one study in a tracker.

    Every method may be called again with the same record, also in another process after a failure: it writes only what
    is missing. A method raises TrackerError where the tracker cannot be reached or refuses; the next call of
    `open_study` and the same records then complete it.
    """

    def open_study(self, study: TrackedStudy) -> None:
        """Create the place of the study, or find it and what it has already."""

    def write_trial(self, trial: TrackedTrial) -> bool:
        """Write what a trial has beyond the tracker. Returns whether anything was missing."""

    def write_summary(self, summary: TrackedSummary) -> bool:
        """Write the ranked table and the verdict. Returns whether they differed."""

    def close(self) -> None:
        """End what the tracker started in this process."""


@runtime_checkable
class NetworkRegistry(Protocol):
    """A tracker that has a registry of networks. Its methods raise TrackerError as above."""

    def find_network(self, digest: str) -> str | None:
        """The name of the registered network with this digest; None without it."""

    def register_network(self, network: RecommendedNetwork) -> str:
        """Register a network. Returns its name."""


_MODULES = {
    TrackerKind.MLFLOW: ("mlflow", "MlflowTracker", "mlflow"),
    TrackerKind.TENSORBOARD: ("tensorboard", "TensorBoardTracker", "tensorboard"),
    TrackerKind.WANDB_OFFLINE: ("wandb", "WandbOfflineTracker", "wandb"),
}
"""Module and class of each tracker, and its package, of which the extra has the name."""

_DEFAULTS = {
    "MLFLOW_DISABLE_TELEMETRY": "true",
    "MLFLOW_HTTP_REQUEST_MAX_RETRIES": "1",
    "MLFLOW_HTTP_REQUEST_TIMEOUT": "30",
    "WANDB_ERROR_REPORTING": "false",
}
"""Environment variables of the libraries where the user has not set them: a tracker that is down fails soon, because a
later synchronization completes it; and nothing is sent to the makers of a library."""

_SETTINGS = {"MLFLOW_SUPPRESS_PRINTING_URL_TO_STDOUT": "true"}
"""Environment variables that are always set: standard output has results only, and a URL may contain a password."""


def check_tracker_installed(target: TrackerTarget) -> None:
    """Raise MissingPackageError if the extra of a tracker is not installed. Imports nothing."""
    _, _, package = _MODULES[target.kind]
    if find_spec(package) is None:
        raise MissingPackageError(package, package)


def open_tracker(target: TrackerTarget) -> Tracker:
    """Load the library of a tracker, and return the tracker; nothing is sent or written yet.

    Raises:
        MissingPackageError: Its extra is not installed.
    """
    check_tracker_installed(target)
    module, name, package = _MODULES[target.kind]
    for variable, value in _DEFAULTS.items():
        os.environ.setdefault(variable, value)
    os.environ.update(_SETTINGS)
    try:
        loaded = import_module(f"bln_search.integrations.trackers.{module}")
    except ModuleNotFoundError as error:
        raise MissingPackageError(error.name, package) from None
    tracker: Tracker = getattr(loaded, name)(target)
    return tracker
