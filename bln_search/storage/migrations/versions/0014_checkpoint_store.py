"""The checkpoint store of a database."""

import sqlalchemy as sa
from alembic import op

revision = "0014"
down_revision = "0013"


def upgrade() -> None:
    op.create_table(
        "checkpoint_store",
        sa.Column("number", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("marker", sa.String(length=64), nullable=False),
        sa.Column("location", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint("number", name=op.f("pk_checkpoint_store")),
    )
