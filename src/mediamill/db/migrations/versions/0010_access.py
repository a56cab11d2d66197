"""Users, API tokens, sessions of browsers, and the audit log."""

from __future__ import annotations

from alembic import op

revision = "0010"
down_revision = "0009"
branch_labels = None
depends_on = None

SCRIPT = """
create table users (
    id bigint generated always as identity primary key,
    name text not null,
    password_hash text not null,
    scopes text[] not null,
    disabled_at timestamptz,
    created_at timestamptz not null default now(),
    password_at timestamptz not null default now(),
    seen_at timestamptz
);
create unique index users_name on users (lower(name));

-- `user_id`: who made it, if that was a user: it is worth no more than they are.
create table api_tokens (
    id bigint generated always as identity primary key,
    prefix text not null,
    hash bytea not null unique check (length(hash) = 32),
    name text not null,
    scopes text[] not null,
    user_id bigint references users on delete cascade,
    made_by text not null,
    created_at timestamptz not null default now(),
    expires_at timestamptz,
    used_at timestamptz,
    revoked_at timestamptz
);
create index api_tokens_prefix on api_tokens (prefix);
create index api_tokens_user on api_tokens (user_id) where user_id is not null;

-- Without a user: of whoever knows the admin secret. `proof`: of the password or secret that opened it.
create table login_sessions (
    id bigint generated always as identity primary key,
    hash bytea not null unique check (length(hash) = 32),
    user_id bigint references users on delete cascade,
    proof bytea not null,
    address text,
    agent text not null default '',
    created_at timestamptz not null default now(),
    used_at timestamptz not null default now(),
    expires_at timestamptz not null
);
create index login_sessions_user on login_sessions (user_id);
create index login_sessions_expiry on login_sessions (expires_at);

-- `who` and `kind` are words, not references: an entry outlives whom it is about. `outcome` is empty until it is known.
create table audit (
    id bigint generated always as identity primary key,
    at timestamptz not null default now(),
    who text not null,
    kind text not null,
    address text,
    action text not null,
    subject text not null default '',
    outcome text not null default ''
);
create index audit_age on audit (at)
"""
TABLES = ("audit", "login_sessions", "api_tokens", "users")


def upgrade() -> None:
    for statement in SCRIPT.split(";\n"):
        if statement.strip():
            op.execute(statement)


def downgrade() -> None:
    for table in TABLES:
        op.execute(f"drop table {table}")
