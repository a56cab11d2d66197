-- Leafing through jobs of all states, newest first, with filters that no index knows. Every index would be paid for by
-- every claim, so each look is bounded instead: the newest `span` rows of each table below an id, and no more.

-- name: look_at_jobs
-- One look: what fits among those rows, from `least` on, which end_of_look told before: rows that come or go meanwhile
-- change nothing. The scans run down the primary keys and end at `amount` finds; their limit only keeps them on the keys,
-- and is twice the span for what comes meanwhile.
select * from (
    (select * from (
        select id, kind, pool, owner, subject_id, state, priority, attempts, max_attempts, worker_id, worker_name,
            created_at, started_at, run_after, lease_expires_at, step, percent, error, null::timestamptz as ended_at
        from jobs where :hot::boolean and id < :before and id >= :least order by id desc limit 2 * :span) hot
    where (:state::text is null or state = :state) and (:kind::text is null or kind = :kind)
        and (:pool::text is null or pool = :pool) and (:owner::text is null or owner = :owner)
    limit :amount)
    union all
    (select * from (
        select id, kind, pool, owner, subject_id, 'finished', priority, attempts, null::integer, worker_id, worker_name,
            created_at, started_at, null::timestamptz, null::timestamptz, null::text, 100::real, null::text, finished_at
        from finished_jobs where :finished::boolean and id < :before and id >= :least order by id desc limit 2 * :span) finished
    where (:kind::text is null or kind = :kind) and (:pool::text is null or pool = :pool)
        and (:owner::text is null or owner = :owner)
    limit :amount)
    union all
    (select * from (
        select id, kind, pool, owner, subject_id, 'dead', priority, attempts, max_attempts, worker_id, worker_name,
            created_at, started_at, null::timestamptz, null::timestamptz, step, percent, error, failed_at
        from dead_jobs where :dead::boolean and id < :before and id >= :least order by id desc limit 2 * :span) dead
    where (:kind::text is null or kind = :kind) and (:pool::text is null or pool = :pool)
        and (:owner::text is null or owner = :owner)
    limit :amount)
) every order by id desc limit :amount;

-- name: end_of_look
-- From which id on a look sees so many rows of a table at most; 0 if there is nothing below.
select greatest(
    (select id from jobs where :hot::boolean and id < :before order by id desc offset :span - 1 limit 1),
    (select id from finished_jobs where :finished::boolean and id < :before order by id desc offset :span - 1 limit 1),
    (select id from dead_jobs where :dead::boolean and id < :before order by id desc offset :span - 1 limit 1),
    0);

-- name: look_at_marked
-- The states that have an index of their own are few in ordinary times, and old: they are found from that index.
select id, kind, pool, owner, subject_id, state, priority, attempts, max_attempts, worker_id, worker_name,
    created_at, started_at, run_after, lease_expires_at, step, percent, error, null::timestamptz as ended_at
from (
    select * from jobs where state = 'running' and :state = 'running'
    union all select * from jobs where state = 'scheduled' and :state = 'scheduled'
    union all select * from jobs where state = 'held' and :state = 'held'
    union all select * from jobs where state = 'completed' and :state = 'completed'
) marked
where id < :before and (:kind::text is null or kind = :kind) and (:pool::text is null or pool = :pool)
    and (:owner::text is null or owner = :owner)
order by id desc limit :amount;

-- name: look_at_dead
-- As look_at_jobs, with what is told of the dead only.
select * from (
    select id, kind, pool, owner, subject_id, attempts, max_attempts, reason, error, worker_name, created_at, failed_at
    from dead_jobs where id < :before and id >= :least order by id desc limit 2 * :span) looked
where (:kind::text is null or kind = :kind) and (:pool::text is null or pool = :pool)
    and (:owner::text is null or owner = :owner) and (:reason::text is null or reason = :reason)
order by id desc limit :amount;

-- name: payloads_of
select id, payload::text from dead_jobs where id = any (:ids::bigint[])
union all select id, payload::text from jobs where id = any (:ids);

-- name: tracebacks_of
select id, traceback from dead_jobs where id = any (:ids::bigint[]) and traceback is not null;

-- name: sum_up_dead
-- How many by reason and kind, of the newest `most`.
select reason, kind, count(*) as jobs from (select reason, kind from dead_jobs order by id desc limit :most) newest
group by reason, kind order by jobs desc, reason, kind;

-- name: events_of_job
-- Among the latest `span`, those of one job.
select id, topic, subject, data, created_at from (
    select * from events order by id desc limit :span) latest
where data ->> 'id' = :job_id::bigint::text and topic like 'job.%'
order by id desc limit :amount;

-- name: latest_events
-- Among the latest `span`, all but how far each job is.
select id, topic, subject, data, created_at from (
    select * from events order by id desc limit :span) latest
where topic <> 'job.progress' order by id desc limit :amount;
