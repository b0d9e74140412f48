"""Arms of adaptation on streams."""

import sqlalchemy as sa
from alembic import op

revision = "0015"
down_revision = "0014"


def upgrade() -> None:
    op.create_table(
        "stream",
        sa.Column("checkpoint_id", sa.Integer(), nullable=False),
        sa.Column("number", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("classes", sa.Integer(), nullable=False),
        sa.Column("layout", sa.LargeBinary(), nullable=False),
        sa.ForeignKeyConstraint(
            ["checkpoint_id"], ["checkpoint.id"], name=op.f("fk_stream_checkpoint_id_checkpoint"), ondelete="CASCADE"
        ),
        sa.PrimaryKeyConstraint("checkpoint_id", "number", name=op.f("pk_stream")),
    )
    op.create_table(
        "stream_outcomes",
        sa.Column("checkpoint_id", sa.Integer(), nullable=False),
        sa.Column("number", sa.Integer(), nullable=False),
        sa.Column("arm", sa.String(length=200), nullable=False),
        sa.Column("position", sa.Integer(), nullable=False),
        sa.Column("n", sa.Integer(), nullable=False),
        sa.Column("error", sa.Double(), nullable=False),
        sa.Column("loss", sa.Double(), nullable=True),
        sa.Column("reason", sa.Text(), nullable=False),
        sa.Column("batches", sa.Integer(), nullable=False),
        sa.Column("seconds", sa.Double(), nullable=False),
        sa.Column("selected_on", sa.String(length=10), nullable=False),
        sa.Column("options", sa.JSON(), nullable=False),
        sa.Column("outcomes", sa.LargeBinary(), nullable=False),
        sa.ForeignKeyConstraint(
            ["checkpoint_id", "number"],
            ["stream.checkpoint_id", "stream.number"],
            name=op.f("fk_stream_outcomes_checkpoint_id_stream"),
            ondelete="CASCADE",
        ),
        sa.PrimaryKeyConstraint("checkpoint_id", "number", "arm", name=op.f("pk_stream_outcomes")),
    )
