"""An Optuna study for each arm: it samples points of the space, prunes trials, and receives their results.

Optuna stores its own records, for its samplers, its pruners and `optuna-dashboard`. The ledger is authoritative: lost
records are written again from it, and a trial that Optuna still counts as running takes its state from the ledger.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import optuna
from optuna.samplers import RandomSampler
from optuna.trial import FrozenTrial, Trial, TrialState
from sqlalchemy import event
from sqlalchemy.exc import SQLAlchemyError

from bln_search.core import states
from bln_search.core.sqlite import set_write_ahead_log
from bln_search.search.optuna.distributions import (
    optuna_distributions_of_space,
    optuna_parameters_of_point,
    point_from_optuna_parameters,
)
from bln_search.search.optuna.records import OptunaRecords, make_records_error
from bln_search.search.optuna.samplers import make_optuna_pruner, make_optuna_sampler
from bln_search.search.outcomes import find_point_outcome
from bln_search.specs.sampled_trial import SampledTrial
from bln_search.specs.sections.search import Pruner, SearchSpec
from bln_search.specs.sections.space import Point, Space

TRIAL_KEY_ATTR = "cell"
"""User attribute of an Optuna trial: the key of its first trial in the ledger. Stored in Optuna's records."""


_STOPPED_AFTER_ATTR = "stopped_after"
"""User attribute of an Optuna trial: the epoch after which the pruner stopped it."""


class OptunaPointSampler:
    """Samples points of the space for one arm of one study.

    Args:
        spec: Sampler, pruner, objectives and budget.
        space: The space.
        storage: Database URL of Optuna's records.
        schema: Their schema in Postgres; None for SQLite.
        name: Name of the Optuna study.
        epochs: Epochs of a complete training, for hyperband.

    Raises:
        LedgerError: Optuna's records cannot be used.
        StorageFullError: No disk space is left for them.
    """

    accepts_points_from_elsewhere = True
    is_waiting_for_result = False
    is_blocked_by_failed_trial = False
    end_reason = "every other point is known or was rejected"

    def __init__(
        self, spec: SearchSpec, space: Space, *, storage: str, name: str, epochs: int, schema: str | None = None
    ) -> None:
        self.spec, self.space, self.url, self.schema = spec, space, storage, schema
        self.distributions = optuna_distributions_of_space(space)
        optuna.logging.set_verbosity(optuna.logging.WARNING)
        # Optuna raises the last two where another version of it wrote the records
        with self._translate_optuna_errors(RuntimeError, AssertionError), warnings.catch_warnings():
            warnings.simplefilter("ignore")  # Optuna warns that some of its features are experimental
            self.storage = OptunaRecords(storage, schema)
            try:
                self.study = self._create_or_load_optuna_study(name, epochs)
                self._replace_sampler_with_new_seed()
            except BaseException:
                self.close()
                raise
        self.live: dict[str, Trial] = {}
        self._last_epoch_by_key: dict[str, int] = {}

    def _create_or_load_optuna_study(self, name: str, epochs: int) -> optuna.Study:
        """Create Optuna's study, or load it."""
        engine = self.storage.engine
        if engine.dialect.name == "sqlite":
            event.listen(engine, "connect", _use_write_ahead_log)
            engine.dispose()
        study = optuna.create_study(
            storage=self.storage,
            study_name=name,
            directions=["minimize"] * len(self.spec.objectives),
            pruner=make_optuna_pruner(self.spec, epochs),
            load_if_exists=True,
        )
        study.set_metric_names([objective.value for objective in self.spec.objectives])
        return study

    def close(self) -> None:
        """Close the database connections."""
        self.storage.remove_session()
        self.storage.engine.dispose()

    def ask(self, point: Point | None = None) -> Trial:
        """Ask Optuna for its next trial, or for one at `point`.

        The caller must then call `accept_suggestion` or `reject_suggestion`.
        """
        with self._translate_optuna_errors(), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            if point is not None:
                self.study.enqueue_trial(optuna_parameters_of_point(self.space, point))
            return self.study.ask(self.distributions)

    def draw_random_point(self) -> Point:
        """A point drawn uniformly from the space, independent of the sampler.

        It is another one after every `reject_suggestion`.
        """
        sampler = RandomSampler((self.spec.seed + self._num_optuna_trials) % 2**31)
        return self.point_of_suggestion(optuna.create_study(sampler=sampler).ask(self.distributions))

    @property
    def _num_optuna_trials(self) -> int:
        with self._translate_optuna_errors():
            return len(self.study.get_trials(deepcopy=False))

    def _replace_sampler_with_new_seed(self) -> None:
        """Seed a new sampler by the number of trials, so that it does not repeat its former points."""
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # Optuna warns that some of its samplers are experimental
            self.study.sampler = make_optuna_sampler(self.spec, self._num_optuna_trials)

    def accept_suggestion(self, trial: Trial, key: str) -> None:
        """Register a sampled point that is in the ledger; `key`: the key of its first trial."""
        self.live[key] = trial
        with self._translate_optuna_errors():
            trial.set_user_attr(TRIAL_KEY_ATTR, key)

    def reject_suggestion(self, trial: Trial, reason: str) -> None:
        """Reject a sampled point: it will not be trained."""
        with self._translate_optuna_errors():
            trial.set_user_attr("reason", reason)
            self.study.tell(trial, state=TrialState.FAIL)

    def report_loss_and_should_prune(self, key: str, epoch: int, loss: float) -> bool:
        """Report the loss of the trial `key` after an epoch; returns whether the pruner stops it.

        An attempt that repeats epochs of an earlier one gets the earlier decisions.
        """
        trial = self.live.get(key)
        last_epoch = self._last_epoch_by_key.get(key, 0)
        if self.spec.pruner is Pruner.NONE or trial is None or epoch < last_epoch:
            return False  # an earlier attempt went on after this epoch
        with self._translate_optuna_errors(), warnings.catch_warnings():
            warnings.simplefilter("ignore")  # a retried trial reports its last epoch again
            if epoch == last_epoch and trial.user_attrs.get(_STOPPED_AFTER_ATTR) == epoch:
                return True
            trial.report(loss, epoch)
            self._last_epoch_by_key[key] = epoch
            is_stopped = epoch >= self.spec.min_epochs and trial.should_prune()
            if is_stopped:
                trial.set_user_attr(_STOPPED_AFTER_ATTR, epoch)
            return is_stopped

    def tell(self, records: Sequence[SampledTrial]) -> None:
        """Tell Optuna the result of a point; do nothing while one of its trials is open."""
        outcome = self._find_optuna_outcome(records)
        if outcome is None:
            return
        state, values, reason = outcome
        with self._translate_optuna_errors():
            trial = self.live.pop(records[0].key, None)
            if trial is None:
                self._add_trial_with_result(records, state, values, reason)
                return
            if reason:
                trial.set_user_attr("reason", reason)
            self.study.tell(trial, values, state)

    def restore_from_ledger(self, points: Sequence[Sequence[SampledTrial]]) -> None:
        """Update Optuna's records from the points of the ledger.

        A running trial of Optuna without a point in the ledger becomes failed. A point that Optuna lacks is added.
        """
        with self._translate_optuna_errors():
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
                self._last_epoch_by_key[records[0].key] = frozen.last_step or 0
                self.tell(records)
            elif frozen is None or frozen.state is TrialState.FAIL:
                self._add_point_of_ledger(records, failed_before=frozen is not None)
        self._replace_sampler_with_new_seed()

    def _add_point_of_ledger(self, records: Sequence[SampledTrial], *, failed_before: bool) -> None:
        """Add a point of the ledger: open, or with its result."""
        outcome = self._find_optuna_outcome(records)
        if outcome is None:
            self.accept_suggestion(self.ask(records[0].parameters), records[0].key)
        elif not (failed_before and outcome[0] is TrialState.FAIL):
            with self._translate_optuna_errors():
                self._add_trial_with_result(records, *outcome)

    def _add_trial_with_result(
        self, records: Sequence[SampledTrial], state: TrialState, values: list[float] | None, reason: str | None
    ) -> None:
        """Add an Optuna trial with the result of a point."""
        first = records[0]
        params = optuna_parameters_of_point(self.space, first.parameters)
        frozen: FrozenTrial = optuna.trial.create_trial(
            state=state,
            values=values,
            params=params,
            distributions=self.distributions,
            intermediate_values=dict(first.losses) if self.spec.pruner is not Pruner.NONE else {},
            user_attrs={TRIAL_KEY_ATTR: first.key, **({"reason": reason} if reason else {})},
        )
        self.study.add_trial(frozen)

    def _find_optuna_outcome(
        self, records: Sequence[SampledTrial]
    ) -> tuple[TrialState, list[float] | None, str | None] | None:
        """Optuna's state, mean value of each objective over seeds, and reason of a failure; None while one is open."""
        outcome = find_point_outcome(records, self.spec.objectives)
        if outcome is None:
            return None
        if outcome.state is states.TrialState.PRUNED:
            return TrialState.PRUNED, None, None
        state = TrialState.FAIL if outcome.values is None else TrialState.COMPLETE
        return state, outcome.values, outcome.reason

    def point_of_suggestion(self, trial: Trial) -> Point:
        """The point of the space of an Optuna trial."""
        return point_from_optuna_parameters(self.space, trial.params)

    @contextmanager
    def _translate_optuna_errors(self, *further: type[Exception]) -> Iterator[None]:
        translated: tuple[type[Exception], ...] = (SQLAlchemyError, optuna.exceptions.OptunaError, ValueError, *further)
        try:
            yield
        except translated as error:
            raise make_records_error(error, self.url, self.schema) from error


def _use_write_ahead_log(connection: Any, _record: Any) -> None:
    """A power failure may lose the last transactions of Optuna's file; the ledger has them."""
    set_write_ahead_log(connection)
    connection.execute("PRAGMA synchronous=NORMAL")
