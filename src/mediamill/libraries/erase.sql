-- Erasing, collecting garbage, videos of other scene rules.

-- name: mark_erasing
-- Nothing of it can come back; a scan that still runs has lost its token, and writes nothing any more.
update libraries set erasing_at = now(), scan_token = scan_token + 1, scan_status = 'idle'
where deleted_at is not null and erasing_at is null and (:slug::text is null or slug = :slug)
returning number, slug;

-- name: list_erasing
-- Those that nobody has been at for so long.
select number, slug from libraries
where erasing_at <= now() - make_interval(secs => :quiet_seconds::float8) and (:slug::text is null or slug = :slug)
order by erasing_at, number;

-- name: be_gentle!
-- A batch that is lost with the machine is erased again; it need not wait for the disk, nor for others.
select set_config('synchronous_commit', 'off', true), set_config('lock_timeout', '5s', true);

-- name: lock_erasing
-- And others see that somebody is at it.
update libraries set erasing_at = now() where number = :number and erasing_at is not null returning number;

-- name: pick_assets
-- In the order of an index, and from where the last batch ended: rows that are just gone are not passed again.
select id, rel_path from assets where library = :library and rel_path > :after order by rel_path limit :batch;

-- name: pick_vectors
select id from search_vectors where asset_id = any (:assets::bigint[]) limit :batch;

-- name: erase_vectors!
delete from search_vectors where id = any (:ids::bigint[]);

-- name: pick_scenes
select id from video_scenes where asset_id = any (:assets::bigint[]) limit :batch;

-- name: erase_scenes!
delete from video_scenes where id = any (:ids::bigint[]);

-- name: pick_frames
select id from video_frames where asset_id = any (:assets::bigint[]) limit :batch;

-- name: erase_frames!
delete from video_frames where id = any (:ids::bigint[]);

-- name: erase_assets
-- SKIP LOCKED: an asset whose job is being settled is left for the next round. What was added to the others since goes
-- with them, by their foreign keys.
delete from assets where id = any (array(
    select id from assets where id = any (:ids::bigint[]) and library = :library for update skip locked))
returning job_id;

-- name: erase_folders!
delete from library_folders where id = any (array(
    select id from library_folders where library = :library order by rel_path limit :batch));

-- name: tell_erased!
insert into events (topic, subject, data)
select 'library.changed', slug, jsonb_build_object('slug', slug, 'gone', true) from libraries where number = :number;

-- name: erase_library!
delete from libraries where number = :number and erasing_at is not null
    and not exists (select from assets where library = :number);

-- name: unnamed_outputs
-- One snapshot of assets and jobs: an output is seen as its job's, or as the asset's.
select f.id, f.output
from unnest(:ids::bigint[], :jobs::bigint[], :outputs::text[]) as f (id, job_id, output)
where not exists (select from jobs j where j.id = f.job_id)
    and not exists (select from assets a where a.id = f.id and a.output = f.output);

-- name: forget_vanished
-- Not of libraries in the trash, which could be restored. A scan that has just found the file again has read its row, and
-- holds the library until it has written: what it holds is left for the next time.
delete from assets where id = any (array(
    select a.id from assets a join libraries l on l.number = a.library and l.deleted_at is null
    where a.vanished_at < now() - make_interval(days => :days)
    limit :batch for update of a skip locked for share of l skip locked))
returning job_id;

-- name: invalidate_videos
-- Two ranges of an index instead of "is not"; apart, so that a plan for any version goes by them, too.
with others as (
    select id, library from assets where segmentation_version < :version and segmentation_version like 'scenes%'
        and type = 'video' and job_id is null and vanished_at is null
    union all
    select id, library from assets where segmentation_version > :version and segmentation_version like 'scenes%'
        and type = 'video' and job_id is null and vanished_at is null
)
update assets set status = 'pending', segmentation_version = null, retry_count = 0 where id = any (array(
    select id from assets where id = any (array(
        select o.id from others o join libraries l on l.number = o.library and l.deleted_at is null limit :batch))
        and segmentation_version <> :version and job_id is null and vanished_at is null for update skip locked))
returning id;
