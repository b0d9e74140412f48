"""Per-layer configurations of checkpoints: how far a search is, what it found."""

import sqlalchemy as sa
from alembic import op

revision = "0005"
down_revision = "0004"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "layer_search",
        sa.Column("checkpoint_id", sa.Integer(), nullable=False),
        sa.Column("asked", sa.String(length=64), nullable=False),
        sa.Column("spec", sa.Text(), nullable=False),
        sa.Column("done", sa.Integer(), nullable=False),
        sa.Column("body", sa.Text(), nullable=True),
        sa.Column("sums", sa.LargeBinary(), nullable=True),
        sa.Column("outcomes", sa.LargeBinary(), nullable=True),
        sa.Column("made_at", sa.DateTime(timezone=True), nullable=False),
        sa.ForeignKeyConstraint(
            ["checkpoint_id"],
            ["checkpoint.id"],
            name=op.f("fk_layer_search_checkpoint_id_checkpoint"),
            ondelete="CASCADE",
        ),
        sa.PrimaryKeyConstraint("checkpoint_id", name=op.f("pk_layer_search")),
    )


def downgrade() -> None:
    op.drop_table("layer_search")
