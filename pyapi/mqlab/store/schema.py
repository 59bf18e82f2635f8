"""The store's tables. A change here needs a migration in migrations/versions and a new SCHEMA."""

from __future__ import annotations

from typing import Final

import sqlalchemy as sa

__all__ = [
    "KNOWN_SCHEMAS",
    "SCHEMA",
    "fingerprints",
    "metadata",
    "reproduction_results",
    "reproductions",
    "results",
]

# The newest migration, and all that lead to it: another one was written by a newer mqlab.
SCHEMA: Final = "0001"
KNOWN_SCHEMAS: Final = frozenset({"0001"})

metadata = sa.MetaData()

# Times are UTC in ISO 8601, JSON is text without NaN: both read back alike from every database.
results = sa.Table(
    "results",
    metadata,
    sa.Column("id", sa.Integer, primary_key=True),
    sa.Column("created", sa.String(40), nullable=False),
    sa.Column("experiment", sa.String(200), nullable=False, index=True),
    sa.Column("target", sa.String(40), nullable=False),
    sa.Column("label", sa.String(200), nullable=False, index=True),
    sa.Column("profile", sa.String(200), nullable=False),
    sa.Column("seed", sa.BigInteger, nullable=False),
    sa.Column("clock", sa.String(40), nullable=False),
    sa.Column("partial", sa.Boolean, nullable=False),
    sa.Column("tool_version", sa.String(40), nullable=False),
    sa.Column("definition", sa.Text, nullable=False),
)

fingerprints = sa.Table(
    "fingerprints",
    metadata,
    sa.Column("id", sa.String(16), primary_key=True),
    sa.Column("body", sa.Text, nullable=False),
)

runs = sa.Table(
    "runs",
    metadata,
    sa.Column("id", sa.Integer, primary_key=True),
    sa.Column("result_id", sa.ForeignKey("results.id", ondelete="CASCADE"), nullable=False, index=True),
    sa.Column("variant", sa.String(200), nullable=False),
    sa.Column("case_id", sa.String(200), nullable=False),
    sa.Column("run", sa.Integer, nullable=False),
    sa.Column("position", sa.Integer, nullable=False),
    sa.Column("seed", sa.BigInteger, nullable=False),
    sa.Column("started", sa.String(40), nullable=False),
    sa.Column("fingerprint_id", sa.ForeignKey("fingerprints.id"), nullable=False),
    sa.Column("counters", sa.Text, nullable=False),
    sa.Column("notes", sa.Text, nullable=False),
    sa.Column("conditions", sa.Text, nullable=False),
    sa.Column("dmesg", sa.Text, nullable=False),
)

# The samples of one metric of one run: `count` little-endian doubles, and their CRC-32.
series = sa.Table(
    "series",
    metadata,
    sa.Column("id", sa.Integer, primary_key=True),
    sa.Column("run_id", sa.ForeignKey("runs.id", ondelete="CASCADE"), nullable=False, index=True),
    sa.Column("metric", sa.String(200), nullable=False),
    sa.Column("unit", sa.String(40), nullable=False),
    sa.Column("direction", sa.String(10), nullable=False),
    sa.Column("count", sa.Integer, nullable=False),
    sa.Column("crc", sa.BigInteger, nullable=False),
    sa.Column("samples", sa.LargeBinary, nullable=False),
)

skips = sa.Table(
    "skips",
    metadata,
    sa.Column("id", sa.Integer, primary_key=True),
    sa.Column("result_id", sa.ForeignKey("results.id", ondelete="CASCADE"), nullable=False, index=True),
    sa.Column("variant", sa.String(200), nullable=False),
    sa.Column("case_id", sa.String(200), nullable=False),
    sa.Column("reason", sa.Text, nullable=False),
    sa.Column("remedy", sa.Text, nullable=False),
)

reproductions = sa.Table(
    "reproductions",
    metadata,
    sa.Column("id", sa.Integer, primary_key=True),
    sa.Column("created", sa.String(40), nullable=False),
    sa.Column("tool_version", sa.String(40), nullable=False),
    sa.Column("rows", sa.Text, nullable=False),
    sa.Column("remarks", sa.Text, nullable=False),
)

reproduction_results = sa.Table(
    "reproduction_results",
    metadata,
    sa.Column("reproduction_id", sa.ForeignKey("reproductions.id", ondelete="CASCADE"), primary_key=True),
    sa.Column("position", sa.Integer, primary_key=True),
    sa.Column("result_id", sa.ForeignKey("results.id", ondelete="CASCADE"), nullable=False),
)
