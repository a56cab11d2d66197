"""Sessions end when idle; second factors, passkeys, users of a single sign-on, and logins that take several steps."""

from __future__ import annotations

from alembic import op

revision = "0014"
down_revision = "0013"
branch_labels = None
depends_on = None

UP = (
    # `issuer` and `subject`: who somebody is at the provider of the single sign-on. They need no password here.
    "alter table users alter password_hash drop not null, alter password_at drop not null, "
    "add issuer text, add subject text, "
    "add constraint users_identity check ((issuer is null) = (subject is null)), "
    "add constraint users_way_in check (password_hash is not null or subject is not null)",
    "create unique index users_subject on users (issuer, subject)",
    "alter table login_sessions add idle interval not null default interval '24 hours'",
    """
    create view open_sessions as
        select * from login_sessions where expires_at > now() and used_at > now() - idle
    """,
    # Of an authenticator app. Until `confirmed_at` it protects nothing. `last_step`: codes up to this one were used.
    """
    create table second_factors (
        user_id bigint primary key references users on delete cascade,
        secret text not null,
        last_step bigint not null default 0,
        created_at timestamptz not null default now(),
        confirmed_at timestamptz
    )
    """,
    """
    create table recovery_codes (
        user_id bigint not null references users on delete cascade,
        hash bytea not null check (length(hash) = 32),
        used_at timestamptz,
        primary key (user_id, hash)
    )
    """,
    """
    create table passkeys (
        id bigint generated always as identity primary key,
        user_id bigint not null references users on delete cascade,
        credential_id bytea not null unique,
        public_key bytea not null,
        sign_count bigint not null,
        name text not null,
        created_at timestamptz not null default now(),
        used_at timestamptz
    )
    """,
    "create index passkeys_user on passkeys (user_id)",
    # What the server remembers between two requests of a login. `hash`: of a cookie.
    """
    create table login_steps (
        hash bytea primary key check (length(hash) = 32),
        kind text not null check (kind in ('code', 'passkey', 'new passkey', 'single sign-on')),
        user_id bigint references users on delete cascade,
        data text not null,
        expires_at timestamptz not null
    )
    """,
    "create index login_steps_expiry on login_steps (expires_at)",
)
DOWN = (
    "drop table login_steps, passkeys, recovery_codes, second_factors",
    "drop view open_sessions",
    "alter table login_sessions drop idle",
    "delete from users where password_hash is null",
    "alter table users drop issuer, drop subject, alter password_hash set not null, alter password_at set not null",
)


def upgrade() -> None:
    for statement in UP:
        op.execute(statement)


def downgrade() -> None:
    for statement in DOWN:
        op.execute(statement)
