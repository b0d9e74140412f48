"""Probes: measurements of trained networks beside the leaderboard."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any

from sqlalchemy import Row, Select, delete, select

from bln_search.core.enums import ProbeKind
from bln_search.core.errors import DataError
from bln_search.core.records import EvaluationKey, ProbeResult
from bln_search.ranking.probe_results import TrialProbe
from bln_search.specs.records import encode_point_as_json
from bln_search.storage.bulk_insert import insert_rows
from bln_search.storage.database import Database
from bln_search.storage.pagination import iter_equality_conditions
from bln_search.storage.row_factories import make_probe_column_values
from bln_search.storage.tables import CheckpointRow, ProbeRow, TrialRow


class ProbeRepository:
    """Reads and replaces probes."""

    def __init__(self, database: Database) -> None:
        self.database = database

    def list_probes(
        self, study_id: int, *, arm: str | None = None, kinds: Collection[ProbeKind] | None = None
    ) -> list[TrialProbe]:
        """The probes of a study, of one arm or some kinds where they are given."""
        with self.database.read_session() as session:
            return [_make_trial_probe(row) for row in session.execute(_select_probes(study_id, arm, kinds))]

    def list_probe_page(
        self, study_id: int, after: int, limit: int, kind: ProbeKind | None = None, arm: str | None = None
    ) -> list[tuple[int, TrialProbe]]:
        """At most `limit` probes of a study with ids above `after`, each with its id; of one kind or arm if given."""
        query = _select_probes(study_id, arm, None if kind is None else [kind]).where(ProbeRow.id > after).limit(limit)
        with self.database.read_session() as session:
            return [(row.id, _make_trial_probe(row)) for row in session.execute(query)]

    def replace_probes(
        self, trial_id: int, sha256: str, kinds: Collection[ProbeKind], probes: Sequence[ProbeResult]
    ) -> None:
        """Replace the probes of some kinds of a checkpoint atomically.

        Args:
            trial_id: The trial of the checkpoint.
            sha256: SHA-256 of the checkpoint when it was measured.
            kinds: Kinds whose earlier probes are deleted.
            probes: Probes to store.

        Raises:
            DataError: the trial has another checkpoint by now, or none.
        """
        with self.database.write_session() as session:
            query = select(CheckpointRow.id).where(CheckpointRow.trial_id == trial_id, CheckpointRow.sha256 == sha256)
            checkpoint_id = session.scalars(query).one_or_none()
            if checkpoint_id is None:
                raise DataError("a network was trained again or deleted while it was measured: measure again")
            earlier = delete(ProbeRow).where(ProbeRow.checkpoint_id == checkpoint_id, ProbeRow.kind.in_(list(kinds)))
            session.execute(earlier)
            insert_rows(session, ProbeRow, [make_probe_column_values(probe, checkpoint_id) for probe in probes])


_KEY = (ProbeRow.configuration, ProbeRow.estimate, ProbeRow.batch_size, ProbeRow.split, ProbeRow.condition)
_VALUES = (ProbeRow.n, ProbeRow.loss, ProbeRow.accuracy, ProbeRow.deviation, ProbeRow.flips)


def _select_probes(study_id: int, arm: str | None, kinds: Collection[ProbeKind] | None) -> Select[Any]:
    columns = (ProbeRow.id, TrialRow.arm, TrialRow.parameters, TrialRow.seed, ProbeRow.kind, ProbeRow.epoch)
    query = select(*columns, *_KEY, *_VALUES).join(CheckpointRow, CheckpointRow.trial_id == TrialRow.id)
    query = query.join(ProbeRow, ProbeRow.checkpoint_id == CheckpointRow.id).order_by(ProbeRow.id)
    query = query.where(TrialRow.study_id == study_id, *iter_equality_conditions(TrialRow, {"arm": arm}))
    return query if kinds is None else query.where(ProbeRow.kind.in_(list(kinds)))


def _make_trial_probe(row: Row[Any]) -> TrialProbe:
    _, arm, parameters, seed, kind, epoch, *values = tuple(row)
    key = EvaluationKey.from_database_values(*values[: len(_KEY)])
    return TrialProbe(
        arm, encode_point_as_json(parameters), seed, ProbeResult(ProbeKind(kind), epoch, key, *values[len(_KEY) :])
    )
