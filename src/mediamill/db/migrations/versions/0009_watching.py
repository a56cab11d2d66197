"""Watching it: attempts that ended and how long they took; flight logs of workers; the trace of a job."""

from __future__ import annotations

from alembic import op

revision = "0009"
down_revision = "0008"
branch_labels = None
depends_on = None

# A shard a session, so that workers do not queue behind one row.
ATTEMPTS = """
create table attempts (
    kind text not null,
    pool text not null,
    outcome text not null,
    bucket smallint not null,
    shard smallint not null,
    count bigint not null default 0,
    seconds double precision not null default 0,
    primary key (kind, pool, outcome, bucket, shard)
) with (fillfactor = 50)
"""

# The bounds of the histogram of durations; BOUNDS in engine/attempts.py are the same.
BUCKET = """
create function attempt_bucket(took interval) returns smallint language sql immutable parallel safe as $$
    select width_bucket(coalesce(extract(epoch from took), 0)::float8,
        array[0.1, 0.5, 1, 5, 15, 60, 300, 900, 3600, 14400]::float8[])::smallint
$$
"""

# `content`: the text, compressed by zlib. Kept here, because its file lies on the machine of its worker.
DUMPS = """
create table flight_dumps (
    id bigint generated always as identity primary key,
    name text not null unique,
    worker_id integer not null,
    worker_name text not null,
    taken_at timestamptz not null,
    bytes bigint not null,
    content bytea not null,
    received_at timestamptz not null default now()
)
"""

# `trace`: the W3C traceparent under which the job was enqueued, if traces are on.
JOBS = ("jobs", "finished_jobs", "dead_jobs")


def upgrade() -> None:
    op.execute(ATTEMPTS)
    op.execute(BUCKET)
    op.execute(DUMPS)
    op.execute("alter table flight_dumps alter column content set storage external")
    for table in JOBS:
        op.execute(f"alter table {table} add column trace text")


def downgrade() -> None:
    for table in JOBS:
        op.execute(f"alter table {table} drop column trace")
    op.execute("drop table flight_dumps")
    op.execute("drop function attempt_bucket(interval)")
    op.execute("drop table attempts")
