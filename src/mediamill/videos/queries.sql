-- Videos. The state of a video is written only by the hooks of its job, in the job's own transaction; the first line of each
-- hook locks the row of the video, so that deleting it and publishing it come one after the other.

-- name: add_video
insert into videos (id, slug, title, description, category, source_name, source_bytes, mime_type)
values (:id, :slug, :title, :description, :category, :source_name, :source_bytes, :mime_type)
on conflict do nothing returning id;

-- name: tell!
insert into events (topic, subject, data)
select 'video.changed', id::text, jsonb_build_object('id', id, 'slug', slug, 'state', state,
    'captions_state', captions_state, 'deleted', deleted_at is not null)
from videos where id = :id;

-- name: tell_gone!
insert into events (topic, subject, data)
values ('video.changed', :id::text, jsonb_build_object('id', :id::text, 'state', 'gone'));

-- name: lock_video
select * from videos where id = :id for update;

-- name: find_id
select id from videos where id = :id::uuid or slug = :slug;

-- name: show_video
select v.*, j.id as job_id, j.state as job_state, j.priority, j.step, j.percent, j.attempts, j.max_attempts, j.worker_name,
    j.started_at, j.error as job_error, d.id as dead_job_id, r.payload -> 'retranscode' as retranscode
from videos v
left join lateral (select * from jobs where subject_id = v.id::text and kind = 'video.transcode'
    order by id desc limit 1) j on true
left join lateral (select id from dead_jobs where subject_id = v.id::text and kind = 'video.transcode'
    order by id desc limit 1) d on true
left join lateral (select payload from jobs where id = j.id) r on true
where v.id = :id;

-- name: list_videos
-- Where the page begins is one row comparison, so that the index finds it; one who pages on from a video that is gone
-- has come to the end. Words are looked up apart, so that their index is used by a plan that does not know yet whether
-- there are any.
select v.id, v.slug, v.title, v.category, v.state, v.error, v.source_bytes, v.duration_seconds, v.width, v.height,
    v.output, v.output_bytes, v.captions_state, v.created_at, v.ready_at, v.deleted_at, j.id as job_id,
    j.state as job_state, j.priority, j.step, j.percent, j.worker_name
from videos v
left join lateral (select * from jobs where subject_id = v.id::text and kind = 'video.transcode'
    order by id desc limit 1) j on true
where (v.created_at, v.id) < (case when :before::uuid is null then 'infinity'
        else coalesce((select b.created_at from videos b where b.id = :before), '-infinity') end,
        coalesce(:before, 'ffffffff-ffff-ffff-ffff-ffffffffffff'))
    and (v.deleted_at is not null) = :trash
    and (:state::text is null or v.state = :state)
    and (:category::text is null or v.category = :category)
    and (:words::text is null or v.id in (select w.id from videos w
        where to_tsvector('simple', w.title || ' ' || w.description || ' ' || w.category || ' '
            || coalesce(w.transcript ->> 'text', '')) @@ websearch_to_tsquery('simple', :words)))
order by v.created_at desc, v.id desc limit :amount;

-- name: list_categories
select category, count(*) as videos from videos where deleted_at is null and category <> '' group by category order by category;

-- name: list_qualities
-- Those of the stream that plays, and those that a job is making (`shown`: which of the two).
select q.*, q.job_id is not distinct from coalesce(v.output, q.job_id) as shown
from video_qualities q join videos v on v.id = q.video_id where q.video_id = any (:ids::uuid[]);

-- name: edit_video
update videos set title = coalesce(:title, title), description = coalesce(:description, description),
    category = coalesce(:category, category), slug = coalesce(:slug, slug), updated_at = now()
where id = :id returning id;

-- name: move!
update videos set state = :state, error = :error, updated_at = now() where id = :id;

-- name: publish!
update videos set state = 'ready', error = null, duration_seconds = :duration_seconds, width = :width, height = :height,
    frame_rate = :frame_rate, hdr = :hdr, has_audio = :has_audio, warnings = :warnings::jsonb, output = :output,
    output_bytes = :output_bytes, captions_state = :captions_state, updated_at = now(), ready_at = now()
where id = :id;

-- name: keep_captions!
update videos set captions = :captions, transcript = :transcript::jsonb, captions_state = :state, captions_error = :error,
    updated_at = now()
where id = :id;

-- name: note_captions!
-- Captions that are there stay until others take their place.
update videos set captions_state = case when captions is null then :state else captions_state end, captions_error = :error,
    updated_at = now()
where id = :id;

-- name: note_quality!
-- Whoever completes a quality has made it, and stays its maker when a later attempt finds it done.
insert into video_qualities as q (video_id, job_id, quality, state, segments_total, segments_done, percent, error, started_at,
    ended_at, worker_id, worker_name)
select :video_id, :job_id, :quality, :state, :segments_total::integer, coalesce(:segments_done::integer, 0),
    coalesce(:percent::float8, 0), :error,
    case when :state in ('in_progress', 'completed', 'failed') then now() end,
    case when :state in ('completed', 'failed', 'skipped') then now() end, j.worker_id, j.worker_name
from jobs j where j.id = :job_id
on conflict (video_id, job_id, quality) do update
set state = excluded.state, segments_total = coalesce(excluded.segments_total, q.segments_total),
    segments_done = greatest(excluded.segments_done, 0), percent = excluded.percent, error = excluded.error,
    started_at = coalesce(q.started_at, excluded.started_at),
    ended_at = case when excluded.ended_at is null then null else coalesce(q.ended_at, excluded.ended_at) end,
    worker_id = case when q.state = 'completed' then q.worker_id else excluded.worker_id end,
    worker_name = case when q.state = 'completed' then q.worker_name else excluded.worker_name end;

-- name: settle_quality!
insert into video_qualities as q (video_id, job_id, quality, state, width, height, segments_total, segments_done, percent,
    bytes, bitrate, codecs, error, started_at, ended_at, worker_id, worker_name)
select :video_id, :job_id, :quality, :state, :width::integer, :height::integer, :segments::integer,
    coalesce(:segments::integer, 0), case when :state = 'completed' then 100 else 0 end, :bytes::bigint, :bitrate::bigint,
    :codecs, :error, null, now(), j.worker_id, j.worker_name
from jobs j where j.id = :job_id
on conflict (video_id, job_id, quality) do update
set state = excluded.state, width = excluded.width, height = excluded.height, segments_total = excluded.segments_total,
    segments_done = excluded.segments_done, percent = excluded.percent, bytes = excluded.bytes, bitrate = excluded.bitrate,
    codecs = excluded.codecs, error = excluded.error, ended_at = coalesce(q.ended_at, now()),
    worker_id = case when q.state = 'completed' then q.worker_id else excluded.worker_id end,
    worker_name = case when q.state = 'completed' then q.worker_name else excluded.worker_name end;

-- name: adopt_qualities!
-- Qualities of the stream that plays go on into the next one, with their maker.
insert into video_qualities (video_id, job_id, quality, state, width, height, segments_total, segments_done, percent, bytes,
    bitrate, codecs, started_at, ended_at, error, worker_id, worker_name)
select video_id, :job_id, quality, state, width, height, segments_total, segments_done, percent, bytes,
    bitrate, codecs, started_at, ended_at, error, worker_id, worker_name
from video_qualities
where video_id = :video_id and job_id = :output and state = 'completed' and quality <> all (:qualities::text[])
on conflict do nothing;

-- name: drop_qualities!
-- Of all jobs but these.
delete from video_qualities where video_id = :video_id and job_id <> all (:job_ids::bigint[]);

-- name: drop_unmade_qualities!
delete from video_qualities where video_id = :video_id and job_id = :job_id and quality <> all (:made::text[]);

-- name: stop_qualities!
-- The job is over: what was in the middle of something is not any more.
update video_qualities set state = :state, ended_at = now(), error = :error
where video_id = :video_id and job_id = :job_id and state in ('pending', 'in_progress');

-- name: list_files
select name, bytes, sha256, facts from video_files where video_id = :video_id and output = :output order by name;

-- name: source_of
select source_name, mime_type from videos where id = :id and deleted_at is null;

-- name: transcript_of
select captions, transcript, captions_state, captions_error, deleted_at from videos where id = :id;

-- name: find_file
-- Of the stream that plays, or of the one before it, as long as it is kept for those who are watching it.
select f.bytes, f.sha256 from video_files f join videos v on v.id = f.video_id
where f.video_id = :video_id and f.output = :output and f.name = :name and v.deleted_at is null;

-- name: drop_files!
delete from video_files where video_id = :video_id and output = :output
    and (:qualities::text[] is null or split_part(split_part(name, '.', 1), '-', 1) = any (:qualities));

-- name: put_files!
insert into video_files (video_id, output, name, bytes, sha256, facts)
select :video_id, :job_id, f.name, f.bytes, f.sha256, f.facts from kept_files f where f.job_id = :job_id;

-- name: open_jobs
-- What is under way for a video: jobs that are not at their end.
select id, kind, state, payload from jobs where subject_id = :video_id::text and kind in ('video.transcode', 'video.transcribe');

-- name: priority_of
select priority from jobs where id = :id;

-- name: dead_jobs
select id, kind from dead_jobs where subject_id = :video_id::text and kind in ('video.transcode', 'video.transcribe')
order by id desc;

-- name: set_deleted
update videos set deleted_at = case when :deleted then now() end, updated_at = now()
where id = :id and (deleted_at is not null) <> :deleted returning id;

-- name: erase_video
delete from videos where id = :id and deleted_at is not null returning id;

-- name: old_trash
select id from videos where deleted_at < now() - make_interval(days => :keep_days) order by deleted_at limit :batch;

-- name: known_videos
-- Of these, those that are videos, and those whose upload is about to become one: it has its folder before its row.
select id from videos where id = any (:ids::uuid[])
union select id from uploads where id = any (:ids);

-- name: unshown_outputs
-- Of these streams, those that no video shows and whose job is at its end, in one look: a job that ends meanwhile is
-- seen as it was, or its stream is the one that is shown. A dead job may be tried again, and goes on from its stream. One
-- that played until a short time ago stays: somebody is watching it.
select v.id, o.output from unnest(:video_ids::uuid[], :outputs::bigint[]) as o (id, output)
join videos v on v.id = o.id
where v.output is distinct from o.output
    and not (v.ready_at > now() - make_interval(secs => :watched_seconds)
        and exists (select from video_files f where f.video_id = v.id and f.output = o.output))
    and not exists (select from jobs j where j.id = o.output)
    and not exists (select from dead_jobs d where d.id = o.output);

-- name: findable_video
-- One that can be watched. What failed to be made anew can still be found as it was.
select slug, title, description, category, transcript, created_at from videos
where id = :id and ready_at is not null and deleted_at is null;

-- name: findable_after
-- The next so many that can be watched, by id.
select id, title from videos where id > :after and ready_at is not null and deleted_at is null order by id limit :batch;

-- name: findable_among
select id from videos where id = any (:ids::uuid[]) and ready_at is not null and deleted_at is null;

-- name: titles
select id, title from videos where id = any (:ids::uuid[]) and deleted_at is null;
