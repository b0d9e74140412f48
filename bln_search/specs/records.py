"""Studies and trials as they are stored and reported."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from functools import cached_property
from typing import TYPE_CHECKING, Any

from bln_search.core.code_identity import StudyCode
from bln_search.core.errors import DataError
from bln_search.core.records import CheckpointRecord
from bln_search.core.states import ENDED, StudyState, TrialState
from bln_search.specs.sections.space import HORIZON_KEY, format_point

if TYPE_CHECKING:
    from bln_search.specs.study import StudySpec
    from bln_search.specs.trial import TrialSpec


def encode_point_as_json(parameters: Mapping[str, Any] | None) -> str:
    """A point of a study's space as JSON with sorted keys; empty for a study without a space."""
    return "" if parameters is None else json.dumps(parameters, sort_keys=True)


@dataclass(frozen=True)
class StudyRecord:
    """A study and its progress.

    Attributes:
        trials: Number of trials by state.
        spec_json: The specification as JSON.
        planned: Number of trials that it has in the end.
        reason: Why it failed; None unless it failed.
        owner: Account that owns it; empty for a study of a command.
        tags: Its tags in alphabetical order.
        code: Versions of the code of its results; None where none was recorded, and in a record from a service.
        code_changes: How the code of its results changed, in sentences.
    """

    id: int
    name: str
    state: StudyState
    created_at: datetime
    ended_at: datetime | None
    trials: dict[TrialState, int]
    spec_json: str = field(repr=False)
    planned: int
    reason: str | None = None
    owner: str = ""
    tags: tuple[str, ...] = ()
    code: StudyCode | None = None
    code_changes: tuple[str, ...] = ()

    @cached_property
    def spec(self) -> StudySpec:
        """The specification."""
        from bln_search.specs.study import StudySpec  # noqa: PLC0415 - a list of studies loads no sections

        return StudySpec.model_validate_json(self.spec_json)

    @property
    def title(self) -> str:
        """The title in the specification; empty without one."""
        return str(json.loads(self.spec_json).get("title", ""))

    @property
    def num_trials_with_result(self) -> int:
        """Trials that have a result."""
        return sum(self.trials.get(state, 0) for state in ENDED)

    def check_has_no_external_results(self) -> None:
        """Raise DataError if the study has external results, whose networks no checkpoint store has."""
        if self.spec.external is not None:
            raise DataError(
                f"study {self.id} ({self.name}) has external results: its networks were trained elsewhere and are not "
                "stored, so they can be neither evaluated again nor searched nor exported; do so in Python, where the "
                "networks are"
            )


@dataclass(frozen=True)
class TrialRecord:
    """A training run of a study.

    Attributes:
        position: Position in the study's order.
        arm: Label of the arm.
        parameters: The point of the study's space, of a search trial with its horizon; None without a space.
        reason: Why it failed, diverged or was pruned; None otherwise.
        checkpoint: The trained network; None before it is trained.
        freed_at: When the checkpoint's file was deleted to free disk space; None unless it was.
        key: Digest of everything that determines its outcome.
        spec_json: The specification as JSON; None in a record from a service, which does not send it.
    """

    id: int
    position: int
    arm: str
    method: str
    seed: int
    parameters: dict[str, Any] | None
    state: TrialState
    reason: str | None = None
    checkpoint: CheckpointRecord | None = None
    freed_at: datetime | None = None
    key: str = ""
    spec_json: str | None = field(default=None, repr=False)

    @cached_property
    def spec(self) -> TrialSpec:
        """The specification. Raises DataError if the record has none."""
        if self.spec_json is None:
            raise DataError(f"the specification of trial {self.id} is unknown: the record came from a service")
        from bln_search.specs.trial import TrialSpec  # noqa: PLC0415 - as above

        return TrialSpec.model_validate_json(self.spec_json)

    @cached_property
    def point_json(self) -> str:
        """The point as JSON with sorted keys; empty without a space."""
        return encode_point_as_json(self.parameters)

    @property
    def is_search_phase_trial(self) -> bool:
        """Whether it only compares points, before the best one is trained in full."""
        return HORIZON_KEY in (self.parameters or {})

    @property
    def point_label(self) -> str:
        """The point for people: `lambda=0.5 batch_size=8`."""
        return format_point(self.parameters or {})

    def get_checkpoint_record(self) -> CheckpointRecord:
        """The trained network. Raises DataError if the trial has none."""
        if self.checkpoint is None:
            raise DataError(f"{self.arm} seed {self.seed} has no trained network")
        return self.checkpoint
