"""Where runs are exported to: a tracker with its URI or folder."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path

from bln_search.core.credentials import clean_line, redact_secrets
from bln_search.core.urls import redact_password


class TrackerKind(StrEnum):
    """A tracker, by the prefix of its target."""

    MLFLOW = "mlflow"
    TENSORBOARD = "tensorboard"
    WANDB_OFFLINE = "wandb-offline"


FORMS = "mlflow:URI, tensorboard:DIR or wandb-offline:DIR"
"""The forms of a target, for messages."""


@dataclass(frozen=True)
class TrackerTarget:
    """A tracker and its place.

    Attributes:
        kind: The tracker.
        location: Tracking URI of MLflow, which may contain a password; for the others an absolute folder.
    """

    kind: TrackerKind
    location: str = field(repr=False)

    def __str__(self) -> str:
        """The target without a password."""
        return redact_password(f"{self.kind}:{self.location}")

    @property
    def folder(self) -> Path:
        """The folder of a tracker that writes files."""
        return Path(self.location)

    def redact(self, text: str) -> str:
        """A text, such as the message of a foreign library, without the password of the target."""
        return redact_secrets(text.replace(self.location, redact_password(self.location)))


def parse_tracker_target(text: str) -> TrackerTarget:
    """Parse `mlflow:URI`, `tensorboard:DIR` or `wandb-offline:DIR`.

    Args:
        text: The target.

    Returns:
        The target; a relative folder becomes absolute.

    Raises:
        ValueError: It is none of these. The message shows no password.
    """
    prefix, colon, location = clean_line(text).partition(":")
    if not colon or prefix not in [*TrackerKind]:
        raise ValueError(f"names no tracker: write {FORMS}")
    if not location:
        raise ValueError(f"has nothing after {prefix}: - write {FORMS}")
    kind = TrackerKind(prefix)
    if kind is TrackerKind.MLFLOW:
        return TrackerTarget(kind, location)
    try:
        return TrackerTarget(kind, str(Path(location).expanduser().absolute()))
    except RuntimeError:
        raise ValueError("begins with ~ and the name of no user") from None
