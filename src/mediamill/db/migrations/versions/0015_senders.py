"""Who may talk to a bot: senders and their pairing codes, what each used on a day, and notices among the replies."""

from __future__ import annotations

from alembic import op

revision = "0015"
down_revision = "0014"
branch_labels = None
depends_on = None

# Bots that are on a network keep answering everybody, without limits. Groups: a bot that answered there answers every
# message; one that only listens takes all of them in; one that stayed silent in groups stays silent.
UP = (
    """
    create table senders (
        bot_id text not null references bots on delete cascade,
        provider_name text not null,
        sender_id text not null,
        display_name text,
        state text not null check (state in ('pending', 'allowed', 'blocked')),
        identifiers text[] not null default '{}',
        code text,
        asked_at timestamptz,
        expires_at timestamptz,
        decided_at timestamptz,
        primary key (bot_id, provider_name, sender_id),
        check ((state = 'pending') = (code is not null and expires_at is not null))
    )
    """,
    "create unique index senders_code on senders (bot_id, code) where code is not null",
    """
    create table sender_days (
        bot_id text not null references bots on delete cascade,
        provider_name text not null,
        sender_id text not null,
        day date not null,
        messages integer not null default 0,
        media_seconds double precision not null default 0,
        tokens bigint not null default 0,
        notified boolean not null default false,
        primary key (bot_id, provider_name, sender_id, day)
    )
    """,
    "create index sender_days_day on sender_days (day)",
    "create sequence notice_ids minvalue -4611686018427387904 start -4611686018427387904 maxvalue -1",
    "alter table replies add column sender_id text",
    "create index replies_notices on replies (ended_at) where message_id < 0",
    "alter table runs add column tokens bigint not null default 0",
    """
    update bots set config = (config #- '{reply,groups}') || jsonb_build_object('access', jsonb_build_object(
        'mode', 'open', 'messages_per_day', 0, 'media_seconds_per_day', 0, 'tokens_per_day', 0,
        'groups', case when coalesce(config #>> '{reply,groups}', 'false') = 'true'
            or coalesce(config #>> '{reply,by}', 'none') = 'none' then 'always' else 'never' end))
    where (coalesce(config -> 'providers', '{}') - 'chat') <> '{}'
    """,
    "update bots set config = config #- '{reply,groups}' where config #> '{reply,groups}' is not null",
)
DOWN = (
    """
    update bots set config = jsonb_set(config - 'access', '{reply}', coalesce(config -> 'reply', '{}')
        || jsonb_build_object('groups', coalesce(config #>> '{access,groups}', '') = 'always'))
    """,
    "alter table runs drop column tokens",
    "delete from replies where message_id < 0",
    "drop index replies_notices",
    "alter table replies drop column sender_id",
    "drop sequence notice_ids",
    "drop table sender_days",
    "drop table senders",
)


def upgrade() -> None:
    for statement in UP:
        op.execute(statement)


def downgrade() -> None:
    for statement in DOWN:
        op.execute(statement)
