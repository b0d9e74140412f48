"""The condition of an evaluation, and room for the names of blended population estimates."""

import sqlalchemy as sa
from alembic import op

revision = "0006"
down_revision = "0005"

_KEYS = {
    "evaluation": ["checkpoint_id", "configuration", "estimate", "batch_size", "split"],
    "probe": ["checkpoint_id", "kind", "epoch", "configuration", "estimate", "batch_size", "split"],
}
"""Columns of the UNIQUE key of each table without the condition."""


def upgrade() -> None:
    for table, key in _KEYS.items():
        with op.batch_alter_table(table) as batch_op:
            batch_op.alter_column(
                "estimate", existing_type=sa.String(length=8), type_=sa.String(length=64), existing_nullable=False
            )
            batch_op.add_column(sa.Column("condition", sa.String(length=64), nullable=False, server_default=""))
            batch_op.drop_constraint(_constraint(table, key), type_="unique")
            batch_op.create_unique_constraint(_constraint(table, [*key, "condition"]), [*key, "condition"])


def _constraint(table: str, columns: list[str]) -> str:
    """The name by the naming convention of the tables."""
    return op.f(f"uq_{table}_{'_'.join(columns)}")
