-- Looking at it: one job, counts, events. Reads only.

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

-- name: list_waits
-- Model servers that jobs wait for: how many jobs, since when, until when, and why. Their own index knows them.
select waits_for as server, count(*) as jobs, min(waiting_since) as since, min(run_after) as next_at, max(error) as reason
from jobs where waits_for is not null and state in ('scheduled', 'queued') group by waits_for order by waits_for;

-- name: depth_of_pool
-- Asked by every worker every few seconds: not counted further than `most`.
select count(*) from (select from jobs where pool = :pool and state = 'queued' limit :most) as waiting;

-- name: pools_with_work
-- Of these pools, where something waits, and how urgent it is: one probe of the ready index for each, by the order that
-- only it has. Something that is due soon counts as well: whoever looks learns when.
with soon as materialized (
    select coalesce(min(run_after) < now() + interval '10 seconds', false) as due from jobs where state = 'scheduled'
)
select p.pool, r.priority
from unnest(:pools::text[]) as p (pool)
cross join generate_series(0, 2) as r (priority)
cross join lateral (
    select j.id from jobs j where j.pool = p.pool and j.priority = r.priority and j.state = 'queued'
    order by j.owner, j.id limit 1
) waiting
union
select p.pool, 1 from unnest(:pools::text[]) as p (pool) where (select due from soon);

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

-- name: count_dead
select count(*) from dead_jobs;

-- name: lock_dead
-- Requeue, purge and whoever gives files up meet on the row lock: the second finds nothing, or what has become of it.
-- A result that was only not delivered needs no file.
select *, payload #> '{file,given_up}' is not null and result is null and reason <> 'delivery_failed' as file_gone
from dead_jobs
where (:ids::bigint[] is null or id = any (:ids)) and (:kind::text is null or kind = :kind)
    and (:owner::text is null or owner = :owner) and (:pool::text is null or pool = :pool)
    and (:reason::text is null or reason = :reason)
order by id limit :amount for update skip locked;

-- name: requeue_dead
-- With fresh attempts. A result that was only not delivered is delivered, not worked out again.
with gone as (
    delete from dead_jobs where id = any (:ids::bigint[]) returning *
), back as (
    insert into jobs (id, kind, pool, owner, subject_id, mime_type, priority, state, payload, attempts, max_attempts,
        token, worker_id, worker_name, created_at, started_at, parts, checkpoint, error, trace, result)
    overriding system value
    select id, kind, coalesce((select name from pools where name = gone.pool), (select name from pools where matches = '{}')),
        owner, subject_id, mime_type, priority,
        case
            when reason = 'delivery_failed' or result is not null then 'completed'
            when exists (select from held_owners h where h.owner = gone.owner) then 'held'
            else 'queued'
        end,
        payload, 0, max_attempts, token, worker_id, worker_name, created_at, started_at, parts, checkpoint,
        left(error, 500), trace, result
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

-- name: list_attempts
-- Attempts that ended, with the histogram of how long they took: what every session has counted, together.
select kind, pool, outcome, bucket, sum(count)::bigint as count, sum(seconds)::float8 as seconds
from attempts group by 1, 2, 3, 4 order by 1, 2, 3, 4;

-- name: count_claims
-- Every claim has ended, or its job runs: told by one snapshot, so that it never falls.
select pool, sum(claims)::bigint as claims
from (
    select pool, count as claims from attempts
    union all
    select pool, 1 from jobs where state = 'running'
) made
group by pool order by pool;

-- name: count_dead_by_reason
select reason, count(*) as jobs from dead_jobs group by reason order by reason;

-- name: last_turns
-- When each chore was last begun, by whichever process had its turn.
select left(name, -length('_turn')) as chore, to_timestamp(value / 1000000.0) as at
from counters where name like '%\_turn' and shard = 0 order by name;

-- name: database_use
-- Connections to the whole server, and the oldest transaction of this database.
select (select count(*) from pg_stat_activity where backend_type = 'client backend') as connections,
    current_setting('max_connections')::integer
        - current_setting('superuser_reserved_connections')::integer as most_connections,
    (select coalesce(max(extract(epoch from clock_timestamp() - xact_start)), 0)::float8 from pg_stat_activity
     where datname = current_database() and backend_type = 'client backend' and pid <> pg_backend_pid())
        as oldest_transaction_seconds,
    pg_database_size(current_database()) as bytes;

-- name: database_clock
select clock_timestamp();

-- name: count_workers
select state, count(*) as workers from workers group by state;

-- name: database_version
select current_setting('server_version');

-- name: subjects_at_work
select distinct subject_id from jobs where subject_id = any (:subject_ids::text[]);

-- name: give_up_files!
-- Before staged files are deleted, the dead jobs that name them are told, so that none is requeued without its file. One
-- that is being requeued or purged now is skipped, as lock_dead skips what is told here: neither waits for the other.
with told as (
    select id from dead_jobs
    where subject_id = any (:guids::text[]) and payload #>> '{file,staged}' = subject_id
        and payload #> '{file,given_up}' is null
    for update skip locked
)
update dead_jobs d set payload = jsonb_set(d.payload, '{file,given_up}', 'true') from told where d.id = told.id;

-- name: files_in_use
-- After give_up_files, as a statement of its own: by one look at both tables, a job that was skipped there is found, dead
-- or back in the queue, and keeps its file.
select subject_id from jobs where subject_id = any (:guids::text[])
union
select subject_id from dead_jobs
where subject_id = any (:guids) and payload #>> '{file,staged}' = subject_id and payload #> '{file,given_up}' is null;
