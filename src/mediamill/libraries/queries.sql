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
select * from libraries where slug = :slug;

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
select number, slug, absolute_path, ignore_previews, sampling_limit, sampling_policy, target_tagger_id
from libraries where deleted_at is null and is_active;

-- name: at_hand
-- How many assets of each have a job, by what the job does.
select library, case when status = 'analyzing' then 'tag' else type end as work, count(*) as jobs
from assets where job_id is not null group by 1, 2;

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

-- name: forget_lost_jobs
-- Jobs that are neither waiting, running nor dead: somebody purged them. Their assets wait again.
update assets a set job_id = null,
    status = case a.status when 'extracting' then 'pending' when 'analyzing' then 'proxied' else a.status end
where a.job_id is not null and not exists (select from jobs j where j.id = a.job_id)
returning a.id;

-- name: keep_images
-- Proxied; `digest` finds the same picture under another name.
update assets a set status = 'proxied', job_id = null, retry_count = 0, error = null, error_code = null,
    output = f.output, width = f.width, height = f.height, facts = f.facts::jsonb, proxy_digest = decode(f.digest, 'hex'),
    shown_at = coalesce(f.taken_at, to_timestamp(a.mtime_ns / 1e9)),
    search_vector = findable(a.description, a.tags, a.rel_path, null)
from unnest(:ids::bigint[], :jobs::bigint[], :outputs::text[], :widths::int[], :heights::int[], :facts::text[],
    :digests::text[], :taken::timestamptz[]) as f (id, job_id, output, width, height, facts, digest, taken_at)
where a.id = f.id and a.job_id = f.job_id returning a.id;

-- name: note_retries!
-- Another attempt will be made; one whose folder is not there is nobody's fault.
update assets a set error = f.error, retry_count = a.retry_count + f.counted
from unnest(:ids::bigint[], :jobs::bigint[], :errors::text[], :counted::int[]) as f (id, job_id, error, counted)
where a.id = f.id and a.job_id = f.job_id;

-- name: give_up!
update assets a set job_id = null, error = f.error, status = f.status
from unnest(:ids::bigint[], :jobs::bigint[], :errors::text[], :statuses::text[]) as f (id, job_id, error, status)
where a.id = f.id and a.job_id = f.job_id;

-- name: lock_asset
select id, library, rel_path, status, job_id, output, mtime_ns, size from assets where id = :id for update;

-- name: put_scene!
insert into video_scenes (asset_id, number, start_ts, end_ts, sharpness_score, keep_reason, rep_frame_path)
select :asset_id, :number, :start_ts, :end_ts, :sharpness, :keep_reason, :rep_frame_path
where not exists (select from video_scenes where asset_id = :asset_id and number = :number);

-- name: put_active_state!
insert into video_active_state (asset_id, anchor_phash, scene_start_ts, current_best_pts, current_best_sharpness, state)
values (:asset_id, :anchor_phash, :scene_start_ts, :best_pts, :best_sharpness, :state::jsonb)
on conflict (asset_id) do update set anchor_phash = excluded.anchor_phash, scene_start_ts = excluded.scene_start_ts,
    current_best_pts = excluded.current_best_pts, current_best_sharpness = excluded.current_best_sharpness,
    state = excluded.state;

-- name: put_frame!
insert into video_frames (asset_id, timestamp_ms, is_keyframe, frame_path)
values (:asset_id, :timestamp_ms, :is_keyframe, :frame_path) on conflict do nothing;

-- name: keep_video!
update assets set status = 'proxied', job_id = null, retry_count = 0, error = null, error_code = null, output = :output,
    width = :width, height = :height, duration_seconds = :duration_seconds, facts = :facts::jsonb,
    proxy_digest = decode(:digest, 'hex'), video_preview_path = :preview, segmentation_version = :segmentation_version,
    shown_at = coalesce(:taken_at, to_timestamp(mtime_ns / 1e9)),
    search_vector = findable(description, tags, rel_path, null)
where id = :id;

-- name: find_tagger
select id, name, engine from ai_models where id = :id and task = 'vision';

-- name: moments_left
-- Scenes and frames that this tagger has not looked at, in the order of time, so many for each video.
select asset_id, "of", id, path from (
    select m.*, row_number() over (partition by asset_id order by at) as place from (
        select asset_id, 'scene' as "of", id, rep_frame_path as path, start_ts as at, tags_model_id from video_scenes
        where asset_id = any (:ids::bigint[])
        union all
        select asset_id, 'frame', id, frame_path, timestamp_ms / 1000.0, tags_model_id from video_frames
        where asset_id = any (:ids::bigint[])) m
    where tags_model_id is distinct from :tagger) ordered
where place <= :most;

-- name: lock_tagged
select id, library, type, job_id from assets where id = :id for update;

-- name: tag_asset
update assets set description = :description, tags = :tags::jsonb, tags_model_id = :tagger,
    search_vector = findable(:description, :tags::jsonb, rel_path, :words)
where id = :id and id = :asset_id returning id;

-- name: tag_scene
update video_scenes set description = :description, tags = :tags::jsonb, tags_model_id = :tagger,
    metadata = coalesce(metadata, '{}') || jsonb_build_object('text', :words::text),
    search_vector = findable(:description, :tags::jsonb, null, :words)
where id = :id and asset_id = :asset_id returning id;

-- name: tag_frame
update video_frames set description = :description, tags = :tags::jsonb, tags_model_id = :tagger,
    search_vector = findable(:description, :tags::jsonb, null, :words)
where id = :id and asset_id = :asset_id returning id;

-- name: sum_up_video!
-- A video is tagged with what is in its scenes and frames, each label with its best score.
with labels as (
    select tag ->> 'label' as label, max((tag ->> 'score')::float8) as score from (
        select tags from video_scenes where asset_id = :id and tags_model_id = :tagger
        union all select tags from video_frames where asset_id = :id and tags_model_id = :tagger) m,
        jsonb_array_elements(m.tags) tag
    group by 1 order by 2 desc nulls last limit 30
), summed as (
    select jsonb_agg(jsonb_build_object('label', label, 'score', score) order by score desc nulls last) as tags from labels
)
update assets a set tags = s.tags, search_vector = findable(a.description, s.tags, a.rel_path, null)
from summed s where a.id = :id and s.tags is not null;

-- name: finish_tagging!
update assets a set job_id = null, retry_count = 0, error = null,
    tags_model_id = case when more then a.tags_model_id else :tagger end,
    status = case when more then 'proxied' else 'completed' end
from (select exists (select from video_scenes where asset_id = :id and tags_model_id is distinct from :tagger)
    or exists (select from video_frames where asset_id = :id and tags_model_id is distinct from :tagger) as more) left_over
where a.id = :id;
