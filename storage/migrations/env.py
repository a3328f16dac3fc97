"""What Alembic runs for each command: our migrations, on the connection and in the transaction that it was given."""

from __future__ import annotations

from alembic import context

from storage.tables import metadata

context.configure(connection=context.config.attributes["connection"], target_metadata=metadata)
with context.begin_transaction():
    context.run_migrations()
