-- What recovery looks for. Bounded batches with SKIP LOCKED, so that a sweep never waits for a settle nor
-- a settle for more than a batch.

-- name: lock_expired
-- Leases that are over: released when the worker is gone or offline, or in any case after the stale limit of
-- the pool. Workers known by heartbeat alone get the grace period after a server start.
select j.* from jobs j
left join workers w on w.id = j.worker_id
left join pools p on p.name = j.pool
where j.state = 'running' and j.lease_expires_at < now()
    and (w.id is null or w.state in ('offline', 'disabled')
        or j.lease_expires_at < now() - make_interval(secs => coalesce(p.stale_seconds, 900)))
    and (w.type is distinct from 'remote' or not exists (
        select from counters where name = 'server_started_at'
            and to_timestamp(value / 1000000.0) > now() - make_interval(secs => :startup_grace_seconds)))
order by j.lease_expires_at limit :batch
for update of j skip locked;

-- name: lock_exhausted
-- Queued jobs that no claim may take any more.
select * from jobs where state = 'queued' and attempts >= max_attempts
order by id limit :batch for update skip locked;

-- name: lock_claims_of_worker
select * from jobs where state = 'running' and worker_id = :worker_id
order by id limit :batch for update skip locked;

-- name: lock_unknown_claims
-- What a worker holds without knowing it: the answer to its claim was lost on the way, or it is another process by
-- now. A claim that was made a moment ago may still be on its way to it.
select *, lease_expires_at > now() as valid from jobs
where state = 'running' and worker_id = :worker_id and not (id = any (:known::bigint[]))
    and claimed_at <= now() - make_interval(secs => :older_than_seconds)
order by id limit :batch for update skip locked;

-- name: note_sessions
-- Which local workers have their session lock, by the list of locks. One that lost it is stamped once, one
-- that has it again is cleared. One that left in good order is stamped, too, while it holds something: the server goes
-- on with a claim whose answer the worker did not wait for.
with locked as materialized (
    select objid::bigint::integer as id from pg_locks
    where locktype = 'advisory' and classid = :lock_class and objsubid = 2 and granted and mode = 'ExclusiveLock'
        and database = (select oid from pg_database where datname = current_database())
)
update workers w
set session_lost_at = case when l.id is null then now() end
from workers v left join locked l on l.id = v.id
where w.id = v.id and w.type = 'local'
    and (w.state <> 'offline' or w.id in (select worker_id from jobs where state = 'running'))
    and (l.id is null) = (w.session_lost_at is null)
returning w.id, w.session_lost_at;

-- name: list_lost_workers
-- Local workers without a session: those over the grace period, and all of one machine for a look at its processes.
-- One that is offline or disabled already is looked at again while it holds something: the last claim of a process that
-- was killed may be committed after everything else of it was put back.
select id, name, process, state, session_lost_at < now() - make_interval(secs => :session_grace_seconds) as over
from workers where type = 'local' and session_lost_at is not null
    and (state not in ('offline', 'disabled') or id in (select worker_id from jobs where state = 'running'));

-- name: try_session_lock
-- Succeeds only if the worker's session does not hold it; until we commit the worker cannot take it back.
-- Shared, so that it is not mistaken for the worker's own, which is exclusive.
select pg_try_advisory_xact_lock_shared(:lock_class, :worker_id);

-- name: mark_lost
update workers set state = case when state = 'disabled' then state else 'offline' end, current_job_id = null
where id = :worker_id and type = 'local' and session_lost_at is not null
returning id, name, state;

-- name: mark_silent
-- Offline by silence, in one conditional update: a heartbeat in between makes the condition false when the row
-- is looked at again under its lock. A worker never heard is judged by its registration. A local one too: its session shows
-- that its process exists, not that it works.
update workers
set state = 'offline', current_job_id = null
where state not in ('offline', 'disabled')
    and coalesce(heartbeat_at, registered_at) < now() - make_interval(secs => :offline_after_seconds)
    and not exists (
        select from counters where name = 'server_started_at'
            and to_timestamp(value / 1000000.0) > now() - make_interval(secs => :startup_grace_seconds))
returning id, name;

-- name: reroute_orphans
-- Queued jobs of a pool that is no more go to the catch-all; scheduled and held ones when they come to be queued.
-- Pools with queued jobs are found by hopping through the ready index, never by a scan of what waits.
with recursive seen (pool) as (
    (select pool from jobs where state = 'queued' order by pool limit 1)
    union all
    select (select j.pool from jobs j where j.state = 'queued' and j.pool > s.pool order by j.pool limit 1)
    from seen s where s.pool is not null
), gone as materialized (
    select pool from seen where pool is not null and not exists (select from pools where name = seen.pool)
), lost as materialized (
    select l.id from gone
    cross join lateral (
        select id from jobs where state = 'queued' and jobs.pool = gone.pool limit :batch for update skip locked
    ) l
)
update jobs j set pool = (select name from pools where matches = '{}')
from lost where j.id = lost.id
returning j.id, pg_notify('mediamill_jobs', j.pool);

-- name: next_page_of_jobs
-- The next ids in the order of their making, and whether all of them are younger than any age limit: ids and
-- ages go together, so that nothing behind such a page can be forgotten.
select max(id) as last_id,
    coalesce(min(created_at) > now() - make_interval(secs => (
        select coalesce(min(forget_after_seconds), 10800) from pools where forget_after_seconds > 0)), true) as young
from (select id, created_at from jobs where id > :after order by id limit :page) p;

-- name: lock_forgotten
-- Jobs that nobody has moved for longer than their pool allows (0: for ever), counted in time in which they could have
-- been moved: by a worker of their pool, or a result by a server. What runs is left to its lease, what belongs to an
-- owner on hold waits for it, and what waits in a line that moves is not forgotten: its pool has ended other jobs in
-- that time (asked once a pool, not once a job).
with p as materialized (
    select name, cutoff, exists (select from throughput t where t.pool = name and t.minute > cutoff) as moves,
        case when forget_after_seconds > 0 then served_cutoff('', forget_after_seconds) end as result_cutoff
    from (
        select name, forget_after_seconds,
            case when forget_after_seconds > 0 then served_cutoff(name, forget_after_seconds) end as cutoff
        from pools
    ) pools
)
select j.* from jobs j left join p on p.name = j.pool
where j.id > :after and j.id <= :last_id and j.state not in ('running', 'held')
    and greatest(j.created_at, j.run_after, j.claimed_at, j.progress_at) < case
        when p.name is null then served_cutoff('', 10800)
        when j.state = 'completed' then p.result_cutoff
        else p.cutoff end
    and not (j.state = 'queued' and coalesce(p.moves, false))
    and not exists (select from held_owners h where h.owner = j.owner)
order by j.id limit :batch for update of j skip locked;

-- name: lock_served!
-- Of two servers the second finds the span that the first has begun.
lock table served in share row exclusive mode;

-- name: note_served!
-- A server runs (''), and workers serve these pools: the span of each grows, or a new one begins after a gap.
with alive as materialized (
    select '' as pool
    union all
    select name from pools p where exists (
        select from workers w where w.state in ('active', 'idle', 'busy') and w.session_lost_at is null
            and (w.pools = '{}' or p.name = any (w.pools)))
), grown as (
    update served s set until_at = now() from alive a
    where s.pool = a.pool and s.until_at > now() - make_interval(secs => :gap_seconds)
    returning s.pool
)
insert into served (pool, since_at, until_at)
select pool, now(), now() from alive where pool not in (select pool from grown);

-- name: forget_served!
delete from served where until_at < now() - interval '2 years';

-- name: served_cutoff
select served_cutoff(:pool, :seconds);

-- name: forget_finished
-- Whoever else forgets at this moment has other rows: nobody waits for a batch to be deleted only to find it gone.
delete from finished_jobs where id in (
    select id from finished_jobs where finished_at < now() - make_interval(hours => 1) * :keep_hours::float8
    limit :batch for update skip locked
);

-- name: forget_keys
delete from job_keys k where (k.kind, k.key) in (
    select kind, key from job_keys
    where created_at < now() - make_interval(hours => 1) * :keep_hours::float8
        and not exists (select from jobs where jobs.id = job_keys.job_id)
        and not exists (select from finished_jobs f where f.id = job_keys.job_id)
    limit :batch for update of job_keys skip locked
);

-- name: forget_events
delete from events where id in (
    select id from events where created_at < now() - make_interval(hours => 1) * :keep_hours::float8
    limit :batch for update skip locked
);

-- name: forget_throughput!
-- Their sums stay, so that the totals of the metrics never fall.
with gone as (
    delete from throughput where minute < now() - interval '7 days' returning completed, failed
)
insert into counters as c (name, value)
select f.name, f.value
from (select sum(completed) as completed, sum(failed) as failed from gone having count(*) > 0) s
cross join lateral (values ('completed_before', s.completed), ('failed_before', s.failed)) as f (name, value)
on conflict (name, shard) do update set value = c.value + excluded.value;

-- name: forget_workers
-- Rows of local workers that have been gone for a day; a registered remote one stays.
delete from workers w where type = 'local' and state = 'offline'
    and coalesce(heartbeat_at, registered_at) < now() - interval '1 day'
    and not exists (select from jobs where jobs.state = 'running' and jobs.worker_id = w.id);

-- name: note_server_start!
insert into counters (name, value) values ('server_started_at', (extract(epoch from now()) * 1000000)::bigint)
on conflict (name, shard) do update set value = excluded.value;

-- name: count!
-- A shard a session, so that failures everywhere do not queue behind one row.
insert into counters as c (name, shard, value) values (:name, pg_backend_pid() % 256, :amount)
on conflict (name, shard) do update set value = c.value + excluded.value;

-- name: list_counters
select name, sum(value)::bigint as value from counters group by name order by name;

-- name: take_turn
-- Of all processes that want to do a chore, one does it within the given time: the condition is judged again
-- under the row lock, and the others get no row. Nothing is written or locked as long as it is too early.
insert into counters as c (name, value)
select :name, (extract(epoch from now()) * 1000000)::bigint
where not exists (
    select from counters where name = :name and shard = 0
        and value > (extract(epoch from now()) * 1000000)::bigint - (:every_seconds::float8 * 1000000)::bigint)
on conflict (name, shard) do update set value = excluded.value
where c.value <= excluded.value - (:every_seconds::float8 * 1000000)::bigint
returning value;

-- name: lock_waiting_of_subjects
-- Those that could have been moved for longer than this. A result that waits for its owner is not thrown away.
select * from jobs j where subject_id = any (:subject_ids::text[]) and state not in ('running', 'completed', 'held')
    and greatest(created_at, run_after, claimed_at, progress_at) < served_cutoff(pool, :older_than_seconds)
    and not exists (select from held_owners h where h.owner = j.owner)
order by id for update skip locked;
