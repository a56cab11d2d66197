"""Videos: their rows, qualities and files; uploads; and the files that running jobs have kept."""

from __future__ import annotations

from alembic import op

revision = "0006"
down_revision = "0005"
branch_labels = None
depends_on = None

SCRIPT = """
-- Finished files of jobs that are not: what an attempt made stays for the next one. The file is under its name in the
-- job's folder before its row is committed.
create table kept_files (
    job_id bigint not null,
    name text not null,
    bytes bigint not null check (bytes >= 0),
    sha256 bytea not null check (length(sha256) = 32),
    facts jsonb not null default '{}',
    primary key (job_id, name)
);

-- The state moves only with the video's job. `output`: the job whose files are shown.
create table videos (
    id uuid primary key,
    slug text not null unique,
    title text not null,
    description text not null default '',
    category text not null default '',
    state text not null default 'pending' check (state in ('pending', 'processing', 'ready', 'failed')),
    error text,
    source_name text not null,
    source_bytes bigint not null,
    mime_type text not null,
    duration_seconds double precision,
    width integer,
    height integer,
    frame_rate double precision,
    hdr boolean,
    has_audio boolean,
    warnings jsonb not null default '[]',
    output bigint,
    output_bytes bigint,
    captions text,
    transcript jsonb,
    captions_state text not null default 'none'
        check (captions_state in ('none', 'pending', 'ready', 'silent', 'failed')),
    captions_error text,
    created_at timestamptz not null default now(),
    updated_at timestamptz not null default now(),
    ready_at timestamptz,
    deleted_at timestamptz
);
-- Whole, so that a plan that does not know yet whether the trash is asked for can use it.
create index videos_newest on videos (created_at desc, id desc);
create index videos_deleted on videos (deleted_at desc, id desc) where deleted_at is not null;
create index videos_words on videos using gin (to_tsvector('simple',
    title || ' ' || description || ' ' || category || ' ' || coalesce(transcript ->> 'text', '')));

create table video_qualities (
    video_id uuid not null references videos on delete cascade,
    quality text not null,
    state text not null default 'pending'
        check (state in ('pending', 'in_progress', 'completed', 'failed', 'skipped')),
    width integer,
    height integer,
    segments_total integer,
    segments_done integer not null default 0,
    percent real not null default 0,
    bytes bigint,
    bitrate bigint,
    codecs text,
    started_at timestamptz,
    ended_at timestamptz,
    error text,
    primary key (video_id, quality)
);

-- The files of the output that is shown.
create table video_files (
    video_id uuid not null references videos on delete cascade,
    name text not null,
    bytes bigint not null,
    sha256 bytea not null,
    facts jsonb not null default '{}',
    primary key (video_id, name)
);

-- Files on their way in. How much has come is the size of the file on disk.
create table uploads (
    id uuid primary key,
    purpose text not null,
    name text not null,
    bytes bigint not null check (bytes > 0),
    metadata jsonb not null default '{}',
    fingerprint text,
    created_at timestamptz not null default now(),
    expires_at timestamptz not null,
    finished_at timestamptz
);
create unique index uploads_fingerprint on uploads (purpose, fingerprint, bytes)
    where finished_at is null and fingerprint is not null;
create index uploads_expiry on uploads (expires_at);

insert into pools values
    ('transcode', '{video.transcode}', 'transcode', 1, 43200, 3, 1800, 3600, true, 10, 600, 4294967296, true, 2592000),
    ('captions', '{video.transcribe}', 'audio', 1, 43200, 3, 1800, 3600, true, 10, 600, 2147483648, false, 2592000)
on conflict (name) do nothing
"""
TABLES = ("uploads", "video_files", "video_qualities", "videos", "kept_files")


def upgrade() -> None:
    for statement in SCRIPT.split(";\n"):
        if statement.strip():
            op.execute(statement)


def downgrade() -> None:
    catch_all = "(select name from pools where matches = '{}')"
    op.execute(f"update jobs set pool = {catch_all} where pool in ('transcode', 'captions')")  # noqa: S608
    op.execute("delete from pools where name in ('transcode', 'captions')")
    for table in TABLES:
        op.execute(f"drop table {table}")
