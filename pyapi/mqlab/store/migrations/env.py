"""Runs the migrations on the connection that mqlab.store.database hands over, inside its transaction."""

from __future__ import annotations

from alembic import context

from mqlab.store.schema import metadata

context.configure(
    connection=context.config.attributes["connection"],
    target_metadata=metadata,
    transactional_ddl=True,
)
context.run_migrations()
