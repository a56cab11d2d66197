"""Alembic's entry: always on a connection that migrate.py hands over, inside its transaction."""

from alembic import context

context.configure(connection=context.config.attributes["connection"], transaction_per_migration=False)
context.run_migrations()
