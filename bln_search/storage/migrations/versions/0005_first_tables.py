"""Studies with their results, accounts, the queue, analyses and per-layer searches: the tables of the first releases.

Earlier revisions are no longer upgraded. Names of constraints follow the naming convention of the tables.
"""

from typing import Any

import sqlalchemy as sa
from alembic import op

revision = "0005"
down_revision = None

_TIME = sa.DateTime(timezone=True)
_NUMBERED = {"sqlite_autoincrement": True}


def upgrade() -> None:
    op.create_table(
        "study",
        _id(),
        _required("name", sa.String(64)),
        _required("digest", sa.String(64)),
        _required("spec", sa.Text),
        _required("state", sa.String(16), index=True),
        _required("revision", sa.Integer),
        _required("owner", sa.String(64)),
        _required("priority", sa.Integer),
        _required("created_at", _TIME),
        sa.Column("started_at", _TIME),
        sa.Column("ended_at", _TIME),
        sa.Column("runner", sa.String(200)),
        sa.Column("runner_until", _TIME),
        _required("title", sa.String(300), server_default=""),
        _required("notes", sa.Text, server_default=""),
        *(_required(name, sa.Integer, server_default="0") for name in ("planned", "results", "losses", "last_event")),
        sa.Column("request", sa.String(8)),
        sa.Column("reason", sa.Text),
        sa.UniqueConstraint("owner", "name", "digest"),
        **_NUMBERED,
    )
    op.create_table(
        "trial",
        _id(),
        _parent("study"),
        _required("key", sa.String(32)),
        _required("position", sa.Integer),
        _required("arm", sa.String(32)),
        _required("method", sa.String(8)),
        _required("seed", sa.BigInteger),
        _required("spec", sa.Text),
        _required("state", sa.String(16)),
        sa.Column("reason", sa.Text),
        sa.Column("parameters", sa.JSON),
        sa.UniqueConstraint("study_id", "key"),
    )
    op.create_table(
        "attempt",
        _id(),
        _parent("trial"),
        _required("number", sa.Integer),
        _required("worker", sa.String(200)),
        _required("state", sa.String(16), index=True),
        *(_required(name, _TIME) for name in ("heartbeat_at", "lease_until", "started_at")),
        sa.Column("ended_at", _TIME),
        sa.Column("failure", sa.String(16)),
        sa.Column("reason", sa.Text),
        sa.UniqueConstraint("trial_id", "number"),
        **_NUMBERED,
    )
    op.create_table(
        "event",
        _id(),
        _parent("study"),
        _required("number", sa.Integer),
        _required("at", _TIME),
        _required("kind", sa.String(32)),
        sa.Column("trial_id", sa.Integer, sa.ForeignKey("trial.id", ondelete="CASCADE"), index=True),
        _required("data", sa.JSON),
        sa.UniqueConstraint("study_id", "number"),
    )
    _create_tables_of_networks()
    _create_tables_of_the_service()


def _create_tables_of_networks() -> None:
    key = (("configuration", 4), ("estimate", 8), ("batch_size", None), ("split", 10))
    op.create_table(
        "checkpoint",
        _id(),
        _parent("trial", unique=True),
        _required("file", sa.String(200)),
        _required("sha256", sa.String(64)),
        _required("epoch", sa.Integer),
        _required("judged_under", sa.String(4)),
        _required("validation_loss", sa.Double),
        _required("provenance", sa.JSON),
        _required("created_at", _TIME),
    )
    op.create_table(
        "snapshot",
        _id(),
        _parent("checkpoint"),
        _required("epoch", sa.Integer),
        _required("file", sa.String(200)),
        _required("sha256", sa.String(64)),
        sa.UniqueConstraint("checkpoint_id", "epoch"),
    )
    op.create_table(
        "evaluation",
        _id(),
        _parent("checkpoint"),
        *(_required(name, sa.String(length) if length else sa.Integer) for name, length in key),
        _required("state", sa.String(10)),
        sa.Column("reason", sa.Text),
        _required("n", sa.Integer),
        sa.Column("loss", sa.Double),
        sa.Column("accuracy", sa.Double),
        sa.UniqueConstraint("checkpoint_id", *(name for name, _ in key)),
    )
    op.create_table(
        "outcomes",
        _parent("evaluation", primary_key=True),
        _required("losses", sa.LargeBinary),
        _required("correct", sa.LargeBinary),
    )
    op.create_table(
        "probe",
        _id(),
        _parent("checkpoint"),
        _required("kind", sa.String(12)),
        _required("epoch", sa.Integer),
        *(_required(name, sa.String(length) if length else sa.Integer) for name, length in key),
        _required("n", sa.Integer),
        _required("loss", sa.Double),
        _required("accuracy", sa.Double),
        sa.Column("deviation", sa.Double),
        sa.Column("flips", sa.Double),
        sa.UniqueConstraint("checkpoint_id", "kind", "epoch", *(name for name, _ in key)),
    )
    op.create_table(
        "layer_search",
        _parent("checkpoint", primary_key=True),
        _required("asked", sa.String(64)),
        _required("spec", sa.Text),
        _required("done", sa.Integer),
        sa.Column("body", sa.Text),
        sa.Column("sums", sa.LargeBinary),
        sa.Column("outcomes", sa.LargeBinary),
        _required("made_at", _TIME),
    )
    op.create_table(
        "analysis",
        _parent("study", primary_key=True),
        _required("results", sa.Integer),
        _required("format", sa.Integer),
        _required("made_at", _TIME),
        _required("body", sa.Text),
    )


def _create_tables_of_the_service() -> None:
    op.create_table(
        "account",
        sa.Column("name", sa.String(64), primary_key=True),
        _required("created_at", _TIME),
        sa.Column("claimed_at", _TIME),
    )
    op.create_table(
        "token",
        _id(),
        _required("account", sa.String(64), sa.ForeignKey("account.name", ondelete="CASCADE"), index=True),
        _required("kind", sa.String(8)),
        _required("label", sa.String(64)),
        _required("sha256", sa.String(64), unique=True),
        _required("scope", sa.String(8)),
        sa.Column("parent_id", sa.Integer, sa.ForeignKey("token.id", ondelete="CASCADE")),
        _required("created_at", _TIME),
        sa.Column("expires_at", _TIME),
        sa.Column("revoked_at", _TIME),
        **_NUMBERED,
    )
    op.create_table(
        "submission",
        sa.Column("account", sa.String(64), primary_key=True),
        sa.Column("key", sa.String(200), primary_key=True),
        _required("digest", sa.String(64)),
        _parent("study", index=True),
    )
    op.create_table(
        "worker",
        sa.Column("name", sa.String(200), primary_key=True),
        _required("started_at", _TIME),
        _required("heartbeat_at", _TIME),
        _required("device", sa.String(64)),
        _required("version", sa.String(32)),
    )


def _id() -> sa.Column[Any]:
    return sa.Column("id", sa.Integer, primary_key=True)


def _required(name: str, *kind: Any, **options: Any) -> sa.Column[Any]:
    return sa.Column(name, *kind, nullable=False, **options)


def _parent(table: str, **options: Any) -> sa.Column[Any]:
    """The id of the row that this one is deleted with."""
    return _required(f"{table}_id", sa.Integer, sa.ForeignKey(f"{table}.id", ondelete="CASCADE"), **options)
