-- Media: a file that waits for its processor, a dead one with a notice; a pool that somebody has changed.
insert into jobs (kind, pool, owner, subject_id, mime_type, priority, state, payload, max_attempts)
values ('media.process', 'audio', 'old', 'media-1', 'audio/ogg', 1, 'queued', '{"file": {"path": "/gone/voice.ogg"}}', 2);
insert into dead_jobs (id, kind, pool, owner, subject_id, mime_type, priority, payload, attempts, max_attempts, token,
    created_at, reason, error, notice)
values (900003, 'media.process', 'image', 'old', 'media-2', 'image/png', 1, '{"file": {"path": "/gone/x.png"}}', 1, 2, 1,
    now(), 'permanent', 'not an image', '[Corrupted image media]');
update pools set timeout_seconds = 301 where name = 'audio';
