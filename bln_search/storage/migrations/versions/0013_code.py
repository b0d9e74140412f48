"""The code of the results of a study."""

import sqlalchemy as sa
from alembic import op

revision = "0013"
down_revision = "0012"
branch_labels = None
depends_on = None


def upgrade() -> None:
    with op.batch_alter_table("study", schema=None) as batch_op:
        batch_op.add_column(sa.Column("code", sa.Text(), nullable=True))


def downgrade() -> None:
    with op.batch_alter_table("study", schema=None) as batch_op:
        batch_op.drop_column("code")
