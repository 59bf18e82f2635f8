"""The first schema: results with their runs, samples, fingerprints and skips, and reproductions."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0001"
down_revision = None
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "results",
        sa.Column("id", sa.Integer, primary_key=True),
        sa.Column("created", sa.String(40), nullable=False),
        sa.Column("experiment", sa.String(200), nullable=False),
        sa.Column("target", sa.String(40), nullable=False),
        sa.Column("label", sa.String(200), nullable=False),
        sa.Column("profile", sa.String(200), nullable=False),
        sa.Column("seed", sa.BigInteger, nullable=False),
        sa.Column("clock", sa.String(40), nullable=False),
        sa.Column("partial", sa.Boolean, nullable=False),
        sa.Column("tool_version", sa.String(40), nullable=False),
        sa.Column("definition", sa.Text, nullable=False),
    )
    op.create_index("ix_results_experiment", "results", ["experiment"])
    op.create_index("ix_results_label", "results", ["label"])
    op.create_table(
        "fingerprints",
        sa.Column("id", sa.String(16), primary_key=True),
        sa.Column("body", sa.Text, nullable=False),
    )
    op.create_table(
        "runs",
        sa.Column("id", sa.Integer, primary_key=True),
        sa.Column("result_id", sa.Integer, sa.ForeignKey("results.id", ondelete="CASCADE"), nullable=False),
        sa.Column("variant", sa.String(200), nullable=False),
        sa.Column("case_id", sa.String(200), nullable=False),
        sa.Column("run", sa.Integer, nullable=False),
        sa.Column("position", sa.Integer, nullable=False),
        sa.Column("seed", sa.BigInteger, nullable=False),
        sa.Column("started", sa.String(40), nullable=False),
        sa.Column("fingerprint_id", sa.String(16), sa.ForeignKey("fingerprints.id"), nullable=False),
        sa.Column("counters", sa.Text, nullable=False),
        sa.Column("notes", sa.Text, nullable=False),
        sa.Column("conditions", sa.Text, nullable=False),
        sa.Column("dmesg", sa.Text, nullable=False),
    )
    op.create_index("ix_runs_result_id", "runs", ["result_id"])
    op.create_table(
        "series",
        sa.Column("id", sa.Integer, primary_key=True),
        sa.Column("run_id", sa.Integer, sa.ForeignKey("runs.id", ondelete="CASCADE"), nullable=False),
        sa.Column("metric", sa.String(200), nullable=False),
        sa.Column("unit", sa.String(40), nullable=False),
        sa.Column("direction", sa.String(10), nullable=False),
        sa.Column("count", sa.Integer, nullable=False),
        sa.Column("crc", sa.BigInteger, nullable=False),
        sa.Column("samples", sa.LargeBinary, nullable=False),
    )
    op.create_index("ix_series_run_id", "series", ["run_id"])
    op.create_table(
        "skips",
        sa.Column("id", sa.Integer, primary_key=True),
        sa.Column("result_id", sa.Integer, sa.ForeignKey("results.id", ondelete="CASCADE"), nullable=False),
        sa.Column("variant", sa.String(200), nullable=False),
        sa.Column("case_id", sa.String(200), nullable=False),
        sa.Column("reason", sa.Text, nullable=False),
        sa.Column("remedy", sa.Text, nullable=False),
    )
    op.create_index("ix_skips_result_id", "skips", ["result_id"])
    op.create_table(
        "reproductions",
        sa.Column("id", sa.Integer, primary_key=True),
        sa.Column("created", sa.String(40), nullable=False),
        sa.Column("tool_version", sa.String(40), nullable=False),
        sa.Column("rows", sa.Text, nullable=False),
        sa.Column("remarks", sa.Text, nullable=False),
    )
    op.create_table(
        "reproduction_results",
        sa.Column(
            "reproduction_id",
            sa.Integer,
            sa.ForeignKey("reproductions.id", ondelete="CASCADE"),
            primary_key=True,
        ),
        sa.Column("position", sa.Integer, primary_key=True),
        sa.Column("result_id", sa.Integer, sa.ForeignKey("results.id", ondelete="CASCADE"), nullable=False),
    )


def downgrade() -> None:
    for table in (
        "reproduction_results",
        "reproductions",
        "skips",
        "series",
        "runs",
        "fingerprints",
        "results",
    ):
        op.drop_table(table)
