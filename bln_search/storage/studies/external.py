"""Stores results of networks that were trained elsewhere as complete studies."""

from __future__ import annotations

from datetime import datetime

from sqlalchemy.orm import Session

from bln_search.core.states import StudyState, TrialState
from bln_search.specs.sections.external import ExternalSpec
from bln_search.specs.study import StudySpec
from bln_search.specs.trial import list_planned_trial_specs
from bln_search.storage.bulk_insert import insert_rows, insert_rows_and_return_ids
from bln_search.storage.database import Database
from bln_search.storage.events import append_event
from bln_search.storage.results.external_results import CheckedEvaluation
from bln_search.storage.row_factories import make_evaluation_column_values, make_study_row, make_waiting_trial_rows
from bln_search.storage.studies.lifecycle import Submission, make_account_event_data, submit_once
from bln_search.storage.tables import NO_FILE, CheckpointRow, EvaluationRow, OutcomesRow, TrialRow
from bln_search.storage.webhook.study_ends import add_delivery_if_ended


class ExternalStudyRepository:
    """Stores studies with external results."""

    def __init__(self, database: Database) -> None:
        self.database = database

    def submit_complete_study(
        self, study: StudySpec, evaluations: tuple[CheckedEvaluation, ...], owner: str, key: str | None = None
    ) -> Submission:
        """Store a complete study with all its evaluations atomically; equal results of the same owner are stored once.

        Args:
            study: The study, with the section `external`.
            evaluations: Its checked evaluations.
            owner: The account that it belongs to.
            key: An idempotency key.

        Raises:
            IdempotencyConflictError: the key was used before with another study.
        """
        return submit_once(
            self.database, study, owner, key, lambda session: self._add_study(session, study, evaluations, owner)
        )

    def _add_study(
        self, session: Session, study: StudySpec, evaluations: tuple[CheckedEvaluation, ...], owner: str
    ) -> int:
        """Add the study in the state from which a worker analyses it; return its id."""
        assert study.external is not None, "the caller made it from results"
        now = self.database.now(session)
        row = make_study_row(study, now, owner, len(study.all_seeds))
        row.state, row.results, row.started_at, row.ended_at = StudyState.COMPLETE, len(study.all_seeds), now, now
        session.add(row)
        session.flush()
        trials = make_waiting_trial_rows(list_planned_trial_specs(study), row.id)
        for trial in trials:
            trial.state = TrialState.FINISHED
        session.add_all(trials)
        session.flush()
        by_network: dict[int, list[CheckedEvaluation]] = {}
        for evaluation in evaluations:
            by_network.setdefault(evaluation.network, []).append(evaluation)
        for network, trial in enumerate(trials):
            _add_network(session, study.external, trial, by_network.get(network, []), now)
        append_event(session, row.id, now, "study_accepted", {"digest": study.digest, **make_account_event_data(owner)})
        append_event(session, row.id, now, f"study_{StudyState.COMPLETE}", make_account_event_data(owner))
        add_delivery_if_ended(session, row, now)
        return row.id


def _add_network(
    session: Session,
    external: ExternalSpec,
    trial: TrialRow,
    evaluations: list[CheckedEvaluation],
    now: datetime,
) -> None:
    """Add the evaluations of a network, and a checkpoint without a file that they belong to."""
    network = external.networks[trial.seed]
    losses = [submitted.evaluation.loss for submitted in evaluations if submitted.evaluation.loss is not None]
    checkpoint = CheckpointRow(
        trial_id=trial.id,
        file=NO_FILE,
        sha256=network.sha256 or "",
        epoch=0,
        judged_under="",
        validation_loss=min(losses, default=0.0),
        provenance={"network": network.name},
        created_at=now,
    )
    session.add(checkpoint)
    session.flush()
    rows = [make_evaluation_column_values(submitted.evaluation, checkpoint.id) for submitted in evaluations]
    outcomes = [
        {"evaluation_id": new_id, "losses": submitted.encoded_outcomes[0], "correct": submitted.encoded_outcomes[1]}
        for new_id, submitted in zip(insert_rows_and_return_ids(session, EvaluationRow, rows), evaluations, strict=True)
        if submitted.encoded_outcomes is not None
    ]
    insert_rows(session, OutcomesRow, outcomes)
