-- A library with a tagged photo, a video with a scene and a frame, a file that has vanished; what can be found; a vector.
insert into ai_models (name, task, engine, dimensions) values ('old-tagger@1', 'vision', 'local', null),
    ('old-text@1', 'text', 'local', 3);
insert into libraries (slug, name, absolute_path, scanned_at) values ('old-photos', 'Old photos', '/gone/photos', now());
insert into library_folders (library, rel_path) select number, '' from libraries where slug = 'old-photos';
insert into assets (library, folder, rel_path, type, mtime_ns, size, inode, shown_at, status, tags_model_id, width, height,
    output, description, tags, facts, search_vector, vanished_at, duration_seconds)
select l.number, f.id, a.name, a.type, 1, 10, 1, now(), status, 1, 640, 480, output, said,
    '[{"label": "cat", "score": 0.9}]', '{}', findable(said, '[{"label": "cat"}]', a.name, null), gone, seconds
from libraries l join library_folders f on f.library = l.number, (values
    ('cat.jpg', 'image', 'completed', '1-1', 'a sleeping zebra', null::timestamptz, null::float8),
    ('film.mp4', 'video', 'completed', '2-1', 'a film', null, 20),
    ('new.jpg', 'image', 'pending', null, null, null, null),
    ('gone.jpg', 'image', 'completed', '4-1', 'gone', now(), null)) a (name, type, status, output, said, gone, seconds)
where l.slug = 'old-photos';
insert into video_scenes (asset_id, library, number, start_ts, end_ts, sharpness_score, keep_reason, rep_frame_path,
    description, tags_model_id)
select id, library, 0, 0, 20, 5, 'phash', 'scene-0.webp', 'a giraffe runs', 1 from assets where rel_path = 'film.mp4';
insert into search_entries (source, subject, title, body, search_vector)
values ('video', '00000000-0000-4000-8000-000000000601', 'Old film', 'lift off', to_tsvector('english', 'old film lift off'));
insert into search_vectors (model_id, library, asset_id, v)
select 2, library, id, '[1,0,0]' from assets where rel_path = 'cat.jpg';
