"""Project files: projects with their fields, analyses by content, what a person decided about what was extracted."""

from __future__ import annotations

from alembic import op

revision = "0008"
down_revision = "0007"
branch_labels = None
depends_on = None

SCRIPT = """
-- `watch_error`: why the watched folder, or a file in it, could not be read at the last look.
create table projects (
    id bigint generated always as identity primary key,
    slug text not null unique,
    name text not null,
    description text not null default '',
    watch_path text,
    watched_at timestamptz,
    watch_error text,
    created_at timestamptz not null default now(),
    updated_at timestamptz not null default now()
);

-- `label`: how the field is written in documents.
create table project_fields (
    project_id bigint not null references projects on delete cascade,
    name text not null,
    type text not null check (type in ('text', 'number', 'amount', 'date', 'boolean')),
    label text not null,
    description text not null default '',
    unit text not null default '',
    position integer not null,
    primary key (project_id, name)
);

-- What became of a content, with these fields (`catalog`: their digest), by this extractor. One row for all files that
-- are the same, so the database decides who is a twin. `generation`: another try of what failed, or what was made anew.
create table analyses (
    id bigint generated always as identity primary key,
    sha256 bytea not null check (length(sha256) = 32),
    catalog bytea not null check (length(catalog) = 32),
    extractor text not null,
    generation integer not null default 1,
    mime_type text not null,
    bytes bigint not null,
    state text not null default 'queued' check (state in ('queued', 'processing', 'completed', 'failed')),
    attempts integer not null default 0,
    started_at timestamptz,
    processed_at timestamptz,
    error text,
    job_id bigint,
    text text,
    summary text,
    result jsonb not null default '{}',
    page_texts jsonb not null default '[]',
    output text,
    duration_ms bigint,
    created_at timestamptz not null default now(),
    unique (sha256, catalog, extractor, generation)
);

-- `twin_of`: the file that was there before with the same analysis; it may be gone by now.
create table project_files (
    id bigint generated always as identity primary key,
    project_id bigint not null references projects on delete cascade,
    analysis_id bigint not null references analyses,
    name text not null,
    source text not null default 'upload' check (source in ('upload', 'watch')),
    twin_of bigint,
    created_at timestamptz not null default now()
);
create index project_files_newest on project_files (project_id, id);
create index project_files_analysis on project_files (analysis_id, id);

-- Paths as the system has them: they need not be text. `taken`: it was taken in as it is.
create table watched_files (
    project_id bigint not null references projects on delete cascade,
    rel_path bytea not null,
    mtime_ns bigint not null,
    size bigint not null,
    taken boolean not null default false,
    file_id bigint references project_files on delete set null,
    primary key (project_id, rel_path)
);
create index watched_files_file on watched_files (file_id) where file_id is not null;

-- `box`: left, top, right and bottom as shares of the page. `edited_value`: what a person made of the value.
create table proposals (
    id bigint generated always as identity primary key,
    file_id bigint not null references project_files on delete cascade,
    field text not null,
    value text not null,
    raw text not null default '',
    unit text not null default '',
    confidence real not null check (confidence between 0 and 1),
    page integer,
    box real[] check (box is null or array_length(box, 1) = 4),
    quote text not null default '',
    origin text not null,
    state text not null default 'pending' check (state in ('pending', 'accepted', 'rejected')),
    edited_value text,
    decided_at timestamptz,
    created_at timestamptz not null default now()
);
create index proposals_file on proposals (file_id, field);

insert into pools values
    ('intake', '{file.analyse}', 'intake', 2, 300, 3, 900, 900, true, 5, 300, 2147483648, false, 604800)
on conflict (name) do nothing
"""
TABLES = ("proposals", "watched_files", "project_files", "analyses", "project_fields", "projects")


def upgrade() -> None:
    for statement in SCRIPT.split(";\n"):
        if statement.strip():
            op.execute(statement)


def downgrade() -> None:
    catch_all = "(select name from pools where matches = '{}')"
    op.execute(f"update jobs set pool = {catch_all} where pool = 'intake'")  # noqa: S608
    op.execute("delete from pools where name = 'intake'")
    for table in TABLES:
        op.execute(f"drop table {table}")
