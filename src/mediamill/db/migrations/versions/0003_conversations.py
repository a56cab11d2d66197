"""Conversations: bots, what arrived, finished messages, replies, and the configuration table."""

from __future__ import annotations

from alembic import op

revision = "0003"
down_revision = "0002"
branch_labels = None
depends_on = None

SCRIPT = """
create table configuration (
    name text primary key,
    value jsonb not null,
    updated_at timestamptz not null default now()
);

create table bots (
    id text primary key,
    running boolean not null default false,
    starts integer not null default 0,
    config jsonb not null,
    status jsonb not null default '{}',
    created_at timestamptz not null default now(),
    updated_at timestamptz not null default now()
);

-- One person may be known by several identifiers (a phone number and a LID): the first one seen names the conversation.
create table correspondents (
    bot_id text not null references bots on delete cascade,
    provider_name text not null,
    identifier text not null,
    correspondent_id text not null,
    primary key (bot_id, provider_name, identifier)
);

create table conversations (
    bot_id text not null references bots on delete cascade,
    provider_name text not null,
    correspondent_id text not null,
    display_name text,
    is_group boolean not null default false,
    last_id bigint not null,
    last_at timestamptz not null default now(),
    primary key (bot_id, provider_name, correspondent_id)
);
create index conversations_latest on conversations (bot_id, last_at desc);

-- Everything that was accepted, once by its provider's id, and whole until it is in the queues table: what is in memory
-- only, a killed process would lose.
create table arrivals (
    bot_id text not null references bots on delete cascade,
    provider_name text not null,
    correspondent_id text not null,
    provider_message_id text not null,
    id bigint not null,
    state text not null check (state in ('placeholder', 'ready', 'stored')),
    guid text,
    message jsonb,
    media jsonb,
    accepted_at timestamptz not null default now(),
    ready_at timestamptz,
    primary key (bot_id, provider_name, correspondent_id, provider_message_id),
    check ((state = 'stored') = (message is null))
);
-- Not in the order of the primary key: in whose place the planner would take it for a long conversation.
create unique index arrivals_id on arrivals (id, correspondent_id, provider_name, bot_id);
create unique index arrivals_guid on arrivals (guid) where guid is not null;
create index arrivals_open on arrivals (bot_id, provider_name, correspondent_id, id) where state <> 'stored';
create index arrivals_accepted on arrivals using brin (accepted_at);

-- Finished messages, for good.
create table queues (
    bot_id text not null references bots on delete cascade,
    provider_name text not null,
    correspondent_id text not null,
    id bigint not null,
    content text not null,
    sender jsonb not null,
    source text not null,
    accepted_time timestamptz not null,
    message_size integer not null,
    originating_time bigint,
    "group" jsonb,
    provider_message_id text,
    media jsonb,
    primary key (bot_id, provider_name, correspondent_id, id)
);

create table replies (
    bot_id text not null references bots on delete cascade,
    provider_name text not null,
    correspondent_id text not null,
    message_id bigint not null,
    told text not null,
    state text not null default 'due' check (state in ('due', 'written', 'sent', 'failed')),
    answer text,
    tries integer not null default 0,
    error text,
    created_at timestamptz not null default now(),
    ended_at timestamptz,
    primary key (bot_id, provider_name, correspondent_id, message_id)
);
create index replies_open on replies (bot_id, provider_name, correspondent_id, message_id)
    where state in ('due', 'written');
create index replies_failed on replies (bot_id, provider_name, correspondent_id, message_id) where state = 'failed';
"""
TABLES = ("replies", "queues", "arrivals", "conversations", "correspondents", "bots", "configuration")


def upgrade() -> None:
    for statement in SCRIPT.split(";\n"):
        if statement.strip():
            op.execute(statement)


def downgrade() -> None:
    for table in TABLES:
        op.execute(f"drop table {table}")
