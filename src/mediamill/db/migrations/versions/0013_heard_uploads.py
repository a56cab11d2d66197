"""Uploads: a finished one is found by its fingerprint, too, until its sender has heard that it is finished."""

from __future__ import annotations

from alembic import op

revision = "0013"
down_revision = "0012"
branch_labels = None
depends_on = None

# First the index, which locks the table: nobody finishes an upload in between. What finished before counts as heard.
UP = (
    "drop index uploads_fingerprint",
    "update uploads set fingerprint = null where finished_at is not null",
    """
    create unique index uploads_fingerprint on uploads (purpose, fingerprint, bytes)
        where fingerprint is not null
    """,
)
DOWN = (
    "drop index uploads_fingerprint",
    """
    create unique index uploads_fingerprint on uploads (purpose, fingerprint, bytes)
        where finished_at is null and fingerprint is not null
    """,
)


def upgrade() -> None:
    for statement in UP:
        op.execute(statement)


def downgrade() -> None:
    for statement in DOWN:
        op.execute(statement)
