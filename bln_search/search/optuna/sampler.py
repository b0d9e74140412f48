"""Points of a space suggested by Optuna, one arm after another, and what became of them told back.

Optuna keeps its own records, for its samplers, its pruners and for `optuna-dashboard`. The ledger is the truth: records
that are lost are written anew from it, and a trial that Optuna left running is brought to where the ledger says it is.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from statistics import fmean
from typing import Any, Protocol

import optuna
from optuna.samplers import RandomSampler
from optuna.storages import RDBStorage
from optuna.trial import FrozenTrial, Trial, TrialState
from sqlalchemy import event
from sqlalchemy.exc import SQLAlchemyError

from bln_search.core import states
from bln_search.core.errors import LedgerError
from bln_search.search.optuna.distributions import distributions_of, parameters_of, point_of
from bln_search.search.optuna.samplers import make_pruner, make_sampler
from bln_search.specs.search import Objective, Pruner, SearchSpec
from bln_search.specs.space import Point, Space

_CELL = "cell"
"""Attribute of an Optuna trial: the key of its first trial in the ledger."""


class PointRecord(Protocol):
    """A trial of a point as the ledger has it."""

    @property
    def key(self) -> str:
        """Its key in the ledger."""

    @property
    def parameters(self) -> dict[str, Any]:
        """The point."""

    @property
    def state(self) -> states.TrialState:
        """Where it stands."""

    @property
    def losses(self) -> dict[int, float]:
        """Validation losses by epoch."""

    def measure(self, objective: Objective) -> float | None:
        """The figure of a finished trial."""


class Suggester:
    """Suggests points of one arm of one study.

    storage: URL of Optuna's records. name: of its study there. epochs: of a whole training, for hyperband.
    """

    def __init__(self, spec: SearchSpec, space: Space, *, storage: str, name: str, epochs: int) -> None:
        self.spec, self.space, self.url = spec, space, storage
        self.distributions = distributions_of(space)
        optuna.logging.set_verbosity(optuna.logging.WARNING)
        with self._plain_errors(), warnings.catch_warnings():
            warnings.simplefilter("ignore")  # Optuna calls some of its parts experimental
            self.records = records = RDBStorage(storage, engine_kwargs=_engine_options(storage))
            if storage.startswith("sqlite"):
                event.listen(records.engine, "connect", _write_ahead)
                records.engine.dispose()
            self.study = optuna.create_study(
                storage=records,
                study_name=name,
                directions=["minimize"] * len(spec.objectives),
                pruner=make_pruner(spec, epochs),
                load_if_exists=True,
            )
            self.study.set_metric_names([objective.value for objective in spec.objectives])
        self._renew_sampler()
        self.live: dict[str, Trial] = {}

    def close(self) -> None:
        """Give the connections back."""
        self.records.remove_session()
        self.records.engine.dispose()

    def ask(self, point: Point | None = None) -> Trial:
        """Optuna's next trial, or one at `point`; the method `point` says where, and `bind` or `drop` follows."""
        with self._plain_errors(), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            if point is not None:
                self.study.enqueue_trial(parameters_of(self.space, point))
            return self.study.ask(self.distributions)

    def random_point(self) -> Point:
        """A point of the space drawn evenly, whatever the sampler makes of it; another one after every `drop`."""
        sampler = RandomSampler((self.spec.seed + self._known) % 2**31)
        return self.point(optuna.create_study(sampler=sampler).ask(self.distributions))

    @property
    def _known(self) -> int:
        with self._plain_errors():
            return len(self.study.get_trials(deepcopy=False))

    def _renew_sampler(self) -> None:
        """A sampler that goes on differently from how one began that knew less."""
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # Optuna calls some of its samplers experimental
            self.study.sampler = make_sampler(self.spec, self._known)

    def bind(self, trial: Trial, key: str) -> None:
        """The suggested point stands in the ledger, its first trial under `key`."""
        self.live[key] = trial
        with self._plain_errors():
            trial.set_user_attr(_CELL, key)

    def drop(self, trial: Trial, reason: str) -> None:
        """The suggested point is not tried."""
        with self._plain_errors():
            trial.set_user_attr("reason", reason)
            self.study.tell(trial, state=TrialState.FAIL)

    def should_stop(self, key: str, epoch: int, loss: float) -> bool:
        """After an epoch of the trial `key`: does the pruner stop it?"""
        trial = self.live.get(key)
        if self.spec.pruner is Pruner.NONE or trial is None:
            return False
        with self._plain_errors(), warnings.catch_warnings():
            warnings.simplefilter("ignore")  # a trial that is tried again reports its epochs again
            trial.report(loss, epoch)
            return epoch >= self.spec.min_epochs and trial.should_prune()

    def settle(self, records: Sequence[PointRecord]) -> None:
        """Tell Optuna what became of a point; nothing while one of its trials is still to come."""
        outcome = self._outcome(records)
        if outcome is None:
            return
        state, values, reason = outcome
        with self._plain_errors():
            trial = self.live.pop(records[0].key, None)
            if trial is None:
                self._add(records, state, values, reason)
                return
            if reason:
                trial.set_user_attr("reason", reason)
            self.study.tell(trial, values, state)

    def restore(self, points: Sequence[Sequence[PointRecord]]) -> None:
        """Bring Optuna's records to what the ledger says of every point.

        What Optuna left running without a place in the ledger has failed. A point Optuna does not know is added.
        """
        with self._plain_errors():
            known = {trial.user_attrs.get(_CELL): trial for trial in self.study.get_trials(deepcopy=False)}
            cells = {records[0].key for records in points}
            for trial in self.study.get_trials(deepcopy=False):
                lost = trial.state is TrialState.RUNNING and trial.user_attrs.get(_CELL) not in cells
                if lost:
                    self.study.tell(trial.number, state=TrialState.FAIL)
        for records in points:
            found = known.get(records[0].key)
            if found is not None and found.state is TrialState.RUNNING:
                self.live[records[0].key] = Trial(self.study, found._trial_id)  # there is no public way back to one
                self.settle(records)
            elif found is None or found.state is TrialState.FAIL:
                self._settle_unknown(records, again=found is not None)
        self._renew_sampler()

    def _settle_unknown(self, records: Sequence[PointRecord], *, again: bool) -> None:
        outcome = self._outcome(records)
        if outcome is None:
            self.bind(self.ask(records[0].parameters), records[0].key)
        elif not (again and outcome[0] is TrialState.FAIL):
            with self._plain_errors():
                self._add(records, *outcome)

    def _add(
        self, records: Sequence[PointRecord], state: TrialState, values: list[float] | None, reason: str | None
    ) -> None:
        """A point that Optuna has no open trial for, as it ended."""
        first = records[0]
        params = parameters_of(self.space, first.parameters)
        frozen: FrozenTrial = optuna.trial.create_trial(
            state=state,
            values=values,
            params=params,
            distributions=self.distributions,
            intermediate_values=dict(first.losses) if self.spec.pruner is not Pruner.NONE else {},
            user_attrs={_CELL: first.key, **({"reason": reason} if reason else {})},
        )
        self.study.add_trial(frozen)

    def _outcome(self, records: Sequence[PointRecord]) -> tuple[TrialState, list[float] | None, str | None] | None:
        present = {record.state for record in records}
        if present & {states.TrialState.WAITING, states.TrialState.RUNNING, states.TrialState.TRAINED}:
            return None
        if present == {states.TrialState.FINISHED}:
            measured = [[record.measure(objective) for record in records] for objective in self.spec.objectives]
            known = [[one for one in values if one is not None] for values in measured]
            if all(len(values) == len(records) for values in known):
                return TrialState.COMPLETE, [fmean(values) for values in known], None
            return TrialState.FAIL, None, "an objective has no value"
        if states.TrialState.PRUNED in present:
            return TrialState.PRUNED, None, None
        return TrialState.FAIL, None, "diverged" if states.TrialState.DIVERGED in present else "failed"

    def point(self, trial: Trial) -> Point:
        """The point of the space that Optuna's trial stands for."""
        return point_of(self.space, trial.params)

    @contextmanager
    def _plain_errors(self) -> Iterator[None]:
        try:
            yield
        except (SQLAlchemyError, optuna.exceptions.OptunaError, ValueError) as error:
            reason = str(error).splitlines()[0]
            place = self.url.rpartition("@")[2]
            raise LedgerError(
                f"Optuna's records {place} cannot be used: {reason}; they may be removed, they are written anew from "
                "the ledger"
            ) from error


def _engine_options(url: str) -> dict[str, Any]:
    return {"connect_args": {"timeout": 30}} if url.startswith("sqlite") else {"pool_pre_ping": True}


def _write_ahead(connection: Any, _record: Any) -> None:
    """Optuna's file may lose its last moments when the power fails: the ledger has them."""
    for pragma in ("journal_mode=WAL", "synchronous=NORMAL"):
        connection.execute(f"PRAGMA {pragma}")
