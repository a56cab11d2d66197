"""Jobs that wait for a model server: for which one, and since when."""

from __future__ import annotations

from alembic import op

revision = "0021"
down_revision = "0015"
branch_labels = None
depends_on = None

# Few jobs wait for a server at a time: an index of those alone, so that a page finds them whatever else is queued.
UP = (
    "alter table jobs add column waits_for text, add column waiting_since timestamptz",
    "create index jobs_waits_for on jobs (waits_for) where waits_for is not null",
)


def upgrade() -> None:
    for statement in UP:
        op.execute(statement)


def downgrade() -> None:
    op.execute("alter table jobs drop column waits_for, drop column waiting_since")
