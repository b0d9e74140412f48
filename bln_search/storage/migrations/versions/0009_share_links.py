"""The study of a share link, which is a token that reads one study."""

import sqlalchemy as sa
from alembic import op

revision = "0009"
down_revision = "0008"

_NUMBERED = {"sqlite_autoincrement": True}


def upgrade() -> None:
    with op.batch_alter_table("token", table_kwargs=_NUMBERED) as batch_op:
        batch_op.add_column(sa.Column("study_id", sa.Integer(), nullable=True))
        batch_op.create_foreign_key(
            batch_op.f("fk_token_study_id_study"), "study", ["study_id"], ["id"], ondelete="CASCADE"
        )
        batch_op.create_index(batch_op.f("ix_token_study_id"), ["study_id"], unique=False)
