-- Looking at it: lists, counts, events. Reads only.

-- name: results_of
-- The jobs among these that can still be looked up, with their results as text.
select id, result::text from jobs where id = any (:ids::bigint[])
union all
select id, result::text from finished_jobs where id = any (:ids::bigint[])
union all
select id, result::text from dead_jobs where id = any (:ids::bigint[]);

-- name: count_by_state
select state, count(*) as jobs from jobs group by state;

-- name: count_by_pool
-- Depth of each pool, the empty ones too.
select p.name as pool, coalesce(j.queued, 0) as queued, coalesce(j.scheduled, 0) as scheduled,
    coalesce(j.running, 0) as running, coalesce(j.held, 0) as held, coalesce(j.completed, 0) as completed,
    j.oldest_at
from pools p
left join (
    select pool, count(*) filter (where state = 'queued') as queued,
        count(*) filter (where state = 'scheduled') as scheduled,
        count(*) filter (where state = 'running') as running,
        count(*) filter (where state = 'held') as held,
        count(*) filter (where state = 'completed') as completed,
        min(created_at) filter (where state = 'queued') as oldest_at
    from jobs group by pool
) j on j.pool = p.name
order by p.matches = '{}', p.name;

-- name: depth_of_pool
-- Asked by every worker every few seconds: not counted further than `most`.
select count(*) from (select from jobs where pool = :pool and state = 'queued' limit :most) as waiting;

-- name: list_jobs
-- Newest first; from the hot table, the finished and the dead ones, as one list.
select * from (
    (select id, kind, pool, owner, subject_id, state, priority, attempts, max_attempts, worker_id, worker_name,
        created_at, started_at, run_after, lease_expires_at, step, percent, error, null::timestamptz as ended_at
    from jobs
    where (:state::text is null or state = :state) and (:kind::text is null or kind = :kind)
        and (:pool::text is null or pool = :pool) and (:owner::text is null or owner = :owner)
        and (:before::bigint is null or id < :before)
    order by id desc limit :amount)
    union all
    (select id, kind, pool, owner, subject_id, 'finished', priority, attempts, null, worker_id, worker_name,
        created_at, started_at, null, null, null, 100, null, finished_at
    from finished_jobs
    where coalesce(:state, 'finished') = 'finished' and (:kind::text is null or kind = :kind)
        and (:pool::text is null or pool = :pool) and (:owner::text is null or owner = :owner)
        and (:before::bigint is null or id < :before)
    order by id desc limit :amount)
    union all
    (select id, kind, pool, owner, subject_id, 'dead', priority, attempts, max_attempts, worker_id, worker_name,
        created_at, started_at, null, null, step, percent, error, failed_at
    from dead_jobs
    where coalesce(:state, 'dead') = 'dead' and (:kind::text is null or kind = :kind)
        and (:pool::text is null or pool = :pool) and (:owner::text is null or owner = :owner)
        and (:before::bigint is null or id < :before)
    order by id desc limit :amount)
) every order by id desc limit :amount;

-- name: list_running
-- Latest claims first, by the index of leases: it holds only what runs, however much waits.
select id, kind, pool, owner, subject_id, state, priority, attempts, max_attempts, worker_id, worker_name,
    created_at, started_at, run_after, lease_expires_at, step, percent, error, null::timestamptz as ended_at
from jobs where state = 'running' order by lease_expires_at desc limit :amount;

-- name: show_job
select * from jobs where id = :id;

-- name: show_finished
select * from finished_jobs where id = :id;

-- name: show_dead
select * from dead_jobs where id = :id;

-- name: job_states
-- Where each of these jobs is, by one snapshot, so that a job on its way from table to table is seen once.
select a.id, coalesce(
    (select state from jobs j where j.id = a.id),
    (select 'dead' from dead_jobs d where d.id = a.id),
    (select 'finished' from finished_jobs f where f.id = a.id)
) as state
from unnest(:ids::bigint[]) as a (id);

-- name: is_served
-- Does a worker serve all pools now? The row of one that was killed says so for a while: its session tells better.
select exists (
    select from workers w
    where w.state in ('active', 'idle', 'busy') and w.pools = '{}' and (
        w.id in (
            select objid::bigint::integer from pg_locks
            where locktype = 'advisory' and classid = :lock_class and objsubid = 2 and granted
                and mode = 'ExclusiveLock'
                and database = (select oid from pg_database where datname = current_database())
        )
        or (w.type = 'remote' and w.heartbeat_at > now() - interval '2 minutes')
    )
);

-- name: job_progress
-- Those of these jobs that have not ended, and how far they are.
select id, state, step, percent from jobs where id = any (:ids::bigint[]);

-- name: list_dead
select id, kind, pool, owner, subject_id, attempts, max_attempts, reason, error, worker_name, created_at, failed_at
from dead_jobs
where (:kind::text is null or kind = :kind) and (:owner::text is null or owner = :owner)
    and (:reason::text is null or reason = :reason) and (:before::bigint is null or id < :before)
order by id desc limit :amount;

-- name: count_dead
select count(*) from dead_jobs;

-- name: lock_dead
-- Requeue and purge meet on the row lock: whoever is second finds nothing.
select * from dead_jobs
where (:ids::bigint[] is null or id = any (:ids)) and (:kind::text is null or kind = :kind)
order by id limit :amount for update skip locked;

-- name: requeue_dead
-- With fresh attempts. A result that was only not delivered is delivered, not worked out again.
with gone as (
    delete from dead_jobs where id = any (:ids::bigint[]) returning *
), back as (
    insert into jobs (id, kind, pool, owner, subject_id, mime_type, priority, state, payload, attempts, max_attempts,
        token, worker_id, worker_name, created_at, started_at, parts, checkpoint, error, result)
    overriding system value
    select id, kind, coalesce((select name from pools where name = gone.pool), (select name from pools where matches = '{}')),
        owner, subject_id, mime_type, priority,
        case
            when reason = 'delivery_failed' or result is not null then 'completed'
            when exists (select from held_owners h where h.owner = gone.owner) then 'held'
            else 'queued'
        end,
        payload, 0, max_attempts, token, worker_id, worker_name, created_at, started_at, parts, checkpoint,
        left(error, 500), result
    from gone
    returning id, pool
)
select id, pg_notify('mediamill_jobs', pool), (select pg_notify('mediamill_results', '')) from back;

-- name: purge_dead
delete from dead_jobs where id = any (:ids::bigint[]) returning id;

-- name: hurry_job
-- Do not wait for the back-off.
update jobs set state = 'queued', run_after = now() where id = :id and state = 'scheduled'
returning id, pg_notify('mediamill_jobs', pool);

-- name: purge_jobs
-- Jobs that wait can be thrown away; what runs cannot.
delete from jobs where id in (
    select id from jobs where state in ('queued', 'scheduled', 'held')
        and (:ids::bigint[] is null or id = any (:ids)) and (:kind::text is null or kind = :kind)
        and (:owner::text is null or owner = :owner)
    order by id limit :amount for update skip locked
) returning *;

-- name: throughput_since
select minute, pool, sum(completed)::bigint as completed, sum(failed)::bigint as failed
from throughput where minute >= date_trunc('minute', now()) - make_interval(mins => :minutes)
group by minute, pool order by minute;

-- name: events_after
-- Transactions commit out of the order of their ids: the caller remembers the gaps it saw and asks for them again.
select id, topic, subject, data, created_at from events
where id > :after or id = any (:missing::bigint[])
order by id limit :amount;

-- name: last_event
select coalesce(max(id), 0) from events;

-- name: failures_of_subject
select coalesce(sum(attempts), 0)::bigint from dead_jobs where kind = :kind and subject_id = :subject_id;

-- name: oldest_transaction
-- A transaction held open keeps dead rows from being cleaned up and slows every claim.
select pid, application_name, extract(epoch from now() - xact_start)::float8 as seconds, left(query, 200) as query
from pg_stat_activity
where datname = current_database() and xact_start is not null and pid <> pg_backend_pid()
    and backend_type = 'client backend'
order by xact_start limit 1;

-- name: database_size
select pg_database_size(current_database());

-- name: count_pending
select count(*) from jobs where state in ('queued', 'scheduled');

-- name: totals
-- Since the beginning: what the janitor has forgotten of the minutes is kept as two counters.
select
    coalesce(sum(completed), 0)::bigint
        + coalesce((select sum(value) from counters where name = 'completed_before'), 0) as completed,
    coalesce(sum(failed), 0)::bigint
        + coalesce((select sum(value) from counters where name = 'failed_before'), 0) as failed
from throughput;

-- name: count_workers
select state, count(*) as workers from workers group by state;

-- name: database_version
select current_setting('server_version');

-- name: subjects_at_work
select distinct subject_id from jobs where subject_id = any (:subject_ids::text[]);
