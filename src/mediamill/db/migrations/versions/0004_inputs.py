"""Inputs: runs of agents, and the images that wait for them."""

from __future__ import annotations

from alembic import op

revision = "0004"
down_revision = "0003"
branch_labels = None
depends_on = None

SCRIPT = """
-- One text for the agent of one thread. While it runs, `answer` grows; `tries` is the fence: only the try that was
-- started last may write. No image bytes in here.
create table runs (
    run_id uuid primary key default gen_random_uuid(),
    sequence bigint generated always as identity unique,
    source text not null,
    thread_key text not null,
    user_key text,
    delivery_mode text not null check (delivery_mode in ('prompt', 'follow_up', 'steer')),
    text text not null,
    agent jsonb not null default '{}',
    idempotency_key text,
    payload_hash text not null,
    state text not null default 'queued' check (state in ('queued', 'running', 'completed', 'failed')),
    answer text not null default '',
    error_code text,
    error text,
    tries integer not null default 0,
    failures integer not null default 0,
    image_count integer not null default 0,
    image_bytes bigint not null default 0,
    created_at timestamptz not null default now(),
    start_after timestamptz not null default now(),
    started_at timestamptz,
    ended_at timestamptz,
    unique (source, idempotency_key)
);
create index runs_of_thread on runs (thread_key, sequence);
create index runs_open on runs (thread_key, sequence) where state in ('queued', 'running');

-- Images wait here, and only here, until the agent has taken them.
create table input_images (
    input_image_id uuid primary key default gen_random_uuid(),
    source text not null,
    thread_key text not null,
    user_key text,
    run_id uuid references runs on delete cascade,
    telegram_media_group_id text,
    mime_type text not null,
    filename text,
    byte_size bigint not null check (byte_size > 0),
    image_bytes bytea not null,
    position integer not null check (position >= 0),
    created_at timestamptz not null default now(),
    expires_at timestamptz not null default now() + interval '3 days'
);
-- Compressed already; kept apart from the row, it can be read in pieces.
alter table input_images alter column image_bytes set storage external;
create index input_images_of_run on input_images (run_id, position, input_image_id);
create index input_images_pending on input_images (source, thread_key, user_key, position, input_image_id)
    where run_id is null;
create index input_images_expiry on input_images (expires_at);
"""
TABLES = ("input_images", "runs")


def upgrade() -> None:
    for statement in SCRIPT.split(";\n"):
        if statement.strip():
            op.execute(statement)


def downgrade() -> None:
    for table in TABLES:
        op.execute(f"drop table {table}")
