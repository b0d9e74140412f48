"""Owners, tokens, workers and a queue: what a service needs."""

import json

import sqlalchemy as sa
from alembic import op

revision = "0003"
down_revision = "0002"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.execute("UPDATE study SET owner = '' WHERE owner IS NULL")
    numbered = {"sqlite_autoincrement": True}
    with op.batch_alter_table("study", schema=None, table_kwargs=numbered) as batch_op:
        batch_op.alter_column("owner", existing_type=sa.String(length=64), nullable=False)
        batch_op.add_column(sa.Column("title", sa.String(length=300), nullable=False, server_default=""))
        batch_op.add_column(sa.Column("notes", sa.Text(), nullable=False, server_default=""))
        batch_op.add_column(sa.Column("planned", sa.Integer(), nullable=False, server_default="0"))
        batch_op.add_column(sa.Column("results", sa.Integer(), nullable=False, server_default="0"))
        batch_op.add_column(sa.Column("losses", sa.Integer(), nullable=False, server_default="0"))
        batch_op.add_column(sa.Column("last_event", sa.Integer(), nullable=False, server_default="0"))
        batch_op.add_column(sa.Column("request", sa.String(length=8), nullable=True))
        batch_op.add_column(sa.Column("reason", sa.Text(), nullable=True))
        batch_op.drop_constraint("uq_study_name_digest", type_="unique")
        batch_op.create_unique_constraint("uq_study_owner_name_digest", ["owner", "name", "digest"])
    if op.get_bind().dialect.name == "sqlite":
        with op.batch_alter_table("attempt", schema=None, recreate="always", table_kwargs=numbered):
            pass
    _describe()
    op.create_table(
        "account",
        sa.Column("name", sa.String(length=64), nullable=False),
        sa.Column("created_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("claimed_at", sa.DateTime(timezone=True), nullable=True),
        sa.PrimaryKeyConstraint("name", name=op.f("pk_account")),
    )
    op.create_table(
        "token",
        sa.Column("id", sa.Integer(), nullable=False),
        sa.Column("account", sa.String(length=64), nullable=False),
        sa.Column("kind", sa.String(length=8), nullable=False),
        sa.Column("label", sa.String(length=64), nullable=False),
        sa.Column("sha256", sa.String(length=64), nullable=False),
        sa.Column("scope", sa.String(length=8), nullable=False),
        sa.Column("parent_id", sa.Integer(), nullable=True),
        sa.Column("created_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("expires_at", sa.DateTime(timezone=True), nullable=True),
        sa.Column("revoked_at", sa.DateTime(timezone=True), nullable=True),
        sa.ForeignKeyConstraint(
            ["account"], ["account.name"], name=op.f("fk_token_account_account"), ondelete="CASCADE"
        ),
        sa.ForeignKeyConstraint(["parent_id"], ["token.id"], name=op.f("fk_token_parent_id_token"), ondelete="CASCADE"),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_token")),
        sa.UniqueConstraint("sha256", name=op.f("uq_token_sha256")),
        sqlite_autoincrement=True,
    )
    with op.batch_alter_table("token", schema=None) as batch_op:
        batch_op.create_index(batch_op.f("ix_token_account"), ["account"], unique=False)
    op.create_table(
        "submission",
        sa.Column("account", sa.String(length=64), nullable=False),
        sa.Column("key", sa.String(length=200), nullable=False),
        sa.Column("digest", sa.String(length=64), nullable=False),
        sa.Column("study_id", sa.Integer(), nullable=False),
        sa.ForeignKeyConstraint(
            ["study_id"], ["study.id"], name=op.f("fk_submission_study_id_study"), ondelete="CASCADE"
        ),
        sa.PrimaryKeyConstraint("account", "key", name=op.f("pk_submission")),
    )
    with op.batch_alter_table("submission", schema=None) as batch_op:
        batch_op.create_index(batch_op.f("ix_submission_study_id"), ["study_id"], unique=False)
    op.create_table(
        "worker",
        sa.Column("name", sa.String(length=200), nullable=False),
        sa.Column("started_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("heartbeat_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("device", sa.String(length=64), nullable=False),
        sa.Column("version", sa.String(length=32), nullable=False),
        sa.PrimaryKeyConstraint("name", name=op.f("pk_worker")),
    )


def _describe() -> None:
    """Titles and counts of the studies that are there already."""
    study = sa.table(
        "study",
        *(sa.column(name) for name in ("id", "spec", "state", "title", "planned", "results", "last_event")),
    )
    trial = sa.table("trial", sa.column("study_id"), sa.column("state"))
    event = sa.table("event", sa.column("study_id"), sa.column("number"))
    connection = op.get_bind()
    for study_id, spec, state in connection.execute(sa.select(study.c.id, study.c.spec, study.c.state)).all():
        told = json.loads(spec)
        own = sa.select(sa.func.count()).select_from(trial).where(trial.c.study_id == study_id)
        ended = own.where(trial.c.state.in_(("finished", "diverged", "pruned")))
        search = told.get("search") or {}
        sampled = search.get("sampler", "grid") != "grid" and state != "complete"
        asked = search.get("trials", 0) * len(told["arms"]) * len(told["seeds"]) if sampled else 0
        values = {
            "title": told.get("title", ""),
            "planned": max(connection.scalar(own) or 0, asked),
            "results": connection.scalar(ended) or 0,
            "last_event": connection.scalar(sa.select(sa.func.max(event.c.number)).where(event.c.study_id == study_id))
            or 0,
        }
        connection.execute(sa.update(study).where(study.c.id == study_id).values(**values))


def downgrade() -> None:
    for name in ("worker", "submission", "token", "account"):
        op.drop_table(name)
    with op.batch_alter_table("study", schema=None) as batch_op:
        batch_op.drop_constraint("uq_study_owner_name_digest", type_="unique")
        batch_op.create_unique_constraint("uq_study_name_digest", ["name", "digest"])
        for name in ("reason", "request", "last_event", "losses", "results", "planned", "notes", "title"):
            batch_op.drop_column(name)
        batch_op.alter_column("owner", existing_type=sa.String(length=64), nullable=True)
