"""The study of a share link, which is a token that reads one study."""

import sqlalchemy as sa
from alembic import op

revision = "0009"
down_revision = "0008"
branch_labels = None
depends_on = None

_NUMBERED = {"sqlite_autoincrement": True}


def upgrade() -> None:
    with op.batch_alter_table("token", schema=None, table_kwargs=_NUMBERED) as batch_op:
        batch_op.add_column(sa.Column("study_id", sa.Integer(), nullable=True))
        batch_op.create_foreign_key(
            batch_op.f("fk_token_study_id_study"), "study", ["study_id"], ["id"], ondelete="CASCADE"
        )
        batch_op.create_index(batch_op.f("ix_token_study_id"), ["study_id"], unique=False)


def downgrade() -> None:
    op.execute("DELETE FROM token WHERE kind = 'share'")  # an earlier version would accept them for every study
    with op.batch_alter_table("token", schema=None, table_kwargs=_NUMBERED) as batch_op:
        batch_op.drop_index(batch_op.f("ix_token_study_id"))
        batch_op.drop_constraint(batch_op.f("fk_token_study_id_study"), type_="foreignkey")
        batch_op.drop_column("study_id")
