"""Project files: pages to go on from, categories, findings that fit no field, and stale after 15 minutes in all."""

from __future__ import annotations

from alembic import op

revision = "0020"
down_revision = "0019"
branch_labels = None
depends_on = None

UP = (
    # Pages that were read, of an analysis that left others out.
    "alter table analyses add column kept jsonb not null default '[]'",
    # What a file is, if a person or a rule of its project says so; fields may be for some categories only.
    "alter table project_files add column category text not null default ''",
    """
    alter table project_files add column category_by text
        check (category_by in ('person', 'rule') and (category_by is null) = (category = ''))
    """,
    "alter table project_fields add column categories text[] not null default '{}'",
    "alter table projects add column category_rules jsonb not null default '[]'",
    # What was found and fits no field. `dropped_labels`: what nobody wants to hear of in a project, in small letters.
    """
    create table findings (
        id bigint generated always as identity primary key,
        file_id bigint not null references project_files on delete cascade,
        label text not null,
        type text not null check (type in ('text', 'number', 'amount', 'date', 'boolean')),
        value text not null,
        raw text not null default '',
        unit text not null default '',
        confidence real not null check (confidence between 0 and 1),
        page integer,
        box real[] check (box is null or array_length(box, 1) = 4),
        quote text not null default '',
        origin text not null
    )
    """,
    "create index findings_file on findings (file_id)",
    "alter table projects add column dropped_labels text[] not null default '{}'",
    # A claim whose worker is not heard is released after lease and stale limit together.
    """
    update pools set lease_seconds = 300, stale_seconds = 600
    where name = 'intake' and lease_seconds = 900 and stale_seconds = 900
    """,
)
DOWN = (
    """
    update pools set lease_seconds = 900, stale_seconds = 900
    where name = 'intake' and lease_seconds = 300 and stale_seconds = 600
    """,
    "alter table projects drop column dropped_labels",
    "drop table findings",
    "alter table projects drop column category_rules",
    "alter table project_fields drop column categories",
    "alter table project_files drop column category_by",
    "alter table project_files drop column category",
    "alter table analyses drop column kept",
)


def upgrade() -> None:
    for statement in UP:
        op.execute(statement)


def downgrade() -> None:
    for statement in DOWN:
        op.execute(statement)
