-- Files that running jobs have kept. Whoever writes here holds the job's row, by its lease.

-- name: list_kept
select name, bytes, sha256, facts from kept_files where job_id = :job_id order by name;

-- name: put_kept!
insert into kept_files (job_id, name, bytes, sha256, facts) values (:job_id, :name, :bytes, :sha256, :facts::jsonb)
on conflict (job_id, name) do update set bytes = excluded.bytes, sha256 = excluded.sha256, facts = excluded.facts;

-- name: drop_kept!
delete from kept_files where job_id = any (:job_ids::bigint[]);

-- name: jobs_with_a_future
-- Of these jobs, those that run or wait, and those that are dead but could be tried again.
select id from jobs where id = any (:job_ids::bigint[])
union select id from dead_jobs where id = any (:job_ids);

-- name: hold_upload
-- For this transaction alone: whoever adds to an upload in the bucket finds its end as it is.
select 1 from uploads where id = :id for update;

-- name: list_running
-- Who else works on this database: servers, workers and the like, not single commands. An idle session of a pooler says
-- nothing: it is kept for minutes under the name of whoever used it last. Who lives listens on a session of its own.
select application_name as name, client_addr::text as address, count(*) as connections from pg_stat_activity
where datname = current_database() and (application_name like 'mediamill %' or application_name like 'worker %')
    and application_name not in ('mediamill command', 'mediamill check', 'mediamill watch', 'mediamill migrate')
    and not (:pooled::boolean and state = 'idle'
        and application_name in ('mediamill server', 'mediamill worker', 'mediamill mcp'))
group by 1, 2 order by 1, 2;

-- name: await_file!
-- Somebody else stages this file and hands it over later. Asked again: it is awaited from now on.
insert into awaited_files (guid) values (:guid) on conflict (guid) do update set awaited_at = now();

-- name: take_awaited!
delete from awaited_files where guid = :guid;

-- name: awaited_files
select guid from awaited_files where guid = any (:guids::text[]);

-- name: forget_awaited!
-- By then no chat network sends a message again.
delete from awaited_files where awaited_at < now() - interval '31 days';
