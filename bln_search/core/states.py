"""The states of a study's records, and which may follow which: one table, in one place."""

from __future__ import annotations

from enum import StrEnum

from bln_search.core.errors import TransitionError


class StudyState(StrEnum):
    """A study. A service's queue holds the accepted ones; a paused, cancelled or failed one waits for a person.

    interrupted: a command was stopped before the study was complete. failed: what is left was tried and cannot succeed.
    """

    ACCEPTED = "accepted"
    RUNNING = "running"
    PAUSED = "paused"
    COMPLETE = "complete"
    INTERRUPTED = "interrupted"
    CANCELLED = "cancelled"
    FAILED = "failed"


class Request(StrEnum):
    """What a person wants of a study that runs; whoever runs it sees to it."""

    PAUSE = "pause"
    CANCEL = "cancel"


class TrialState(StrEnum):
    """A trial. `trained` has a checkpoint but not all its evaluations yet; `pruned` was stopped early by a pruner."""

    WAITING = "waiting"
    RUNNING = "running"
    TRAINED = "trained"
    FINISHED = "finished"
    DIVERGED = "diverged"
    PRUNED = "pruned"
    FAILED = "failed"


ENDED = (TrialState.FINISHED, TrialState.DIVERGED, TrialState.PRUNED)
"""A trial in one of these has its result."""


class AttemptState(StrEnum):
    """One try at a trial."""

    RUNNING = "running"
    SUCCEEDED = "succeeded"
    FAILED = "failed"
    LOST = "lost"


class EvaluationState(StrEnum):
    """measured: has figures. undefined: a formula has no value there. diverged: a loss is not a finite number."""

    MEASURED = "measured"
    UNDEFINED = "undefined"
    DIVERGED = "diverged"


class FailureClass(StrEnum):
    """Why an attempt ended without a result."""

    INFRASTRUCTURE = "infrastructure"
    OUT_OF_MEMORY = "out_of_memory"
    USER_ERROR = "user_error"


State = StudyState | TrialState | AttemptState

TRANSITIONS: dict[type[State], dict[State, frozenset[State]]] = {
    StudyState: {
        StudyState.ACCEPTED: frozenset(
            {StudyState.RUNNING, StudyState.PAUSED, StudyState.CANCELLED, StudyState.FAILED}
        ),
        StudyState.RUNNING: frozenset(StudyState),
        StudyState.PAUSED: frozenset({StudyState.ACCEPTED, StudyState.RUNNING, StudyState.CANCELLED}),
        StudyState.INTERRUPTED: frozenset({StudyState.RUNNING, StudyState.COMPLETE, StudyState.CANCELLED}),
        StudyState.CANCELLED: frozenset({StudyState.ACCEPTED, StudyState.RUNNING}),
        StudyState.FAILED: frozenset({StudyState.ACCEPTED, StudyState.RUNNING, StudyState.CANCELLED}),
        StudyState.COMPLETE: frozenset(),
    },
    TrialState: {
        TrialState.WAITING: frozenset({TrialState.RUNNING}),
        TrialState.RUNNING: frozenset({TrialState.WAITING, TrialState.TRAINED, TrialState.FAILED, *ENDED}),
        TrialState.TRAINED: frozenset({TrialState.RUNNING}),
        TrialState.FINISHED: frozenset(),
        TrialState.DIVERGED: frozenset(),
        TrialState.PRUNED: frozenset(),
        TrialState.FAILED: frozenset({TrialState.WAITING, TrialState.TRAINED}),
    },
    AttemptState: {
        AttemptState.RUNNING: frozenset({AttemptState.SUCCEEDED, AttemptState.FAILED, AttemptState.LOST}),
        AttemptState.SUCCEEDED: frozenset(),
        AttemptState.FAILED: frozenset(),
        AttemptState.LOST: frozenset(),
    },
}


def check_transition(present: State, following: State) -> None:
    """Raise TransitionError unless `following` may come after `present`."""
    may_follow = TRANSITIONS[type(present)][present]
    if type(following) is not type(present) or following not in may_follow:
        what = type(present).__name__.removesuffix("State").lower()
        end = f"it may become {', '.join(sorted(may_follow))}" if may_follow else "that state is final"
        raise TransitionError(f"this {what} is {present!s} and cannot become {following!s}: {end}")
