"""Files in a bucket: which objects a file is made of, and objects that nothing names any more."""

from __future__ import annotations

from alembic import op

revision = "0012"
down_revision = "0011"
branch_labels = None
depends_on = None

# `name` is compared byte by byte, so that the files of a folder lie together in the index.
UP = (
    """
    create table stored_pieces (
        name text collate "C" not null,
        first bigint not null check (first >= 0),
        bytes bigint not null check (bytes >= 0),
        key text collate "C" not null,
        sha256 bytea not null check (length(sha256) = 32),
        noted_at timestamptz not null default now(),
        primary key (name, first)
    )
    """,
    "create index stored_pieces_key on stored_pieces (key)",
    """
    create table stored_garbage (
        key text collate "C" primary key,
        at timestamptz not null default now()
    )
    """,
    "create index stored_garbage_at on stored_garbage (at)",
)


def upgrade() -> None:
    for statement in UP:
        op.execute(statement)


def downgrade() -> None:
    op.execute("drop table stored_garbage, stored_pieces")
