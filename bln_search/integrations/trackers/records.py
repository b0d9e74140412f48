"""What trackers get: a study, its trials, its ranked table and its recommended network, for any tracker."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

from bln_search.core.states import ENDED, StudyState, TrialState

Scalar = str | int | float | bool
"""The value of a parameter or of a cell."""


@dataclass(frozen=True)
class TrackedStudy:
    """A study.

    Attributes:
        key: Identifies the study among those of all ledgers: equal for every export of it.
        name: Its name.
        title: Its title; empty without one.
        digest: Digest of its specification.
        specification: Its specification as JSON.
        started_at: When it was accepted.
    """

    key: str
    name: str
    title: str
    digest: str
    specification: str
    started_at: datetime

    @property
    def label(self) -> str:
        """Its name with the beginning of its key, for folders and experiments."""
        return f"{self.name}-{self.key[:8]}"


@dataclass(frozen=True)
class TrackedEpoch:
    """The metrics of one epoch.

    Attributes:
        epoch: Number of the epoch, from 1.
        at: When it was recorded first.
        metrics: Finite values by name; one that is NaN or infinite is left out.
    """

    epoch: int
    at: datetime
    metrics: Mapping[str, float]


@dataclass(frozen=True)
class TrackedTrial:
    """A trial.

    Attributes:
        key: Identifies it in its study.
        label: Arm, point and seed for people.
        parameters: Its specification, flat: `training.learning_rate`.
        state: Its state.
        reason: Why it failed, diverged or was pruned; empty otherwise.
        started_at: When it was started first.
        ended_at: When its last event was recorded.
        epochs: Its epochs, by number.
    """

    key: str
    label: str
    parameters: Mapping[str, Scalar]
    state: TrialState
    reason: str
    started_at: datetime
    ended_at: datetime
    epochs: Sequence[TrackedEpoch]

    @property
    def has_ended(self) -> bool:
        """Whether it will not run again, unless a person asks for it."""
        return self.state in (*ENDED, TrialState.FAILED)

    @property
    def digest(self) -> str:
        """Digest of how it ended. A failed trial that was retried can fail again, later and for another reason."""
        return hash_values(self.state.value, self.reason, [epoch.epoch for epoch in self.epochs])


@dataclass(frozen=True)
class TrackedSummary:
    """The result of a study.

    Attributes:
        state: State of the study.
        verdict: What its analysis says, by name: recommended row, verdict, warnings.
        columns: Columns of the ranked table.
        rows: Ranked rows, with a cell for each column; None for a missing value.
        csv: The ranked table as CSV.
        text: The ranked table and the analysis in Markdown.
        ended_at: When the study ended; until then, when it was accepted.
    """

    state: StudyState
    verdict: Mapping[str, str]
    columns: Sequence[str]
    rows: Sequence[Sequence[Scalar | None]]
    csv: str
    text: str
    ended_at: datetime

    @property
    def digest(self) -> str:
        """Digest of everything that it says."""
        return hash_values(self.state.value, dict(self.verdict), self.csv, self.text)


@dataclass(frozen=True)
class RecommendedNetwork:
    """The network of the recommended row, exported.

    Attributes:
        digest: Identifies network and row, see `hash_values`.
        label: The row.
        folder: Folder of the export, which `bln_search.load` reads.
        input_shape: Shape of an example.
        num_examples: Examples in a mini-batch of the row.
    """

    digest: str
    label: str
    folder: Path
    input_shape: tuple[int, ...]
    num_examples: int


def hash_values(*values: object) -> str:
    """The first 32 hexadecimal digits of the SHA-256 of values that JSON can represent."""
    return hashlib.sha256(json.dumps(values, sort_keys=True).encode()).hexdigest()[:32]
