-- Libraries and their assets. The state of an asset moves with its job, in the job's transaction, and only if the asset still
-- waits for that job: a file that changed meanwhile waits for another one.

-- name: add_library
insert into libraries (slug, name, absolute_path, rescan_seconds, ignore_previews, sampling_limit, sampling_policy)
values (:slug, :name, :absolute_path, :rescan_seconds, :ignore_previews, :sampling_limit, :sampling_policy::jsonb)
on conflict do nothing returning number;

-- name: tell!
insert into events (topic, subject, data)
select 'library.changed', slug, jsonb_build_object('slug', slug, 'scan_status', scan_status, 'scan_counts', scan_counts,
    'is_active', is_active, 'deleted', deleted_at is not null)
from libraries where number = :number;

-- name: find_library
select l.*, m.name as tagger from libraries l left join ai_models m on m.id = l.target_tagger_id where l.slug = :slug;

-- name: lock_library
select * from libraries where slug = :slug for update;

-- name: find_by_path
select slug, deleted_at from libraries where absolute_path = :absolute_path and slug <> :slug and erasing_at is null limit 1;

-- name: list_libraries
select l.*, m.name as tagger from libraries l left join ai_models m on m.id = l.target_tagger_id
where (l.deleted_at is not null) = :trash order by l.name, l.slug;

-- name: edit_library!
update libraries set name = coalesce(:name, name), absolute_path = coalesce(:absolute_path, absolute_path),
    rescan_seconds = case when :rescan_seconds::int is null then rescan_seconds else nullif(:rescan_seconds, 0) end,
    ignore_previews = coalesce(:ignore_previews, ignore_previews),
    sampling_limit = coalesce(:sampling_limit, sampling_limit),
    sampling_policy = coalesce(:sampling_policy::jsonb, sampling_policy)
where number = :number;

-- name: set_active!
update libraries set is_active = :active where number = :number;

-- name: set_deleted!
update libraries set deleted_at = case when :deleted then now() end where number = :number;

-- name: feedable
-- Those that something could be fed for: active, not in the trash.
select number, absolute_path from libraries where deleted_at is null and is_active order by number;

-- name: hold_feeding
-- One at a time feeds a library, so that no more is at hand than should be; not one that was just paused.
select number, absolute_path, ignore_previews, sampling_limit, sampling_policy, target_tagger_id from libraries
where number = :number and deleted_at is null and is_active
    and pg_try_advisory_xact_lock(hashtext('library feed'), :number);

-- name: at_hand
-- How many assets of each have a job, by what the job does.
select library, case when status = 'analyzing' then 'tag' else type end as work, count(*) as jobs
from assets where job_id is not null and (:library::int is null or library = :library) group by 1, 2;

-- name: take_waiting
-- The newest first, by the index of lists; the few that have a job are passed by. Two that feed at once take different ones.
select id, rel_path, output, type, retry_count from assets
where library = :library and type = :type and status = :status and job_id is null and vanished_at is null
order by shown_at desc, id desc limit :amount for update skip locked;

-- name: note_fed!
update assets a set job_id = f.job_id, status = :status
from unnest(:ids::bigint[], :jobs::bigint[]) as f (id, job_id) where a.id = f.id;

-- name: drop_scenes!
delete from video_scenes where asset_id = any (:ids::bigint[]);

-- name: drop_frames!
delete from video_frames where asset_id = any (:ids::bigint[]);

-- name: find_lost_jobs
-- Jobs that are no more, though their assets wait for them: somebody purged them. Read by one snapshot, in which a job
-- and the asset that names it come together: one that was fed just now is not among them.
select a.id, a.job_id from assets a
where a.job_id is not null and not exists (select from jobs j where j.id = a.job_id) limit :amount;

-- name: moved_jobs
-- Jobs that wait, and would look for their file where the library is no more: its path was changed. What is away they would
-- wait for, and nothing else would be fed.
select a.id, a.job_id from assets a join libraries l on l.number = a.library join jobs j on j.id = a.job_id
where a.job_id is not null and j.kind in ('library.image', 'library.video') and j.state in ('queued', 'scheduled', 'held')
    and j.payload #>> '{file,root}' <> l.absolute_path limit :amount;

-- name: forget_jobs
-- Their assets wait again, if they still wait for just those jobs.
update assets a set job_id = null,
    status = case a.status when 'extracting' then 'pending' when 'analyzing' then 'proxied' else a.status end
from unnest(:ids::bigint[], :jobs::bigint[]) as f (id, job_id) where a.id = f.id and a.job_id = f.job_id
returning a.id;

-- name: keep_images
-- Proxied; `digest` finds the same picture under another name. One that came out as before keeps what was seen in it.
update assets a set status = 'proxied', job_id = null, retry_count = 0, error = null, error_code = null,
    text_model_id = case when a.proxy_digest = decode(f.digest, 'hex') then a.text_model_id end,
    look_model_id = case when a.proxy_digest = decode(f.digest, 'hex') then a.look_model_id end,
    output = f.output, width = f.width, height = f.height, proxy_digest = decode(f.digest, 'hex'),
    facts = f.facts::jsonb || jsonb_strip_nulls(
        jsonb_build_object('text', a.facts -> 'text', 'models', a.facts -> 'models')),
    shown_at = coalesce(f.taken_at, to_timestamp(a.mtime_ns / 1e9) at time zone 'UTC'),
    search_vector = findable(a.description, a.tags, a.rel_path, a.facts ->> 'text')
from unnest(:ids::bigint[], :jobs::bigint[], :outputs::text[], :widths::int[], :heights::int[], :facts::text[],
    :digests::text[], :taken::timestamp[]) as f (id, job_id, output, width, height, facts, digest, taken_at)
where a.id = f.id and a.job_id = f.job_id returning a.id;

-- name: note_retries!
-- Another attempt will be made; that what it needs is not there now is nobody's fault.
update assets a set error = f.error, retry_count = a.retry_count + f.counted
from unnest(:ids::bigint[], :jobs::bigint[], :errors::text[], :counted::int[]) as f (id, job_id, error, counted)
where a.id = f.id and a.job_id = f.job_id;

-- name: take_back_jobs
-- An asset that failed, or waits without a job, gets its dead job again. One that is done, has another job, is gone, or has
-- other previews than the job would look at has moved on.
update assets a set job_id = f.job_id, status = f.status, retry_count = 0, error = null, error_code = null
from unnest(:ids::bigint[], :jobs::bigint[], :statuses::text[], :types::text[], :outputs::text[])
    as f (id, job_id, status, type, output), libraries l
where a.id = f.id and l.number = a.library and l.deleted_at is null and a.job_id is null and a.vanished_at is null
    and (a.status in ('failed', 'poisoned') or a.status = case f.status when 'analyzing' then 'proxied' else 'pending' end)
    and (f.type is null or a.type = f.type) and (f.output is null or a.output = f.output)
returning a.id, a.job_id, a.status;

-- name: warn_library!
-- Something that its jobs need is not there; they wait, and say so again every minute. A library that somebody holds is told
-- by the next one: whoever holds it may wait for an asset that is held here.
update libraries set warning = :warning, warned_at = now() where number = any (array(
    select number from libraries where number = :number
        and (warned_at is null or warned_at < now() - interval '20 seconds') for update skip locked));

-- name: give_up!
-- Too many failures that counted poison an asset, whatever else would become of it.
update assets a set job_id = null, error = f.error, error_code = f.code, retry_count = a.retry_count + f.counted,
    status = case when a.retry_count + f.counted > :most then 'poisoned' else f.status end
from unnest(:ids::bigint[], :jobs::bigint[], :errors::text[], :codes::text[], :statuses::text[], :counted::int[])
    as f (id, job_id, error, code, status, counted)
where a.id = f.id and a.job_id = f.job_id;

-- name: lock_asset
select id, library, rel_path, status, job_id, output, mtime_ns, size from assets where id = :id for update;

-- name: drop_asset!
-- It is no media at all. The folder keeps its digest, so no scan finds the file again before something changes there.
delete from assets where id = :id;

-- name: put_scene!
-- An earlier attempt may have found another one of that number: by the rules of another version, or in other bytes.
with corrected as (
    update video_scenes set start_ts = :start_ts, end_ts = :end_ts, sharpness_score = :sharpness::real,
        keep_reason = :keep_reason, rep_frame_path = :rep_frame_path
    where asset_id = :asset_id and number = :number
        and (start_ts, end_ts, sharpness_score, keep_reason, rep_frame_path)
            is distinct from (:start_ts, :end_ts, :sharpness::real, :keep_reason, :rep_frame_path)
)
insert into video_scenes (asset_id, library, number, start_ts, end_ts, sharpness_score, keep_reason, rep_frame_path)
select id, library, :number, :start_ts, :end_ts, :sharpness, :keep_reason, :rep_frame_path from assets where id = :asset_id
    and not exists (select from video_scenes where asset_id = :asset_id and number = :number);

-- name: drop_scenes_after!
delete from video_scenes where asset_id = :asset_id and number > :last;

-- name: put_frame!
insert into video_frames (asset_id, library, timestamp_ms, is_keyframe, frame_path)
select id, library, :timestamp_ms, :is_keyframe, :frame_path from assets where id = :asset_id on conflict do nothing;

-- name: keep_video!
update assets set status = 'proxied', job_id = null, retry_count = 0, error = null, error_code = null, output = :output,
    text_model_id = null, look_model_id = null,
    width = :width, height = :height, duration_seconds = :duration_seconds, facts = :facts::jsonb,
    proxy_digest = decode(:digest, 'hex'), video_preview_path = :preview, segmentation_version = :segmentation_version,
    shown_at = coalesce(:taken_at, to_timestamp(mtime_ns / 1e9) at time zone 'UTC'),
    search_vector = findable(description, tags, rel_path, null)
where id = :id;
