"""Assets are shown by local time; text in pictures names its reader; a copy of a job's checkpoint goes."""

from __future__ import annotations

from alembic import op

revision = "0022"
down_revision = "0021"
branch_labels = None
depends_on = None

# In UTC, PostgreSQL changes the type without writing the table anew.
LOCAL_TIMES = (
    "set local timezone = 'UTC'",
    "alter table assets alter column shown_at type timestamp",
    # What a camera said with an offset was turned into UTC; the facts still have it as it was.
    r"""
    update assets set shown_at = left(taken, 19)::timestamp,
        facts = facts - 'taken_zone' || jsonb_build_object('taken_at', taken, 'taken_from', case
            when type = 'video' then 'quicktime'
            when taken ~ '[+-][0-9]{2}:[0-9]{2}$' then 'exif_offset' else 'exif' end)
    from (
        select id as photo, regexp_replace(coalesce(facts ->> 'taken_at',
            facts #>> '{tags,com.apple.quicktime.creationdate}'), '([+-][0-9]{2})([0-9]{2})$', '\1:\2') as taken
        from assets where facts ->> 'taken_zone' in ('camera', 'unknown')) told
    where id = photo and taken ~ '^[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}'
        and pg_input_is_valid(left(taken, 19), 'timestamp')
    """,
    """
    update assets set facts = facts - 'taken_zone' || jsonb_build_object(
        'taken_at', to_char(shown_at, 'YYYY-MM-DD"T"HH24:MI:SS+00:00'), 'taken_from', 'container_utc')
    where facts ->> 'taken_zone' = 'utc'
    """,
    # Raw photos and TIFF files without a time are read once more: nobody had looked for it there.
    """
    update assets set status = 'pending'
    where status in ('proxied', 'completed') and type = 'image' and job_id is null and vanished_at is null
        and facts ->> 'format' in ('RAW', 'TIFF') and facts ->> 'taken_at' is null
    """,
)
# Who read text in a picture, as tags have their tagger: 0 if nobody did. Null: tagged before this was noted.
READERS = (
    "alter table ai_models drop constraint ai_models_task_check",
    "alter table ai_models add constraint ai_models_task_check check (task in ('vision', 'text', 'look', 'read'))",
    "alter table assets add column reader_model_id integer",
    "alter table video_scenes add column reader_model_id integer",
    "alter table video_frames add column reader_model_id integer",
    """
    create function unread(reader integer) returns boolean language sql stable parallel safe
    return exists (select from system_metadata where key = 'reader' and (value ->> 'id')::int
        not in (0, coalesce(reader, (value ->> 'first')::int)))
    """,
)
UP = (*LOCAL_TIMES, "drop table video_active_state", *READERS)
DOWN = (
    "drop function unread",
    "alter table assets drop column reader_model_id",
    "alter table video_scenes drop column reader_model_id",
    "alter table video_frames drop column reader_model_id",
    "delete from ai_models where task = 'read'",
    "alter table ai_models drop constraint ai_models_task_check",
    "alter table ai_models add constraint ai_models_task_check check (task in ('vision', 'text', 'look'))",
    "delete from system_metadata where key = 'reader'",
    "set local timezone = 'UTC'",
    "alter table assets alter column shown_at type timestamptz",
    """
    create table video_active_state (
        asset_id bigint primary key references assets on delete cascade,
        anchor_phash text not null,
        scene_start_ts double precision not null,
        current_best_pts double precision,
        current_best_sharpness real,
        state jsonb not null
    )
    """,
)


def upgrade() -> None:
    """Clocks of the place; no copy of a checkpoint."""
    for statement in UP:
        op.execute(statement)


def downgrade() -> None:
    """UTC again; as the hours between are not known of all, those of the place are taken for it."""
    for statement in DOWN:
        op.execute(statement)
