"""Jobs that wait for a model server, for which one and since when; and images that later questions of a thread see."""

from __future__ import annotations

from alembic import op

revision = "0021"
down_revision = "0020"
branch_labels = None
depends_on = None

# Few jobs wait for a server at a time: an index of those alone, so that a page finds them whatever else is queued.
UP = (
    "alter table jobs add column waits_for text, add column waiting_since timestamptz",
    "create index jobs_waits_for on jobs (waits_for) where waits_for is not null",
    """
    create table thread_images (
        run_id uuid not null references runs on delete cascade,
        position integer not null,
        thread_key text not null,
        sequence bigint not null,
        mime_type text not null,
        image bytea not null,
        expires_at timestamptz not null default now() + interval '3 days',
        primary key (run_id, position)
    )
    """,
    "alter table thread_images alter column image set storage external",
    "create index thread_images_order on thread_images (thread_key, sequence, position)",
    "create index thread_images_expiry on thread_images (expires_at)",
)


def upgrade() -> None:
    for statement in UP:
        op.execute(statement)


def downgrade() -> None:
    op.execute("drop table thread_images")
    op.execute("alter table jobs drop column waits_for, drop column waiting_since")
