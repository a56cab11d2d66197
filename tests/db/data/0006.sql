-- A video that can be played, with captions; one in the trash; one that is being made, with a kept segment; uploads.
insert into videos (id, slug, title, description, category, state, source_name, source_bytes, mime_type,
    duration_seconds, width, height, frame_rate, hdr, has_audio, output, output_bytes, captions, transcript,
    captions_state, ready_at)
values ('00000000-0000-4000-8000-000000000601', 'old-film', 'Old film', 'about rockets', 'films', 'ready', 'film.mp4', 100,
    'video/mp4', 12.5, 640, 360, 25, false, true, 77, 10, 'WEBVTT', '{"text": "lift off", "segments": []}', 'ready',
    now());
insert into video_qualities (video_id, quality, state, width, height, bytes)
values ('00000000-0000-4000-8000-000000000601', '360p', 'completed', 640, 360, 10);
insert into video_files (video_id, name, bytes, sha256)
values ('00000000-0000-4000-8000-000000000601', 'master.m3u8', 10, decode(repeat('ab', 32), 'hex'));
insert into videos (id, slug, title, source_name, source_bytes, mime_type, state, deleted_at)
values ('00000000-0000-4000-8000-000000000602', 'old-trash', 'Old trash', 't.mp4', 5, 'video/mp4', 'failed', now());
insert into videos (id, slug, title, source_name, source_bytes, mime_type, state)
values ('00000000-0000-4000-8000-000000000603', 'old-new', 'Old and new', 'n.mp4', 5, 'video/mp4', 'pending');
insert into jobs (kind, pool, owner, subject_id, priority, state, payload, max_attempts)
values ('video.transcode', 'transcode', 'video:00000000-0000-4000-8000-000000000603',
    '00000000-0000-4000-8000-000000000603', 1, 'queued', '{}', 3);
insert into kept_files (job_id, name, bytes, sha256)
select max(id), '360p-1.m4s', 4, decode(repeat('cd', 32), 'hex') from jobs;
insert into uploads (id, purpose, name, bytes, expires_at)
values ('00000000-0000-4000-8000-000000000604', 'video', 'half.mp4', 1000, now() + interval '1 day');
-- The same file three times: twice it became a video, once more it is on its way.
insert into uploads (id, purpose, name, bytes, fingerprint, expires_at, finished_at) values
    ('00000000-0000-4000-8000-000000000601', 'video', 'film.mp4', 100, 'film', now() + interval '1 day', now()),
    ('00000000-0000-4000-8000-000000000603', 'video', 'film.mp4', 100, 'film', now() + interval '1 day', now()),
    ('00000000-0000-4000-8000-000000000605', 'video', 'film.mp4', 100, 'film', now() + interval '1 day', null);
