-- Assets, looked at: lists, one with all there is of it, months.

-- Lists are of ids, in their order; what is seen of a page is read by show_page.

-- name: list_older
-- A page from a place on, newest first. Each type and status is a stretch of the index of its own; so few of each are
-- read, and the page is taken from those. Flat, however many assets there are. The planner does not look into `asked`: so
-- a plan for any values costs no more than one for these, and is kept. To plan anew takes longer than to read the page.
with asked as materialized (
    select :library::int as library, :types::text[] as types, :statuses::text[] as statuses,
        coalesce(:until, 'infinity'::timestamp) as until, :until_id::bigint as until_id,
        coalesce(:since, '-infinity'::timestamp) as since, :since_id::bigint as since_id, :amount::bigint as amount)
select m.id, m.shown_at from asked, unnest(types) as t (type), unnest(statuses) as s (status),
    lateral (select id, shown_at from assets
        where library = asked.library and type = t.type and status = s.status and vanished_at is null
            and (shown_at, id) < (until, until_id) and (shown_at, id) > (since, since_id)
        order by shown_at desc, id desc limit asked.amount) m
order by m.shown_at desc, m.id desc limit (select amount from asked);

-- name: list_newer
-- The page before a place: the nearest ones, the nearest first.
with asked as materialized (
    select :library::int as library, :types::text[] as types, :statuses::text[] as statuses,
        coalesce(:until, 'infinity'::timestamp) as until, :until_id::bigint as until_id,
        coalesce(:since, '-infinity'::timestamp) as since, :since_id::bigint as since_id, :amount::bigint as amount)
select m.id, m.shown_at from asked, unnest(types) as t (type), unnest(statuses) as s (status),
    lateral (select id, shown_at from assets
        where library = asked.library and type = t.type and status = s.status and vanished_at is null
            and (shown_at, id) < (until, until_id) and (shown_at, id) > (since, since_id)
        order by shown_at, id limit asked.amount) m
order by m.shown_at, m.id limit (select amount from asked);

-- name: list_vanished
select id, shown_at from assets
where library = :library and vanished_at is not null and type = any (:types::text[]) and status = any (:statuses::text[])
    and (shown_at, id) < (coalesce(:until, 'infinity'::timestamp), :until_id::bigint)
order by shown_at desc, id desc limit :amount;

-- name: list_by_path
-- So many of the next paths, and of them those that are asked for: what one page costs is bounded, so it may be short.
with asked as materialized (
    select :library::int as library, :types::text[] as types, :statuses::text[] as statuses, :vanished::bool as vanished,
        :path::text collate "C" as path, :walk::bigint as walk, :amount::bigint as amount)
select id, rel_path from asked, lateral (
    select id, rel_path, type, status, vanished_at
    from assets where library = asked.library and rel_path > path order by rel_path limit walk) walked
where type = any (types) and status = any (statuses) and (vanished_at is not null) = vanished
limit (select amount from asked);

-- name: show_page
select a.id, a.rel_path, a.type, a.status, a.shown_at, a.size, a.width, a.height, a.duration_seconds, a.output,
    a.video_preview_path, a.description, a.retry_count, a.error, a.tags_model_id, a.vanished_at
from unnest(:ids::bigint[]) with ordinality as page (id, place) join assets a on a.id = page.id order by page.place;

-- name: walked_to
-- Where that walk ended, if there is more behind it.
select rel_path from assets where library = :library and rel_path > :path order by rel_path offset :walk - 1 limit 1;

-- name: show_asset
select a.id, a.rel_path, a.type, a.status, a.shown_at, a.mtime_ns, a.size, a.width, a.height, a.duration_seconds, a.output,
    a.video_preview_path, a.segmentation_version, a.description, a.tags, a.facts, a.retry_count, a.error, a.error_code,
    a.tags_model_id, a.vanished_at, a.library, a.job_id, l.slug as library_slug, l.name as library_name,
    l.absolute_path, m.name as tagger, j.kind as job_kind, j.state as job_state, j.step, j.percent, j.attempts,
    j.max_attempts, j.worker_name, j.error as job_error
from assets a join libraries l on l.number = a.library and l.deleted_at is null
left join ai_models m on m.id = a.tags_model_id left join jobs j on j.id = a.job_id
where a.id = :id;

-- name: scenes_of
select s.id, s.number, s.start_ts, s.end_ts, s.sharpness_score, s.keep_reason, s.rep_frame_path, s.description, s.tags,
    s.metadata, s.tags_model_id, m.name as tagger
from video_scenes s left join ai_models m on m.id = s.tags_model_id
where s.asset_id = :asset_id order by s.end_ts limit :amount;

-- name: frames_of
select f.id, f.timestamp_ms, f.is_keyframe, f.frame_path, f.description, f.tags, f.tags_model_id, m.name as tagger
from video_frames f left join ai_models m on m.id = f.tags_model_id
where f.asset_id = :asset_id order by f.timestamp_ms limit :amount;

-- name: find_asset
-- Those of a library in the trash are not there.
select a.id, a.library, a.rel_path, a.type, a.status, a.output, a.size, a.mtime_ns, a.shown_at, l.slug, l.absolute_path
from assets a join libraries l on l.number = a.library and l.deleted_at is null where a.id = :id;

-- name: lock_failed
-- So many at a time; one that is being looked at is left for the next time.
select id from assets where library = :library and type = any ('{image,video}'::text[])
    and status = any ('{failed,poisoned}'::text[]) and vanished_at is null limit :amount for update skip locked;

-- name: resumable_jobs
-- Dead jobs of videos that came some way, and would still be made like that today.
select max(d.id) as job_id from assets a join libraries l on l.number = a.library
join dead_jobs d on d.kind = 'library.video' and d.subject_id = a.id::text
where a.id = any (:ids::bigint[]) and a.type = 'video' and a.error_code is distinct from 'tag_failed'
    and d.checkpoint is not null and d.payload #>> '{file,root}' = l.absolute_path
    and d.payload #>> '{file,inside}' = a.rel_path and (d.payload ->> 'sampling_limit')::int = l.sampling_limit
    and d.payload ->> 'mode' = coalesce(l.sampling_policy ->> 'mode', 'scenes')
group by a.id;

-- name: retry_assets!
-- What failed waits again, as if it had never been tried; for a tagger, if all but that was done: no file is read twice.
update assets set status = case error_code when 'tag_failed' then 'proxied' else 'pending' end, retry_count = 0, error = null,
    error_code = null, job_id = null
where id = any (:ids::bigint[]) and status in ('failed', 'poisoned');

-- name: remake_asset
update assets set status = 'pending', retry_count = 0, error = null, error_code = null
where id = :id and job_id is null and vanished_at is null and status in ('proxied', 'completed', 'failed', 'poisoned')
returning id;

-- name: remake_batch
-- The next so many assets by id, whosever they are: the primary key alone finds them. Returns how many of them are made
-- again, and null at the end.
with batch as materialized (
    select id from assets where id > :after order by id limit :amount
), moved as (
    update assets a set status = 'pending', retry_count = 0, error = null, error_code = null
    from batch b where a.id = b.id and a.id > :after and a.id <= (select max(id) from batch)
        and a.library = :library and a.job_id is null and a.vanished_at is null
        and a.status in ('proxied', 'completed', 'failed', 'poisoned')
        and case :what when 'images' then a.type = 'image' when 'videos' then a.type = 'video'
            when 'raw' then a.facts ->> 'format' = 'RAW' else true end
    returning a.id
)
select (select count(*) from moved) as moved, (select max(id) from batch) as after;

-- Looking through a library by time (browse.py).

-- name: list_stretch
-- As list_older, beginning somewhere behind a place: what is left out is read from the index only.
with asked as materialized (
    select :library::int as library, :types::text[] as types, :statuses::text[] as statuses,
        coalesce(:until, 'infinity'::timestamp) as until, :until_id::bigint as until_id,
        coalesce(:since, '-infinity'::timestamp) as since, :since_id::bigint as since_id, :skip::bigint as skip,
        :amount::bigint as amount)
select a.id, a.rel_path, a.type, a.status, a.shown_at, a.duration_seconds, a.output, a.video_preview_path
from (
    select m.id, m.shown_at from asked, unnest(types) as t (type), unnest(statuses) as s (status),
        lateral (select id, shown_at from assets
            where library = asked.library and type = t.type and status = s.status and vanished_at is null
                and (shown_at, id) < (until, until_id) and (shown_at, id) > (since, since_id)
            order by shown_at desc, id desc limit skip + amount) m
    order by m.shown_at desc, m.id desc offset (select skip from asked) limit (select amount from asked)) page
join assets a on a.id = page.id order by page.shown_at desc, page.id desc;

-- name: names_of_assets
-- Those of a library in the trash are not there.
select a.id, a.rel_path from assets a join libraries l on l.number = a.library and l.deleted_at is null
where a.id = any (:ids::bigint[]);
