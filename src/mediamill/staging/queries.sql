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
