"""Probes of tasks without accuracy."""

import sqlalchemy as sa
from alembic import op

revision = "0012"
down_revision = "0011"


def upgrade() -> None:
    with op.batch_alter_table("probe") as batch_op:
        batch_op.alter_column("accuracy", existing_type=sa.Double(), nullable=True)
