"""The code of the results of a study."""

import sqlalchemy as sa
from alembic import op

revision = "0013"
down_revision = "0012"


def upgrade() -> None:
    with op.batch_alter_table("study") as batch_op:
        batch_op.add_column(sa.Column("code", sa.Text(), nullable=True))
