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
select slug, deleted_at from libraries where absolute_path = :absolute_path limit 1;

-- name: list_libraries
select l.*, m.name as tagger from libraries l left join ai_models m on m.id = l.target_tagger_id
where (l.deleted_at is not null) = :trash order by l.name, l.slug;

-- name: count_assets
-- A count of millions: asked for one library at a time, and not by every page.
select type, status, count(*) as assets, coalesce(sum(size), 0)::bigint as bytes, count(vanished_at) as vanished
from assets where library = :library group by type, status;

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
-- Two that feed at once take different ones.
select id, rel_path, output, type, retry_count from assets
where library = :library and type = :type and status = :status and job_id is null and vanished_at is null
    and status in ('pending', 'proxied')
order by id limit :amount for update skip locked;

-- name: note_fed!
update assets a set job_id = f.job_id, status = :status
from unnest(:ids::bigint[], :jobs::bigint[]) as f (id, job_id) where a.id = f.id;

-- name: drop_scenes!
delete from video_scenes where asset_id = any (:ids::bigint[]);

-- name: drop_frames!
delete from video_frames where asset_id = any (:ids::bigint[]);

-- name: drop_active_states!
delete from video_active_state where asset_id = any (:ids::bigint[]);

-- name: find_lost_jobs
-- Jobs that are no more, though their assets wait for them: somebody purged them. Read by one snapshot, in which a job
-- and the asset that names it come together: one that was fed just now is not among them.
select a.id, a.job_id from assets a
where a.job_id is not null and not exists (select from jobs j where j.id = a.job_id) limit :amount;

-- name: forget_jobs
-- Their assets wait again, if they still wait for just those jobs.
update assets a set job_id = null,
    status = case a.status when 'extracting' then 'pending' when 'analyzing' then 'proxied' else a.status end
from unnest(:ids::bigint[], :jobs::bigint[]) as f (id, job_id) where a.id = f.id and a.job_id = f.job_id
returning a.id;

-- name: keep_images
-- Proxied; `digest` finds the same picture under another name.
update assets a set status = 'proxied', job_id = null, retry_count = 0, error = null, error_code = null,
    output = f.output, width = f.width, height = f.height, proxy_digest = decode(f.digest, 'hex'),
    facts = f.facts::jsonb || jsonb_strip_nulls(
        jsonb_build_object('text', a.facts -> 'text', 'models', a.facts -> 'models')),
    shown_at = coalesce(f.taken_at, to_timestamp(a.mtime_ns / 1e9)),
    search_vector = findable(a.description, a.tags, a.rel_path, a.facts ->> 'text')
from unnest(:ids::bigint[], :jobs::bigint[], :outputs::text[], :widths::int[], :heights::int[], :facts::text[],
    :digests::text[], :taken::timestamptz[]) as f (id, job_id, output, width, height, facts, digest, taken_at)
where a.id = f.id and a.job_id = f.job_id returning a.id;

-- name: note_retries!
-- Another attempt will be made; one whose folder is not there is nobody's fault.
update assets a set error = f.error, retry_count = a.retry_count + f.counted
from unnest(:ids::bigint[], :jobs::bigint[], :errors::text[], :counted::int[]) as f (id, job_id, error, counted)
where a.id = f.id and a.job_id = f.job_id;

-- name: give_up!
-- Too many failures that counted poison an asset, whatever else would become of it.
update assets a set job_id = null, error = f.error, retry_count = a.retry_count + f.counted,
    status = case when a.retry_count + f.counted > :most then 'poisoned' else f.status end
from unnest(:ids::bigint[], :jobs::bigint[], :errors::text[], :statuses::text[], :counted::int[])
    as f (id, job_id, error, status, counted)
where a.id = f.id and a.job_id = f.job_id;

-- name: lock_asset
select id, library, rel_path, status, job_id, output, mtime_ns, size from assets where id = :id for update;

-- name: put_scene!
insert into video_scenes (asset_id, library, number, start_ts, end_ts, sharpness_score, keep_reason, rep_frame_path)
select id, library, :number, :start_ts, :end_ts, :sharpness, :keep_reason, :rep_frame_path from assets where id = :asset_id
    and not exists (select from video_scenes where asset_id = :asset_id and number = :number);

-- name: put_active_state!
insert into video_active_state (asset_id, anchor_phash, scene_start_ts, current_best_pts, current_best_sharpness, state)
values (:asset_id, :anchor_phash, :scene_start_ts, :best_pts, :best_sharpness, :state::jsonb)
on conflict (asset_id) do update set anchor_phash = excluded.anchor_phash, scene_start_ts = excluded.scene_start_ts,
    current_best_pts = excluded.current_best_pts, current_best_sharpness = excluded.current_best_sharpness,
    state = excluded.state;

-- name: put_frame!
insert into video_frames (asset_id, library, timestamp_ms, is_keyframe, frame_path)
select id, library, :timestamp_ms, :is_keyframe, :frame_path from assets where id = :asset_id on conflict do nothing;

-- name: keep_video!
update assets set status = 'proxied', job_id = null, retry_count = 0, error = null, error_code = null, output = :output,
    width = :width, height = :height, duration_seconds = :duration_seconds, facts = :facts::jsonb,
    proxy_digest = decode(:digest, 'hex'), video_preview_path = :preview, segmentation_version = :segmentation_version,
    shown_at = coalesce(:taken_at, to_timestamp(mtime_ns / 1e9)),
    search_vector = findable(description, tags, rel_path, null)
where id = :id;

-- Assets, looked at.

-- name: list_older
-- A page from a place on, newest first. Each type and status is a stretch of the index of its own; so few of each are
-- read, and the page is taken from those. Flat, however many assets there are.
select a.id, a.rel_path, a.type, a.status, a.shown_at, a.size, a.width, a.height, a.duration_seconds, a.output,
    a.video_preview_path, a.description, a.retry_count, a.error, a.tags_model_id, a.vanished_at
from (
    select m.id, m.shown_at from unnest(:types::text[]) as t (type), unnest(:statuses::text[]) as s (status),
        lateral (select id, shown_at from assets
            where library = :library and type = t.type and status = s.status and vanished_at is null
                and (shown_at, id) < (coalesce(:until, 'infinity'::timestamptz), :until_id::bigint)
                and (shown_at, id) > (coalesce(:since, '-infinity'::timestamptz), :since_id::bigint)
            order by shown_at desc, id desc limit :amount) m
    order by m.shown_at desc, m.id desc limit :amount) page
join assets a on a.id = page.id order by page.shown_at desc, page.id desc;

-- name: list_newer
-- The page before a place: the nearest ones, the nearest first.
select a.id, a.rel_path, a.type, a.status, a.shown_at, a.size, a.width, a.height, a.duration_seconds, a.output,
    a.video_preview_path, a.description, a.retry_count, a.error, a.tags_model_id, a.vanished_at
from (
    select m.id, m.shown_at from unnest(:types::text[]) as t (type), unnest(:statuses::text[]) as s (status),
        lateral (select id, shown_at from assets
            where library = :library and type = t.type and status = s.status and vanished_at is null
                and (shown_at, id) < (coalesce(:until, 'infinity'::timestamptz), :until_id::bigint)
                and (shown_at, id) > (coalesce(:since, '-infinity'::timestamptz), :since_id::bigint)
            order by shown_at, id limit :amount) m
    order by m.shown_at, m.id limit :amount) page
join assets a on a.id = page.id order by page.shown_at, page.id;

-- name: list_vanished
select id, rel_path, type, status, shown_at, size, width, height, duration_seconds, output, video_preview_path,
    description, retry_count, error, tags_model_id, vanished_at
from assets
where library = :library and vanished_at is not null and type = any (:types::text[]) and status = any (:statuses::text[])
    and (shown_at, id) < (coalesce(:until, 'infinity'::timestamptz), :until_id::bigint)
order by shown_at desc, id desc limit :amount;

-- name: list_by_path
-- So many of the next paths, and of them those that are asked for: what one page costs is bounded, so it may be short.
select * from (
    select id, rel_path, type, status, shown_at, size, width, height, duration_seconds, output, video_preview_path,
        description, retry_count, error, tags_model_id, vanished_at
    from assets where library = :library and rel_path > :path order by rel_path limit :walk) walked
where type = any (:types::text[]) and status = any (:statuses::text[])
    and (vanished_at is not null) = :vanished limit :amount;

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

-- name: retry_asset
-- What failed waits again, as if it had never been tried.
update assets set status = 'pending', retry_count = 0, error = null, error_code = null, job_id = null
where id = :id and status in ('failed', 'poisoned') returning id;

-- name: retry_failed
-- So many at a time; one that is being looked at is left for the next time.
update assets set status = 'pending', retry_count = 0, error = null, error_code = null, job_id = null
where id in (select id from assets where library = :library and type = any ('{image,video}'::text[])
    and status = any ('{failed,poisoned}'::text[]) and vanished_at is null limit :amount for update skip locked)
returning id;

-- name: count_by_month
-- Every asset of a library by month (UTC), from the index alone and without sorting: month by month, in each stretch.
-- Counted anew only now and then: see timeline.py.
with stretches as (
    select t.type, s.status from unnest(:types::text[]) as t (type), unnest(:statuses::text[]) as s (status)
), ends as (
    select min(e.first) as first, max(e.last) as last from stretches p, lateral (
        select (select shown_at from assets where library = :library and type = p.type and status = p.status
                and vanished_at is null order by shown_at, id limit 1) as first,
            (select shown_at from assets where library = :library and type = p.type and status = p.status
                and vanished_at is null order by shown_at desc, id desc limit 1) as last) e
)
select to_char(m.month, 'YYYY-MM') as month, sum(c.count)::bigint as count
from ends, generate_series(date_trunc('month', first at time zone 'UTC'), last at time zone 'UTC', '1 month') as m (month),
    stretches p, lateral (
        select count(*) as count from assets where library = :library and type = p.type and status = p.status
            and vanished_at is null and shown_at >= m.month at time zone 'UTC'
            and shown_at < (m.month + interval '1 month') at time zone 'UTC') c
group by m.month having sum(c.count) > 0 order by m.month desc;

-- name: read_timeline
select number, timeline, timeline_at, extract(epoch from now() - timeline_at)::float8 as age_seconds,
    coalesce(greatest(scanned_at, scan_beat_at) >= timeline_at, false) or scan_status <> 'idle'
    or exists (select from assets a where a.library = l.number and a.type = any ('{image,video}'::text[])
        and a.status = any ('{pending,extracting}'::text[]) and vanished_at is null) as moving
from libraries l where slug = :slug and deleted_at is null;

-- name: may_count
-- One at a time for each library: whoever else wants it takes what was counted before.
select pg_try_advisory_xact_lock(hashtext('library timeline'), :library);

-- name: keep_timeline!
update libraries set timeline = :timeline::jsonb, timeline_at = now() where number = :library;

-- Looking through a library by time (browse.py).

-- name: list_stretch
-- As list_older, beginning somewhere behind a place: what is left out is read from the index only.
select a.id, a.rel_path, a.type, a.status, a.shown_at, a.duration_seconds, a.output, a.video_preview_path
from (
    select m.id, m.shown_at from unnest(:types::text[]) as t (type), unnest(:statuses::text[]) as s (status),
        lateral (select id, shown_at from assets
            where library = :library and type = t.type and status = s.status and vanished_at is null
                and (shown_at, id) < (coalesce(:until, 'infinity'::timestamptz), :until_id::bigint)
                and (shown_at, id) > (coalesce(:since, '-infinity'::timestamptz), :since_id::bigint)
            order by shown_at desc, id desc limit :skip::bigint + :amount::bigint) m
    order by m.shown_at desc, m.id desc offset :skip::bigint limit :amount::bigint) page
join assets a on a.id = page.id order by page.shown_at desc, page.id desc;

-- name: count_some_months
select to_char(month, 'YYYY-MM') as month, count(*) as count
from (select date_trunc('month', shown_at, 'UTC') as month from assets
    where library = :library and vanished_at is null and type = any (:types::text[]) and status = any (:statuses::text[])) a
group by a.month order by a.month desc;

-- ---- erasing, collecting, other rules of scenes ----

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

-- name: erase_vectors!
delete from search_vectors where id = any (array(
    select id from search_vectors where asset_id = any (:ids::bigint[]) limit :batch));

-- name: erase_scenes!
delete from video_scenes where id = any (array(
    select id from video_scenes where asset_id = any (:ids::bigint[]) limit :batch));

-- name: erase_frames!
delete from video_frames where id = any (array(
    select id from video_frames where asset_id = any (:ids::bigint[]) limit :batch));

-- name: erase_assets
-- SKIP LOCKED: an asset whose job is being settled is left for the next round. What was added to the others since goes
-- with them, by their foreign keys.
delete from assets where id = any (array(
    select id from assets where id = any (:ids::bigint[]) and library = :library for update skip locked))
returning job_id;

-- name: erase_folders!
delete from library_folders where id = any (array(
    select id from library_folders where library = :library limit :batch));

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
-- Not of libraries in the trash, which could be restored. A file that was found again meanwhile is not gone.
delete from assets where id = any (array(
    select a.id from assets a join libraries l on l.number = a.library and l.deleted_at is null
    where a.vanished_at < now() - make_interval(days => :days) limit :batch for update of a skip locked))
    and vanished_at is not null
returning job_id;

-- name: invalidate_videos
-- Two ranges of an index instead of "is not".
update assets set status = 'pending', segmentation_version = null, retry_count = 0 where id = any (array(
    select a.id from assets a join libraries l on l.number = a.library and l.deleted_at is null
    where (a.segmentation_version < :version or a.segmentation_version > :version)
        and a.segmentation_version like 'scenes%' and a.type = 'video' and a.job_id is null and a.vanished_at is null
    limit :batch for update of a skip locked))
returning id;

-- Scans. Every write shows the token of its scan, under a lock on the library's row: of two scans the older one ends.

-- name: lock_scan
select *, coalesce(scan_beat_at > now() - :busy_seconds * interval '1 second', false) as is_alive,
    coalesce(scan_beat_at > now() - :resume_seconds * interval '1 second', false) as is_recent
from libraries where slug = :slug and deleted_at is null for update;

-- name: begin_scan
-- `scan_started_at` marks what this scan finds missing, so one that goes on keeps it.
update libraries set scan_status = 'scanning', scan_token = scan_token + 1, scan_beat_at = clock_timestamp(), scan_error = null,
    scan_at = case when :resume then scan_at end,
    scan_started_at = case when :resume then scan_started_at else clock_timestamp() end,
    scan_counts = :counts::jsonb
where number = :number returning scan_token, scan_started_at;

-- name: newest_asset
-- Assets with a greater id are new to this scan; 0 if the library has none, so that none need be looked for.
select case when exists (select from assets where library = :library) then (select max(id) from assets) else 0 end;

-- name: hold_scan
select number from libraries where number = :number and scan_token = :token for update;

-- name: beat!
update libraries set scan_beat_at = clock_timestamp() where number = :number and scan_token = :token;

-- name: note_scan!
update libraries set scan_at = :scan_at, scan_counts = :counts::jsonb, scan_beat_at = clock_timestamp() where number = :number;

-- name: finish_scan!
update libraries set scan_status = 'idle', scan_at = null, scan_beat_at = null, scan_error = null, scanned_at = now(),
    scan_counts = :counts::jsonb
where number = :number and scan_token = :token;

-- name: stop_scan!
update libraries set scan_status = 'idle', scan_at = null, scan_beat_at = null, scan_error = :error
where number = :number and scan_token = :token;

-- name: has_assets
select exists (select from assets where library = :library and vanished_at is null);

-- name: known_folders
-- In the order of a walk; the root is asked for by its path.
select id, rel_path, rel_path || '/' as key, digest, is_mount from library_folders
where library = :library and rel_path || '/' > :after and rel_path <> '' order by rel_path || '/' limit :amount;

-- name: folders_by_path
select id, rel_path, digest, is_mount from library_folders where library = :library and rel_path = any (:paths::text[]);

-- name: take_folder_ids
select nextval(pg_get_serial_sequence('library_folders', 'id')) from generate_series(1, :amount);

-- name: put_folders!
insert into library_folders (id, library, parent, rel_path, digest, is_mount) overriding system value
select f.id, :library, f.parent, f.rel_path, f.digest, f.is_mount
from unnest(:ids::bigint[], :parents::bigint[], :paths::text[], :digests::bytea[], :mounts::bool[])
    as f (id, parent, rel_path, digest, is_mount);

-- name: change_folders!
update library_folders o set digest = f.digest, is_mount = f.is_mount
from unnest(:ids::bigint[], :digests::bytea[], :mounts::bool[]) as f (id, digest, is_mount) where o.id = f.id;

-- name: drop_folders!
delete from library_folders where id = any (:ids::bigint[]);

-- name: assets_in_folders
select id, folder, rel_path, mtime_ns, size, inode, vanished_at is not null as vanished
from assets where folder = any (:folders::bigint[]);

-- name: assets_by_path
select id, folder, rel_path, mtime_ns, size, inode, vanished_at is not null as vanished
from assets where library = :library and rel_path = any (:paths::text[]);

-- name: change_assets!
-- Another content: all work on it begins anew, and what comes of a job that is under way is not taken.
update assets a set status = 'pending', job_id = null, retry_count = 0, error = null, error_code = null,
    vanished_at = null, folder = f.folder, mtime_ns = f.mtime_ns, size = f.size, inode = f.inode,
    shown_at = case when output is null then to_timestamp(0) + f.mtime_ns / 1000 * interval '1 microsecond' else shown_at end
from unnest(:ids::bigint[], :folders::bigint[], :mtimes::bigint[], :sizes::bigint[], :inodes::bigint[])
    as f (id, folder, mtime_ns, size, inode)
where a.id = f.id;

-- name: keep_assets!
-- The same content as before, found again. A job that failed meanwhile may have failed because it was away.
update assets a set folder = f.folder, inode = f.inode, vanished_at = null,
    retry_count = case when vanished_at is not null and status in ('failed', 'poisoned') then 0 else retry_count end,
    status = case when vanished_at is null or status not in ('failed', 'poisoned') then status
        when output is null then 'pending' else 'proxied' end
from unnest(:ids::bigint[], :folders::bigint[], :inodes::bigint[]) as f (id, folder, inode)
where a.id = f.id;

-- name: vanish_assets!
-- Jobs that would read them are let go; they wait, and are not fed, until they are back.
update assets set vanished_at = :at, job_id = case when status in ('pending', 'extracting') then null else job_id end,
    status = case status when 'extracting' then 'pending' else status end
where vanished_at is null and (id = any (:ids::bigint[]) or folder = any (:folders::bigint[]));

-- name: renamed_assets
-- What this scan found missing and what it found new, if they are one file by inode, size, time and type, and no other is.
with gone as (
    select inode, size, mtime_ns, type, min(id) as id from assets where library = :library and vanished_at = :at
    group by 1, 2, 3, 4 having count(*) = 1
), fresh as (
    select inode, size, mtime_ns, type, min(id) as id from assets
    where library = :library and id > :newest and vanished_at is null
    group by 1, 2, 3, 4 having count(*) = 1
)
select gone.id, fresh.id from gone join fresh using (inode, size, mtime_ns, type);

-- name: take_away_names
-- The rows under new names go; what they are called and where they are is for the rows that were there before.
delete from assets where id = any (:ids::bigint[]) returning id, folder, rel_path;

-- name: rename_assets!
-- Only the words of the name are others. A job that reads the file would look for it under its old name.
update assets a set folder = f.folder, rel_path = f.rel_path, vanished_at = null,
    job_id = case when status in ('pending', 'extracting') then null else job_id end,
    status = case status when 'extracting' then 'pending' else status end,
    search_vector = case when search_vector is not null then ts_filter(search_vector, '{a,b,d}')
        || ts_filter(findable(null, null, f.rel_path, null), '{c}') end
from unnest(:ids::bigint[], :folders::bigint[], :paths::text[]) as f (id, folder, rel_path)
where a.id = f.id;

-- name: request_scan
-- Idle, or left behind by a process that died; or requested by a job that is no more.
update libraries l set scan_status = case scan_status when 'scanning' then scan_status else 'scan_req' end, scan_error = null
where number = :number and not (scan_status = 'scanning'
        and coalesce(scan_beat_at > now() - :busy_seconds * interval '1 second', false))
    and not exists (select from jobs j where j.kind = 'library.scan' and j.subject_id = l.number::text)
returning number;

-- name: forget_scan_request!
update libraries set scan_status = 'idle', scan_error = :error where number = :number and scan_status = 'scan_req';

-- name: due_scans
select slug from libraries
where rescan_seconds is not null and is_active and deleted_at is null and scan_status <> 'scan_req'
    and coalesce(scan_beat_at < now() - :busy_seconds * interval '1 second', true)
    and coalesce(greatest(scanned_at, scan_started_at) < now() - rescan_seconds * interval '1 second', true)
order by scanned_at nulls first limit 100;
