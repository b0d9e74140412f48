"""Running attempts with their trials, and their ends, for many attempts with few statements."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

from sqlalchemy import select, update
from sqlalchemy.orm import Session

from bln_search.core.states import ENDED, AttemptState, TrialState, check_state_transition
from bln_search.storage.tables import AttemptRow, CheckpointRow, TrialRow
from bln_search.storage.trials.reports import AttemptEnd

CHUNK = 500
"""Attempts that one statement changes at most."""


@dataclass(frozen=True)
class RunningAttempt:
    """A running attempt, and its trial. state: that of the trial."""

    id: int
    number: int
    trial_id: int
    study_id: int
    state: TrialState


def lock_still_running_attempts(session: Session, tokens: Iterable[int]) -> dict[int, RunningAttempt]:
    """Those of the attempts that run, by token; their rows are locked until the transaction ends."""
    locked = select(AttemptRow.id, AttemptRow.number, AttemptRow.trial_id).where(
        AttemptRow.id.in_(sorted(set(tokens))), AttemptRow.state == AttemptState.RUNNING
    )
    attempts = session.execute(locked.order_by(AttemptRow.id).with_for_update()).all()
    trial_ids = [trial_id for _, _, trial_id in attempts]
    rows = session.execute(select(TrialRow.id, TrialRow.study_id, TrialRow.state).where(TrialRow.id.in_(trial_ids)))
    trials = {trial_id: (study_id, TrialState(state)) for trial_id, study_id, state in rows}
    return {token: RunningAttempt(token, number, trial, *trials[trial]) for token, number, trial in attempts}


def end_attempts_and_count_results_by_study(
    session: Session, ends: Sequence[tuple[RunningAttempt, AttemptEnd]], now: datetime
) -> Mapping[int, int]:
    """End attempts, and change the states of their trials.

    Args:
        session: An open session.
        ends: Attempts, each with its end.
        now: Time of the ends.

    Returns:
        The number of trials that got their result, by study.

    Raises:
        StateTransitionError: A state cannot follow the present one.
    """
    if not ends:
        return {}
    waiting = _choose_waiting_states(session, [attempt.trial_id for attempt, end in ends if end.trial_state is None])
    attempts: dict[AttemptEnd, list[int]] = {}
    trials: dict[tuple[TrialState, str | None], list[int]] = {}
    results: dict[int, int] = {}
    for attempt, end in ends:
        state = end.trial_state or waiting[attempt.trial_id]
        check_state_transition(AttemptState.RUNNING, end.attempt_state)
        check_state_transition(attempt.state, state)
        attempts.setdefault(end, []).append(attempt.id)
        is_new_reason = end.attempt_state is not AttemptState.LOST
        trials.setdefault((state, end.reason if is_new_reason else None), []).append(attempt.trial_id)
        results[attempt.study_id] = results.get(attempt.study_id, 0) + (state in ENDED)
    for end, ids in attempts.items():
        values = {"state": end.attempt_state, "failure": end.failure, "reason": end.reason, "ended_at": now}
        session.connection().execute(update(AttemptRow).where(AttemptRow.id.in_(ids)).values(values))
    for (state, reason), ids in trials.items():
        change = {"state": state} if reason is None else {"state": state, "reason": reason}
        session.connection().execute(update(TrialRow).where(TrialRow.id.in_(ids)).values(change))
    return results


def reopen_failed_trials(session: Session, study_id: int) -> None:
    """Let the failed trials of a study wait again, without their reasons."""
    failed = select(TrialRow.id).where(TrialRow.study_id == study_id, TrialRow.state == TrialState.FAILED)
    for chunk in split_into_chunks(session.scalars(failed.order_by(TrialRow.id)).all()):
        by_state: dict[TrialState, list[int]] = {}
        for trial_id, state in _choose_waiting_states(session, chunk).items():
            check_state_transition(TrialState.FAILED, state)
            by_state.setdefault(state, []).append(trial_id)
        for state, ids in by_state.items():
            change = update(TrialRow).where(TrialRow.id.in_(ids)).values(state=state, reason=None)
            session.connection().execute(change)


def _choose_waiting_states(session: Session, trial_ids: Sequence[int]) -> dict[int, TrialState]:
    """The state in which each trial waits: for evaluation where it has a checkpoint, else for training."""
    if not trial_ids:
        return {}
    trained = set(session.scalars(select(CheckpointRow.trial_id).where(CheckpointRow.trial_id.in_(trial_ids))))
    return {trial: TrialState.TRAINED if trial in trained else TrialState.WAITING for trial in trial_ids}


def split_into_chunks(items: Sequence[int]) -> list[Sequence[int]]:
    """Pieces of at most `CHUNK` items."""
    return [items[start : start + CHUNK] for start in range(0, len(items), CHUNK)]
