"""Files and qualities belong to the stream that has them, so that the old one plays while the new one is made."""

from __future__ import annotations

from alembic import op

revision = "0019"
down_revision = "0018"
branch_labels = None
depends_on = None

UP = (
    "delete from video_files f using videos v where v.id = f.video_id and v.output is null",
    "alter table video_files add column output bigint",
    "update video_files f set output = v.output from videos v where v.id = f.video_id",
    "alter table video_files alter column output set not null",
    "alter table video_files drop constraint video_files_pkey",
    "alter table video_files add primary key (video_id, output, name)",
    # What a running retranscode has reported so far counts for the stream that plays; it reports again.
    "alter table video_qualities add column job_id bigint",
    """
    update video_qualities q set job_id = coalesce(v.output,
        (select max(j.id) from jobs j where j.subject_id = v.id::text and j.kind = 'video.transcode'),
        (select max(d.id) from dead_jobs d where d.subject_id = v.id::text and d.kind = 'video.transcode'), 0)
    from videos v where v.id = q.video_id
    """,
    "alter table video_qualities alter column job_id set not null",
    "alter table video_qualities drop constraint video_qualities_pkey",
    "alter table video_qualities add primary key (video_id, job_id, quality)",
    "alter table video_qualities add column worker_id integer, add column worker_name text",
    "alter table dead_jobs add column claimed_at timestamptz",
    # Another title than its video's: so it is put in anew at the next start, with the times of its sentences.
    "update search_entries set title = title || ' ' where source = 'video' and part = 0",
)
DOWN = (
    "alter table dead_jobs drop column claimed_at",
    """
    delete from video_qualities q using videos v
    where v.id = q.video_id and q.job_id <> coalesce(v.output,
        (select max(o.job_id) from video_qualities o where o.video_id = v.id))
    """,
    "alter table video_qualities drop constraint video_qualities_pkey",
    "alter table video_qualities drop column job_id, drop column worker_id, drop column worker_name",
    "alter table video_qualities add primary key (video_id, quality)",
    "delete from video_files f using videos v where v.id = f.video_id and f.output is distinct from v.output",
    "alter table video_files drop constraint video_files_pkey",
    "alter table video_files drop column output",
    "alter table video_files add primary key (video_id, name)",
)


def upgrade() -> None:
    for statement in UP:
        op.execute(statement)


def downgrade() -> None:
    for statement in DOWN:
        op.execute(statement)
