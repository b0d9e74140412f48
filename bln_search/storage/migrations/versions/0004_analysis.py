"""What comparisons found, what networks did in other company, and networks of epochs on the way."""

import sqlalchemy as sa
from alembic import op

revision = "0004"
down_revision = "0003"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "analysis",
        sa.Column("study_id", sa.Integer(), nullable=False),
        sa.Column("results", sa.Integer(), nullable=False),
        sa.Column("format", sa.Integer(), nullable=False),
        sa.Column("made_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("body", sa.Text(), nullable=False),
        sa.ForeignKeyConstraint(
            ["study_id"], ["study.id"], name=op.f("fk_analysis_study_id_study"), ondelete="CASCADE"
        ),
        sa.PrimaryKeyConstraint("study_id", name=op.f("pk_analysis")),
    )
    op.create_table(
        "snapshot",
        sa.Column("id", sa.Integer(), nullable=False),
        sa.Column("checkpoint_id", sa.Integer(), nullable=False),
        sa.Column("epoch", sa.Integer(), nullable=False),
        sa.Column("file", sa.String(length=200), nullable=False),
        sa.Column("sha256", sa.String(length=64), nullable=False),
        sa.ForeignKeyConstraint(
            ["checkpoint_id"], ["checkpoint.id"], name=op.f("fk_snapshot_checkpoint_id_checkpoint"), ondelete="CASCADE"
        ),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_snapshot")),
        sa.UniqueConstraint("checkpoint_id", "epoch", name=op.f("uq_snapshot_checkpoint_id_epoch")),
    )
    op.create_table(
        "probe",
        sa.Column("id", sa.Integer(), nullable=False),
        sa.Column("checkpoint_id", sa.Integer(), nullable=False),
        sa.Column("kind", sa.String(length=12), nullable=False),
        sa.Column("epoch", sa.Integer(), nullable=False),
        sa.Column("configuration", sa.String(length=4), nullable=False),
        sa.Column("estimate", sa.String(length=8), nullable=False),
        sa.Column("batch_size", sa.Integer(), nullable=False),
        sa.Column("split", sa.String(length=10), nullable=False),
        sa.Column("n", sa.Integer(), nullable=False),
        sa.Column("loss", sa.Double(), nullable=False),
        sa.Column("accuracy", sa.Double(), nullable=False),
        sa.Column("deviation", sa.Double(), nullable=True),
        sa.Column("flips", sa.Double(), nullable=True),
        sa.ForeignKeyConstraint(
            ["checkpoint_id"], ["checkpoint.id"], name=op.f("fk_probe_checkpoint_id_checkpoint"), ondelete="CASCADE"
        ),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_probe")),
        sa.UniqueConstraint(
            "checkpoint_id",
            "kind",
            "epoch",
            "configuration",
            "estimate",
            "batch_size",
            "split",
            name=op.f("uq_probe_checkpoint_id_kind_epoch_configuration_estimate_batch_size_split"),
        ),
    )


def downgrade() -> None:
    op.drop_table("probe")
    op.drop_table("snapshot")
    op.drop_table("analysis")
