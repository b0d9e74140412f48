"""The states of studies, trials, attempts, evaluations, exports and deliveries, and transitions between them."""

from __future__ import annotations

from enum import StrEnum

from bln_search.core.errors import StateTransitionError


class StudyState(StrEnum):
    """The state of a study.

    Members:
        ACCEPTED: It waits in the queue.
        RUNNING: A process runs it.
        PAUSED: A person paused it; it runs again after a request to resume.
        COMPLETE: Every trial has its result.
        INTERRUPTED: A command stopped before the study was complete.
        CANCELLED: A person cancelled it; it runs again after a request to resume.
        FAILED: No worker can complete it, or every remaining trial has failed; it runs again after a request to resume.
    """

    ACCEPTED = "accepted"
    RUNNING = "running"
    PAUSED = "paused"
    COMPLETE = "complete"
    INTERRUPTED = "interrupted"
    CANCELLED = "cancelled"
    FAILED = "failed"


class StopRequest(StrEnum):
    """A person's request to the process that runs a study."""

    PAUSE = "pause"
    CANCEL = "cancel"

    @property
    def target_state(self) -> StudyState:
        """The state of a study after its runner has carried out the request."""
        return StudyState.PAUSED if self is StopRequest.PAUSE else StudyState.CANCELLED


class TrialState(StrEnum):
    """The state of a trial.

    Members:
        WAITING: It waits for training.
        RUNNING: An attempt runs.
        TRAINED: It has a checkpoint and waits for evaluation.
        FINISHED: All its evaluations are stored.
        DIVERGED: Its training diverged.
        PRUNED: The pruner stopped its training, or the study is decided without it.
        FAILED: Its last attempt failed, and no further one is made in this run.
        CANCELLED: Its study was cancelled before it had a result. Not stored; see `displayed_trial_state`.
    """

    WAITING = "waiting"
    RUNNING = "running"
    TRAINED = "trained"
    FINISHED = "finished"
    DIVERGED = "diverged"
    PRUNED = "pruned"
    FAILED = "failed"
    CANCELLED = "cancelled"


ENDED = (TrialState.FINISHED, TrialState.DIVERGED, TrialState.PRUNED)
"""States of a trial that has its result."""


class AttemptState(StrEnum):
    """The state of an attempt at a trial.

    Members:
        RUNNING: It runs.
        SUCCEEDED: It reported the result of the trial.
        FAILED: It reported an error.
        LOST: It ended without a report.
        DIVERGED: Its result is that training diverged. Not stored; see `displayed_attempt_state`.
        PRUNED: Its result is that the pruner stopped training. Not stored; see `displayed_attempt_state`.
    """

    RUNNING = "running"
    SUCCEEDED = "succeeded"
    FAILED = "failed"
    LOST = "lost"
    DIVERGED = "diverged"
    PRUNED = "pruned"


NEVER_STORED: dict[type[StrEnum], tuple[StrEnum, ...]] = {
    TrialState: (TrialState.CANCELLED,),
    AttemptState: (AttemptState.DIVERGED, AttemptState.PRUNED),
}
"""States that are shown and never stored."""


class EvaluationState(StrEnum):
    """The state of an evaluation.

    Members:
        MEASURED: It has a loss and an accuracy.
        UNDEFINED: A formula has no value.
        DIVERGED: A loss is not finite.
    """

    MEASURED = "measured"
    UNDEFINED = "undefined"
    DIVERGED = "diverged"


class ExportState(StrEnum):
    """The state of the export of a network.

    Members:
        REQUESTED: It waits for a worker.
        RUNNING: A worker builds it.
        READY: Its archive can be downloaded.
        FAILED: It cannot be built; it is built again after another request.
        EXPIRED: Its archive was deleted; it is built again after another request.
    """

    REQUESTED = "requested"
    RUNNING = "running"
    READY = "ready"
    FAILED = "failed"
    EXPIRED = "expired"


class DeliveryState(StrEnum):
    """The state of the delivery of a message of the webhook.

    Members:
        WAITING: It was not accepted yet.
        ACCEPTED: The receiver accepted it.
        GIVEN_UP: The receiver refused it for good, or too many attempts failed.
    """

    WAITING = "waiting"
    ACCEPTED = "accepted"
    GIVEN_UP = "given_up"


class FailureClass(StrEnum):
    """Why an attempt ended without a result."""

    INFRASTRUCTURE = "infrastructure"
    OUT_OF_MEMORY = "out_of_memory"
    USER_ERROR = "user_error"


State = StudyState | TrialState | AttemptState | ExportState

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
        TrialState.WAITING: frozenset({TrialState.RUNNING, TrialState.PRUNED}),
        TrialState.RUNNING: frozenset({TrialState.WAITING, TrialState.TRAINED, TrialState.FAILED, *ENDED}),
        TrialState.TRAINED: frozenset({TrialState.RUNNING}),
        TrialState.FINISHED: frozenset(),
        TrialState.DIVERGED: frozenset(),
        TrialState.PRUNED: frozenset(),
        TrialState.FAILED: frozenset({TrialState.WAITING, TrialState.TRAINED}),
        TrialState.CANCELLED: frozenset(),
    },
    AttemptState: {
        AttemptState.RUNNING: frozenset({AttemptState.SUCCEEDED, AttemptState.FAILED, AttemptState.LOST}),
        AttemptState.SUCCEEDED: frozenset(),
        AttemptState.FAILED: frozenset(),
        AttemptState.LOST: frozenset(),
        AttemptState.DIVERGED: frozenset(),
        AttemptState.PRUNED: frozenset(),
    },
    ExportState: {
        ExportState.REQUESTED: frozenset({ExportState.RUNNING}),
        ExportState.RUNNING: frozenset({ExportState.REQUESTED, ExportState.READY, ExportState.FAILED}),
        ExportState.READY: frozenset({ExportState.EXPIRED}),
        ExportState.FAILED: frozenset({ExportState.REQUESTED}),
        ExportState.EXPIRED: frozenset({ExportState.REQUESTED}),
    },
}


def displayed_trial_state(stored: TrialState, study: StudyState | str) -> TrialState:
    """The state of a trial as lists show it: a trial of a cancelled study no longer waits.

    Its stored state stays, because the trial waits again when the study is resumed.

    Args:
        stored: The stored state of the trial.
        study: The state of its study.
    """
    is_open = stored in (TrialState.WAITING, TrialState.TRAINED)
    return TrialState.CANCELLED if is_open and study == StudyState.CANCELLED else stored


def displayed_attempt_state(stored: AttemptState, trial: TrialState | str) -> AttemptState:
    """The state of an attempt as lists show it: an attempt whose result is a divergence or a pruning says so.

    Args:
        stored: The stored state of the attempt.
        trial: The state of its trial.
    """
    has_no_network = trial in (TrialState.DIVERGED, TrialState.PRUNED)
    return AttemptState(trial) if has_no_network and stored is AttemptState.SUCCEEDED else stored


_VERBS = {
    StudyState.ACCEPTED: "queue",
    StudyState.RUNNING: "run",
    StudyState.PAUSED: "pause",
    StudyState.CANCELLED: "cancel",
}
"""What a request for a state of a study does."""

NEXT_STEPS = {
    StudyState.ACCEPTED: "it waits in the queue",
    StudyState.RUNNING: "a process runs it",
    StudyState.INTERRUPTED: "`bln-search run` resumes it",
    StudyState.COMPLETE: "that state is final",
    **dict.fromkeys(
        (StudyState.PAUSED, StudyState.CANCELLED, StudyState.FAILED), "`bln-search resume` queues it again"
    ),
}
"""What can be done with a study in a state."""


def _indefinite_article_for(state: StudyState) -> str:
    return "an" if state.startswith(("a", "i")) else "a"


def check_state_transition(present: State, following: State) -> None:
    """Raise StateTransitionError unless `following` may come after `present`."""
    may_follow = TRANSITIONS[type(present)][present]
    if type(following) is not type(present) or following not in may_follow:
        kind = type(present).__name__.removesuffix("State").lower()
        if isinstance(present, StudyState) and isinstance(following, StudyState):
            verb = _VERBS.get(following, "change")
            raise StateTransitionError(
                f"cannot {verb} {_indefinite_article_for(present)} {present!s} study; {NEXT_STEPS[present]}"
            )
        end = f"it may become {', '.join(sorted(may_follow))}" if may_follow else "that state is final"
        raise StateTransitionError(f"this {kind} is {present!s} and cannot become {following!s}: {end}")
