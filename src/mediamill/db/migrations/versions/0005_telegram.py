"""Telegram: updates as they came, acknowledgements of images, and what was sent."""

from __future__ import annotations

from alembic import op

revision = "0005"
down_revision = "0004"
branch_labels = None
depends_on = None

SCRIPT = """
-- A bot's life here. A bot that is deleted and made again counts its messages from 1 again; its runs must not be taken
-- for those of the old one.
create table telegram_bots (
    bot_id text primary key references bots on delete cascade,
    life text not null default substr(md5(gen_random_uuid()::text), 1, 12)
);

-- Updates are in here before Telegram is told that we have them. `account` is Telegram's id of the bot: another token
-- may bring the same numbers for other updates. A row that is done has no body, and stays so that it is known if it
-- comes again.
create table telegram_updates (
    bot_id text not null references bots on delete cascade,
    account bigint not null,
    update_id bigint not null,
    chat text not null,
    message_id bigint not null,
    album text,
    state text not null default 'new' check (state in ('new', 'done', 'refused')),
    update jsonb,
    image_saved boolean not null default false,
    tries integer not null default 0,
    not_before timestamptz not null default now(),
    error text,
    created_at timestamptz not null default now(),
    ended_at timestamptz,
    primary key (bot_id, account, update_id),
    check (state <> 'new' or update is not null)
);
create index telegram_updates_open on telegram_updates (bot_id, account, chat, update_id) where state = 'new';
create index telegram_updates_ended on telegram_updates (ended_at) where state <> 'new';

-- One acknowledgement for the images of an album (or of one message): what it should say, and what it says.
create table telegram_acks (
    bot_id text not null references bots on delete cascade,
    account bigint not null,
    chat text not null,
    album text not null,
    saved integer not null default 0,
    refused integer not null default 0,
    failed integer not null default 0,
    waiting integer not null default 0,
    reason text,
    state text not null default 'due' check (state in ('due', 'sending', 'told')),
    message_id bigint,
    updated_at timestamptz not null default now(),
    primary key (bot_id, account, chat, album)
);
create index telegram_acks_open on telegram_acks (bot_id, account, chat) where state <> 'told';

-- What Telegram has confirmed, part by part: it takes the same message twice, so we must not send it twice.
create table telegram_sends (
    bot_id text not null references bots on delete cascade,
    send_id text not null,
    part integer not null,
    message_id bigint not null,
    sent_at timestamptz not null default now(),
    primary key (bot_id, send_id, part)
);
create index telegram_sends_age on telegram_sends using brin (sent_at);
"""
TABLES = ("telegram_sends", "telegram_acks", "telegram_updates", "telegram_bots")


def upgrade() -> None:
    for statement in SCRIPT.split(";\n"):
        if statement.strip():
            op.execute(statement)


def downgrade() -> None:
    for table in TABLES:
        op.execute(f"drop table {table}")
