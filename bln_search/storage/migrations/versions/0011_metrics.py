"""Metrics of the task of an evaluation."""

import sqlalchemy as sa
from alembic import op

revision = "0011"
down_revision = "0010"


def upgrade() -> None:
    op.add_column("evaluation", sa.Column("metrics", sa.Text(), nullable=True))
