"""The webhook, and its messages about ends of studies."""

import sqlalchemy as sa
from alembic import op

revision = "0016"
down_revision = "0015"


def upgrade() -> None:
    op.create_table(
        "webhook",
        sa.Column("number", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("since", sa.DateTime(timezone=True), nullable=False),
        sa.PrimaryKeyConstraint("number", name=op.f("pk_webhook")),
    )
    op.create_table(
        "delivery",
        sa.Column("study_id", sa.Integer(), nullable=False),
        sa.Column("revision", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("message_id", sa.String(length=64), nullable=False),
        sa.Column("study_state", sa.String(length=16), nullable=False),
        sa.Column("reason", sa.Text(), nullable=True),
        sa.Column("ended_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("state", sa.String(length=16), nullable=False),
        sa.Column("body", sa.Text(), nullable=True),
        sa.Column("attempts", sa.Integer(), nullable=False),
        sa.Column("next_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("attempted_at", sa.DateTime(timezone=True), nullable=True),
        sa.Column("answer", sa.Text(), nullable=True),
        sa.ForeignKeyConstraint(
            ["study_id"], ["study.id"], name=op.f("fk_delivery_study_id_study"), ondelete="CASCADE"
        ),
        sa.PrimaryKeyConstraint("study_id", "revision", name=op.f("pk_delivery")),
    )
    op.create_index(op.f("ix_delivery_state"), "delivery", ["state"])
