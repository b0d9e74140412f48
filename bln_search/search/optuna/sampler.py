"""An Optuna study for each arm: it samples points of the space, prunes trials, and receives their results.

Optuna stores its own records, for its samplers, its pruners and `optuna-dashboard`. The ledger is authoritative: lost
records are written again from it, and a trial that Optuna still counts as running takes its state from the ledger.
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
from bln_search.specs.sections.search import Objective, Pruner, SearchSpec
from bln_search.specs.sections.space import Point, Space

TRIAL_KEY_ATTR = "cell"
"""User attribute of an Optuna trial: the key of its first trial in the ledger. Stored in Optuna's records."""


class PointTrialRecord(Protocol):
    """A trial of a point in the ledger."""

    @property
    def key(self) -> str:
        """The key of the trial."""

    @property
    def parameters(self) -> dict[str, Any]:
        """The point of the space."""

    @property
    def state(self) -> states.TrialState:
        """The state of the trial."""

    @property
    def losses(self) -> dict[int, float]:
        """Validation loss (nats) by epoch."""

    def objective_value(self, objective: Objective) -> float | None:
        """The value of an objective for a finished trial; None if it was not measured."""


class OptunaSampler:
    """Samples points of the space for one arm of one study.

    Args:
        spec: Sampler, pruner, objectives and budget.
        space: The space.
        storage: Database URL of Optuna's records.
        name: Name of the Optuna study.
        epochs: Epochs of a complete training, for hyperband.

    Raises:
        LedgerError: Optuna's records cannot be used.
    """

    def __init__(self, spec: SearchSpec, space: Space, *, storage: str, name: str, epochs: int) -> None:
        self.spec, self.space, self.url = spec, space, storage
        self.distributions = distributions_of(space)
        optuna.logging.set_verbosity(optuna.logging.WARNING)
        with self._translate_errors(), warnings.catch_warnings():
            warnings.simplefilter("ignore")  # Optuna warns that some of its features are experimental
            self.storage = _ClosingStorage(storage, engine_kwargs=_engine_options(storage))
            try:
                self.study = self._open_study(name, epochs)
                self._reseed_sampler()
            except BaseException:
                self.close()
                raise
        self.live: dict[str, Trial] = {}

    def _open_study(self, name: str, epochs: int) -> optuna.Study:
        """Create Optuna's study, or load it."""
        engine = self.storage.engine
        if engine.dialect.name == "sqlite":
            event.listen(engine, "connect", _use_write_ahead_log)
            engine.dispose()
        study = optuna.create_study(
            storage=self.storage,
            study_name=name,
            directions=["minimize"] * len(self.spec.objectives),
            pruner=make_pruner(self.spec, epochs),
            load_if_exists=True,
        )
        study.set_metric_names([objective.value for objective in self.spec.objectives])
        return study

    def close(self) -> None:
        """Close the database connections."""
        self.storage.remove_session()
        self.storage.engine.dispose()

    def ask(self, point: Point | None = None) -> Trial:
        """Ask Optuna for its next trial, or for one at `point`; the caller must then call `register` or `reject`."""
        with self._translate_errors(), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            if point is not None:
                self.study.enqueue_trial(parameters_of(self.space, point))
            return self.study.ask(self.distributions)

    def random_point(self) -> Point:
        """A point drawn uniformly from the space, independent of the sampler; another one after every `reject`."""
        sampler = RandomSampler((self.spec.seed + self._trial_count) % 2**31)
        return self.point(optuna.create_study(sampler=sampler).ask(self.distributions))

    @property
    def _trial_count(self) -> int:
        with self._translate_errors():
            return len(self.study.get_trials(deepcopy=False))

    def _reseed_sampler(self) -> None:
        """Seed a new sampler by the number of trials, so that it does not repeat its former points."""
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # Optuna warns that some of its samplers are experimental
            self.study.sampler = make_sampler(self.spec, self._trial_count)

    def register(self, trial: Trial, key: str) -> None:
        """Register a sampled point that is in the ledger; `key`: the key of its first trial."""
        self.live[key] = trial
        with self._translate_errors():
            trial.set_user_attr(TRIAL_KEY_ATTR, key)

    def reject(self, trial: Trial, reason: str) -> None:
        """Reject a sampled point: it will not be trained."""
        with self._translate_errors():
            trial.set_user_attr("reason", reason)
            self.study.tell(trial, state=TrialState.FAIL)

    def should_stop(self, key: str, epoch: int, loss: float) -> bool:
        """Report the loss of the trial `key` after an epoch; returns whether the pruner stops it."""
        trial = self.live.get(key)
        if self.spec.pruner is Pruner.NONE or trial is None:
            return False
        with self._translate_errors(), warnings.catch_warnings():
            warnings.simplefilter("ignore")  # a retried trial reports its epochs again
            trial.report(loss, epoch)
            return epoch >= self.spec.min_epochs and trial.should_prune()

    def tell(self, records: Sequence[PointTrialRecord]) -> None:
        """Tell Optuna the result of a point; do nothing while one of its trials is open."""
        outcome = self._point_outcome(records)
        if outcome is None:
            return
        state, values, reason = outcome
        with self._translate_errors():
            trial = self.live.pop(records[0].key, None)
            if trial is None:
                self._add_finished(records, state, values, reason)
                return
            if reason:
                trial.set_user_attr("reason", reason)
            self.study.tell(trial, values, state)

    def synchronize(self, points: Sequence[Sequence[PointTrialRecord]]) -> None:
        """Update Optuna's records from the points of the ledger.

        A running trial of Optuna without a point in the ledger becomes failed. A point that Optuna lacks is added.
        """
        with self._translate_errors():
            trial_by_key = {
                trial.user_attrs.get(TRIAL_KEY_ATTR): trial for trial in self.study.get_trials(deepcopy=False)
            }
            ledger_keys = {records[0].key for records in points}
            for trial in self.study.get_trials(deepcopy=False):
                key = trial.user_attrs.get(TRIAL_KEY_ATTR)
                if trial.state is TrialState.RUNNING and key not in ledger_keys:
                    self.study.tell(trial.number, state=TrialState.FAIL)
        for records in points:
            frozen = trial_by_key.get(records[0].key)
            if frozen is not None and frozen.state is TrialState.RUNNING:
                self.live[records[0].key] = Trial(self.study, frozen._trial_id)  # Optuna has no public API for this
                self.tell(records)
            elif frozen is None or frozen.state is TrialState.FAIL:
                self._add_point(records, failed_before=frozen is not None)
        self._reseed_sampler()

    def _add_point(self, records: Sequence[PointTrialRecord], *, failed_before: bool) -> None:
        """Add a point of the ledger: open, or with its result."""
        outcome = self._point_outcome(records)
        if outcome is None:
            self.register(self.ask(records[0].parameters), records[0].key)
        elif not (failed_before and outcome[0] is TrialState.FAIL):
            with self._translate_errors():
                self._add_finished(records, *outcome)

    def _add_finished(
        self, records: Sequence[PointTrialRecord], state: TrialState, values: list[float] | None, reason: str | None
    ) -> None:
        """Add an Optuna trial with the result of a point."""
        first = records[0]
        params = parameters_of(self.space, first.parameters)
        frozen: FrozenTrial = optuna.trial.create_trial(
            state=state,
            values=values,
            params=params,
            distributions=self.distributions,
            intermediate_values=dict(first.losses) if self.spec.pruner is not Pruner.NONE else {},
            user_attrs={TRIAL_KEY_ATTR: first.key, **({"reason": reason} if reason else {})},
        )
        self.study.add_trial(frozen)

    def _point_outcome(
        self, records: Sequence[PointTrialRecord]
    ) -> tuple[TrialState, list[float] | None, str | None] | None:
        """State, mean value of each objective over seeds, and reason of a failure; None while a trial is open."""
        present = {record.state for record in records}
        if present & {states.TrialState.WAITING, states.TrialState.RUNNING, states.TrialState.TRAINED}:
            return None
        if present == {states.TrialState.FINISHED}:
            measured = [[record.objective_value(objective) for record in records] for objective in self.spec.objectives]
            values = [[value for value in objective_values if value is not None] for objective_values in measured]
            if all(len(objective_values) == len(records) for objective_values in values):
                return TrialState.COMPLETE, [fmean(objective_values) for objective_values in values], None
            return TrialState.FAIL, None, "an objective has no value"
        if states.TrialState.PRUNED in present:
            return TrialState.PRUNED, None, None
        return TrialState.FAIL, None, "diverged" if states.TrialState.DIVERGED in present else "failed"

    def point(self, trial: Trial) -> Point:
        """The point of the space of an Optuna trial."""
        return point_of(self.space, trial.params)

    @contextmanager
    def _translate_errors(self) -> Iterator[None]:
        try:
            yield
        except (SQLAlchemyError, optuna.exceptions.OptunaError, ValueError) as error:
            reason = str(error).splitlines()[0]
            location = self.url.rpartition("@")[2]
            raise LedgerError(
                f"Optuna's records {location} cannot be used: {reason}; delete them; they are written again from the "
                "ledger"
            ) from error


class _ClosingStorage(RDBStorage):
    """Optuna's records; their connections are closed where the constructor refuses the database."""

    def __init__(self, *args: Any, **options: Any) -> None:
        try:
            super().__init__(*args, **options)
        except BaseException:
            if "engine" in vars(self):
                self.engine.dispose()
            raise


def _engine_options(url: str) -> dict[str, Any]:
    return {"connect_args": {"timeout": 30}} if url.startswith("sqlite") else {"pool_pre_ping": True}


def _use_write_ahead_log(connection: Any, _record: Any) -> None:
    """A power failure may lose the last transactions of Optuna's file; the ledger has them."""
    for pragma in ("journal_mode=WAL", "synchronous=NORMAL"):
        connection.execute(f"PRAGMA {pragma}")
