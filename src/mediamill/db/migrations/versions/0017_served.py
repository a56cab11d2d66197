"""When each pool was served: the clock by which jobs grow old, which stands still during an outage. And files awaited
from bridges."""

from __future__ import annotations

from alembic import op

revision = "0017"
down_revision = "0016"
branch_labels = None
depends_on = None

# Spans in which a server ran and a worker served the pool; the pool '' stands for the server alone.
# served_cutoff: since that moment the pool was served for so many seconds; null if it was not served that long.
UP = (
    """
    create table served (
        pool text not null,
        since_at timestamptz not null,
        until_at timestamptz not null,
        primary key (pool, since_at)
    )
    """,
    """
    create function served_cutoff(of_pool text, seconds double precision) returns timestamptz language sql stable as $$
        select until_at - make_interval(secs => seconds - newer)
        from (
            select until_at, span, sum(span) over (order by until_at desc) - span as newer
            from (
                select until_at, extract(epoch from until_at - since_at)::double precision as span
                from served where pool = of_pool
            ) spans
        ) summed
        where newer + span >= seconds
        order by until_at desc limit 1
    $$
    """,
    """
    create table awaited_files (
        guid text primary key,
        awaited_at timestamptz not null default now()
    )
    """,
)
DOWN = (
    "drop table awaited_files",
    "drop function served_cutoff(text, double precision)",
    "drop table served",
)


def upgrade() -> None:
    for statement in UP:
        op.execute(statement)


def downgrade() -> None:
    for statement in DOWN:
        op.execute(statement)
