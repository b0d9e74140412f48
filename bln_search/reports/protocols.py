"""What reports are told of a study; whoever has it in this shape may ask for one."""

from __future__ import annotations

from datetime import datetime
from typing import Protocol

from bln_search.core.records import CheckpointRecord
from bln_search.core.states import StudyState, TrialState
from bln_search.specs.study import StudySpec


class StudyFacts(Protocol):
    """A study and how far it is."""

    @property
    def id(self) -> int:
        """Its number."""

    @property
    def name(self) -> str:
        """Its name."""

    @property
    def state(self) -> StudyState:
        """Where it stands."""

    @property
    def created_at(self) -> datetime:
        """When it was accepted."""

    @property
    def ended_at(self) -> datetime | None:
        """When it was over."""

    @property
    def spec(self) -> StudySpec:
        """What was asked."""

    @property
    def reason(self) -> str | None:
        """Why it stands there, where that needs saying."""


class TrialFacts(Protocol):
    """A trial as it stands; parameters: its point for people, point: the exact one as JSON, empty without a space."""

    @property
    def id(self) -> int:
        """Its number."""

    @property
    def arm(self) -> str:
        """The label of its arm."""

    @property
    def method(self) -> str:
        """Its method of normalizing."""

    @property
    def seed(self) -> int:
        """Its seed."""

    @property
    def parameters(self) -> str:
        """Its point for people."""

    @property
    def point(self) -> str:
        """Its point as JSON with sorted keys."""

    @property
    def state(self) -> TrialState:
        """Where it stands."""

    @property
    def reason(self) -> str | None:
        """Why it failed or diverged."""

    @property
    def checkpoint(self) -> CheckpointRecord | None:
        """Its trained network."""
