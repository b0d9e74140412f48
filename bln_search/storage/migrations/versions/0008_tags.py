"""Tags of studies."""

import sqlalchemy as sa
from alembic import op

revision = "0008"
down_revision = "0007"


def upgrade() -> None:
    op.create_table(
        "study_tag",
        sa.Column("study_id", sa.Integer(), nullable=False),
        sa.Column("tag", sa.String(length=32), nullable=False),
        sa.ForeignKeyConstraint(
            ["study_id"], ["study.id"], name=op.f("fk_study_tag_study_id_study"), ondelete="CASCADE"
        ),
        sa.PrimaryKeyConstraint("study_id", "tag", name=op.f("pk_study_tag")),
    )
    op.create_index(op.f("ix_study_tag_tag"), "study_tag", ["tag"])
