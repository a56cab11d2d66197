-- The engine: a job in every state, one that has ended well, one that is dead, a held owner, a worker with its key.
insert into workers (name, type, state, hostname, process, pools)
values ('old worker', 'local', 'busy', 'a machine that is gone', 'no boot:1:1', '{default}'),
    ('old remote', 'remote', 'idle', 'elsewhere', null, '{default}');
insert into worker_keys (prefix, hash, worker_id) values ('abcdefgh', '\x01', 2);
insert into jobs (kind, pool, owner, subject_id, priority, state, payload, max_attempts, attempts, token, worker_id,
    worker_name, claimed_at, started_at, lease_expires_at, run_after, result)
values
    ('scripted.run', 'scripted', 'old', 'queued-1', 1, 'queued', '{"do": "nothing"}', 3, 0, 0, null, null, null, null,
        null, now(), null),
    ('scripted.run', 'scripted', 'old', 'running-1', 1, 'running', '{"do": "nothing"}', 3, 1, 7, 1, 'old worker',
        now() - interval '1 hour', now() - interval '1 hour', now() + interval '1 hour', now(), null),
    ('scripted.run', 'scripted', 'old', 'scheduled-1', 2, 'scheduled', '{"do": "nothing"}', 3, 1, 1, null, null, null,
        now(), null, now() + interval '1 day', null),
    ('scripted.run', 'scripted', 'held', 'held-1', 1, 'held', '{"do": "nothing"}', 3, 0, 0, null, null, null, null, null,
        now(), null);
insert into job_keys (kind, key, job_id) values ('scripted.run', 'a key', 1);
insert into held_owners (owner) values ('held');
insert into finished_jobs (id, kind, pool, owner, priority, attempts, created_at, result)
values (900001, 'scripted.run', 'scripted', 'old', 1, 1, now(), '{"content": "done"}');
insert into dead_jobs (id, kind, pool, owner, subject_id, priority, payload, attempts, max_attempts, token, created_at,
    reason, error, traceback)
values (900002, 'scripted.run', 'scripted', 'old', 'dead-1', 1, '{"do": "nothing"}', 3, 3, 3, now(), 'permanent',
    'empty document', 'Traceback …');
insert into alerts (type, data, sent_at) values ('job_max_retries_exceeded', '{}', now());
insert into counters (name, value) values ('failures', 1);
update pools set concurrency = 7 where name = 'scripted';
