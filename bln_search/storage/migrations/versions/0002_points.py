"""A trial keeps its point of the study's space; a study says which process runs it."""

import sqlalchemy as sa
from alembic import op

revision = "0002"
down_revision = "0001"
branch_labels = None
depends_on = None


def upgrade() -> None:
    with op.batch_alter_table("study", schema=None) as batch_op:
        batch_op.add_column(sa.Column("runner", sa.String(length=200), nullable=True))
        batch_op.add_column(sa.Column("runner_until", sa.DateTime(timezone=True), nullable=True))
    with op.batch_alter_table("trial", schema=None) as batch_op:
        batch_op.add_column(sa.Column("parameters", sa.JSON(), nullable=True))


def downgrade() -> None:
    with op.batch_alter_table("trial", schema=None) as batch_op:
        batch_op.drop_column("parameters")
    with op.batch_alter_table("study", schema=None) as batch_op:
        batch_op.drop_column("runner_until")
        batch_op.drop_column("runner")
