"""A no-progress limit of pools; failures of a subject over its whole life; how many alerts each alert stands for."""

from __future__ import annotations

from alembic import op

revision = "0018"
down_revision = "0017"
branch_labels = None
depends_on = None

UP = (
    """
    alter table pools add column no_progress_seconds double precision not null default 0
        check (no_progress_seconds >= 0)
    """,
    "update pools set no_progress_seconds = 1800 where name = 'transcode'",
    # Apart from the dead letter: a job that is requeued or purged leaves that, its failures stay counted.
    """
    create table subject_failures (
        kind text not null,
        subject text not null,
        failures integer not null,
        failed_at timestamptz not null default now(),
        primary key (kind, subject)
    )
    """,
    "create index subject_failures_age on subject_failures (failed_at)",
    """
    insert into subject_failures (kind, subject, failures, failed_at)
    select kind, subject_id, greatest(sum(attempts), count(*)), max(failed_at) from dead_jobs
    where subject_id is not null group by kind, subject_id
    """,
    # What the latest alert of a type was sent for, besides its own cause.
    "alter table alert_limits add column summed_up integer not null default 0",
)
DOWN = (
    "alter table alert_limits drop column summed_up",
    "drop table subject_failures",
    "alter table pools drop column no_progress_seconds",
)


def upgrade() -> None:
    for statement in UP:
        op.execute(statement)


def downgrade() -> None:
    for statement in DOWN:
        op.execute(statement)
