"""Probes of tasks without accuracy."""

import sqlalchemy as sa
from alembic import op

revision = "0012"
down_revision = "0011"
branch_labels = None
depends_on = None


def upgrade() -> None:
    with op.batch_alter_table("probe", schema=None) as batch_op:
        batch_op.alter_column("accuracy", existing_type=sa.Double(), nullable=True)


def downgrade() -> None:
    op.execute("DELETE FROM probe WHERE accuracy IS NULL")
    with op.batch_alter_table("probe", schema=None) as batch_op:
        batch_op.alter_column("accuracy", existing_type=sa.Double(), nullable=False)
