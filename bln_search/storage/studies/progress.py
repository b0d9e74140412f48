"""How far studies are, and when they will end, from attempts and their epochs: pauses and queues do not count."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from sqlalchemy import ScalarSelect, extract, func, select
from sqlalchemy.orm import Session, aliased

from bln_search.core.states import ENDED, AttemptState
from bln_search.storage.tables import AttemptRow, EventRow, TrialRow

_WITHOUT_RESULT = (AttemptState.RUNNING, AttemptState.LOST, AttemptState.FAILED)


@dataclass(frozen=True)
class RunningTrial:
    """A trial that is trained now.

    Attributes:
        started_at: Start of its attempt.
        epochs: Epochs that it has in the end, without early stopping.
        epoch: The last epoch that is finished; 0 before the first.
        epoch_at: When this attempt reported that epoch; None before its first one.
        resumed_epoch: The epoch of an earlier attempt after which this one resumed; 0 without one.
    """

    started_at: datetime
    epochs: int
    epoch: int = 0
    epoch_at: datetime | None = None
    resumed_epoch: int = 0

    @property
    def expected_training_seconds(self) -> float | None:
        """The duration of this attempt, if all its epochs take as long as the finished ones; None before the first."""
        if self.epoch_at is None or self.epoch <= self.resumed_epoch:
            return None
        seconds_per_epoch = (self.epoch_at - self.started_at).total_seconds() / (self.epoch - self.resumed_epoch)
        return seconds_per_epoch * (self.epochs - self.resumed_epoch)


@dataclass(frozen=True)
class StudyThroughput:
    """The speed of a study.

    Attributes:
        seconds: Mean duration of a successful attempt; None before the first.
        running: The trials that are trained now.
    """

    seconds: float | None
    running: tuple[RunningTrial, ...] = ()

    @property
    def mean_seconds_per_trial(self) -> float | None:
        """The mean duration of a trial: of successful attempts, before the first as the epochs so far let expect."""
        if self.seconds is not None:
            return self.seconds
        expected = [seconds for trial in self.running if (seconds := trial.expected_training_seconds) is not None]
        return sum(expected) / len(expected) if expected else None

    def estimate_remaining_seconds(self, waiting: int, now: datetime) -> float | None:
        """Estimate the seconds until every trial has ended, with as many attempts side by side as now.

        Args:
            waiting: Trials that are not running yet.
            now: The present time.

        Returns:
            The seconds; None before the first epoch of the study.
        """
        mean = self.mean_seconds_per_trial
        if mean is None:
            return None
        running = sum(
            max(self._estimate_trial_seconds(trial, mean) - (now - trial.started_at).total_seconds(), 0.0)
            for trial in self.running
        )
        return (running + waiting * mean) / max(1, len(self.running))

    def _estimate_trial_seconds(self, trial: RunningTrial, mean: float) -> float:
        """The duration of a running trial. Its own epochs count only before an attempt has succeeded."""
        return mean if self.seconds is not None else trial.expected_training_seconds or mean


def measure_throughput_by_study(session: Session, study_ids: Sequence[int]) -> dict[int, StudyThroughput]:
    """The throughput of each of these studies in which an attempt runs or has succeeded."""
    if not study_ids:
        return {}
    duration = extract("epoch", AttemptRow.ended_at) - extract("epoch", AttemptRow.started_at)
    succeeded = (
        select(TrialRow.study_id, func.avg(duration))
        .join(AttemptRow, AttemptRow.trial_id == TrialRow.id)
        .where(TrialRow.study_id.in_(study_ids), AttemptRow.state == AttemptState.SUCCEEDED)
        .group_by(TrialRow.study_id)
    )
    means = session.execute(succeeded)  # below 0 where a clock was set back
    seconds = {study_id: max(0.0, float(mean)) for study_id, mean in means}
    running = _read_running_trials_by_study(session, study_ids)
    return {
        study_id: StudyThroughput(seconds.get(study_id), tuple(running.get(study_id, ())))
        for study_id in seconds.keys() | running.keys()
    }


def _read_running_trials_by_study(session: Session, study_ids: Sequence[int]) -> dict[int, list[RunningTrial]]:
    """The running trials by study, each with the newest epoch of its attempt."""
    epoch, resumption = aliased(EventRow), aliased(EventRow)
    query = (
        select(TrialRow.study_id, TrialRow.spec, AttemptRow.number, AttemptRow.started_at)
        .add_columns(epoch.at, epoch.data, resumption.data)
        .join(AttemptRow, AttemptRow.trial_id == TrialRow.id)
        .outerjoin(epoch, epoch.id == _select_newest_event_of_trial("epoch"))
        .outerjoin(resumption, resumption.id == _select_newest_event_of_trial("training_resumed"))
        .where(TrialRow.study_id.in_(study_ids), AttemptRow.state == AttemptState.RUNNING)
        .order_by(AttemptRow.id)
    )
    running: dict[int, list[RunningTrial]] = {}
    for study_id, spec, number, started_at, at, data, resumed in session.execute(query):
        epochs = _count_epochs(spec)
        resumed_epoch = _epoch_of_attempt(resumed, number)
        finished = _epoch_of_attempt(data, number)
        if finished > resumed_epoch:
            trial = RunningTrial(started_at, epochs, finished, at, resumed_epoch)
        else:
            trial = RunningTrial(started_at, epochs, resumed_epoch, resumed_epoch=resumed_epoch)
        running.setdefault(study_id, []).append(trial)
    return running


def _select_newest_event_of_trial(kind: str) -> ScalarSelect[int]:
    newest = select(EventRow.id).where(EventRow.trial_id == TrialRow.id, EventRow.kind == kind)
    return newest.order_by(EventRow.id.desc()).limit(1).correlate(TrialRow).scalar_subquery()


def _epoch_of_attempt(data: Mapping[str, Any] | None, number: int) -> int:
    """The epoch of an event of the attempt of this number; 0 for one of another attempt, or none."""
    return int(data["epoch"]) if data is not None and data.get("attempt") == number else 0


def _count_epochs(spec: str) -> int:
    """The epochs that a trial has in the end, by its specification as JSON."""
    values = json.loads(spec)
    return int(values.get("horizon") or values["training"]["epochs"])


def sum_finished_fractions_by_study(session: Session, study_ids: Sequence[int]) -> dict[int, float]:
    """The sum of the finished parts of the trials without a result, by study; studies without such trials are left out.

    Progress never decreases: the part of a trial is that of its furthest attempt. An attempt that begins anew, because
    no state of the training was saved, counts from the epoch on at which it comes further.
    """
    if not study_ids:
        return {}
    attempted = select(AttemptRow.trial_id).where(AttemptRow.state.in_(_WITHOUT_RESULT))
    unfinished = TrialRow.study_id.in_(study_ids), TrialRow.state.not_in(ENDED), TrialRow.id.in_(attempted)
    events = (
        select(EventRow.trial_id, func.max(EventRow.data["epoch"].as_integer()))
        .where(EventRow.trial_id.in_(select(TrialRow.id).where(*unfinished)), EventRow.kind == "epoch")
        .group_by(EventRow.trial_id)
    )
    furthest: dict[int | None, int] = dict(session.execute(events).all())
    sums: dict[int, float] = defaultdict(float)
    for trial_id, study_id, spec in session.execute(
        select(TrialRow.id, TrialRow.study_id, TrialRow.spec).where(*unfinished)
    ):
        sums[study_id] += min(1.0, furthest.get(trial_id, 0) / _count_epochs(spec))
    return dict(sums)
