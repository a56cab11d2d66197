-- Jobs from enqueue to their end. Every statement that finishes or extends shows the whole fence:
-- job, worker, token, state running, lease not over. A late word matches no row and so changes nothing.
-- "(…) is true" around the last two keeps the planner from finding rows by the index of leases, and
-- "id = any" next to the join makes it find them by id once and join by hash: linear in the batch.

-- name: insert_jobs
-- Many jobs that differ only in subject and payload, one notification. Without a pool by name, pool_for decides. An owner on hold gets held jobs. No row: no such pool.
with route as materialized (
    select name, coalesce(:max_attempts::integer, max_attempts) as max_attempts from pools
    where name = coalesce(:pool::text, pool_for(:kind, :mime_type))
), added as (
    insert into jobs (kind, pool, owner, mime_type, priority, max_attempts, run_after, state, subject_id, payload, trace)
    select :kind, route.name, :owner, :mime_type, :priority, route.max_attempts, coalesce(:run_after, now()),
        case
            when (select exists (select from held_owners where owner = :owner)) then 'held'
            when :run_after::timestamptz > now() then 'scheduled'
            else 'queued'
        end,
        n.subject_id, n.payload, :trace
    from route, unnest(:subject_ids::text[], :payloads::jsonb[]) with ordinality as n (subject_id, payload, position)
    order by n.position
    returning id
)
select id, (select pg_notify('mediamill_jobs', name) from route) from added;

-- name: insert_keyed_job
-- The key is taken first: of two transactions with one key, the second waits for the first and then finds
-- its job. A key lives on when its job has finished, until the janitor forgets both.
with route as materialized (
    select name, coalesce(:max_attempts::integer, max_attempts) as max_attempts from pools
    where name = coalesce(:pool::text, pool_for(:kind, :mime_type))
), taken as (
    insert into job_keys (kind, key, job_id)
    select :kind, :key, nextval(pg_get_serial_sequence('jobs', 'id')) from route
    on conflict (kind, key) do nothing
    returning job_id
), added as (
    insert into jobs (id, kind, pool, owner, mime_type, priority, max_attempts, run_after, state, subject_id, payload, trace)
    overriding system value
    select job_id, :kind, route.name, :owner, :mime_type, :priority, route.max_attempts, coalesce(:run_after, now()),
        case
            when exists (select from held_owners where owner = :owner) then 'held'
            when :run_after::timestamptz > now() then 'scheduled'
            else 'queued'
        end,
        :subject_id, :payload::jsonb, :trace
    from taken, route
    returning id
)
select id, (select pg_notify('mediamill_jobs', name) from route) from added;

-- name: find_key
select job_id from job_keys where kind = :kind and key = :key;

-- name: claim_jobs
-- The claim. Only the most urgent priority that waits is served by one call; within it owners take turns:
-- those with waiting work are found by hopping through the ready index (one probe an owner, never a scan of
-- what waits), other owners than the one served last come first, the one whose oldest job is oldest at the
-- head. Each gets an equal share, oldest first. More owners than the window: the hop starts behind the last
-- owner, so that the window wanders round. "owner between o.owner and o.owner" is equality that the planner does
-- not see through: only the ready index then gives the order asked for, never the primary key. SKIP LOCKED: two workers never meet on one job, and only rows
-- that are taken get locked, because the limits are reached before the scan goes on. A disabled worker gets
-- nothing, also before it has heard that it is.
with recursive
top as materialized (
    select priority from jobs where pool = :pool and state = 'queued'
        and not exists (select from workers where id = :worker_id and state = 'disabled')
    order by priority limit 1
),
behind (owner, hop) as (
    (select j.owner, 1 from jobs j
     where j.pool = :pool and j.state = 'queued' and j.priority = (select priority from top)
        and j.owner > :last_owner order by j.owner limit 1)
    union all
    select (select j.owner from jobs j
            where j.pool = :pool and j.state = 'queued' and j.priority = (select priority from top)
                and j.owner > b.owner order by j.owner limit 1), b.hop + 1
    from behind b where b.owner is not null and b.hop < :owner_window
),
before (owner, hop) as (
    (select j.owner, 1 from jobs j
     where j.pool = :pool and j.state = 'queued' and j.priority = (select priority from top)
        and j.owner <= :last_owner order by j.owner limit 1)
    union all
    select (select j.owner from jobs j
            where j.pool = :pool and j.state = 'queued' and j.priority = (select priority from top)
                and j.owner > b.owner and j.owner <= :last_owner order by j.owner limit 1), b.hop + 1
    from before b where b.owner is not null and b.hop < :owner_window
),
owners as materialized (
    select o.owner, h.id as oldest
    from (select owner from behind union all select owner from before) o
    cross join lateral (
        select j.id from jobs j
        where j.pool = :pool and j.state = 'queued' and j.priority = (select priority from top)
            and j.owner between o.owner and o.owner
        order by j.owner, j.id limit 1
    ) h
    where not exists (select from held_owners where held_owners.owner = o.owner)
    order by o.owner = :last_owner, h.id
    limit :amount
),
share as materialized (
    select ceil(:amount::numeric / greatest(count(*), 1))::integer as jobs from owners
),
pick as materialized (
    select p.id
    from (select owner from owners order by owner = :last_owner, oldest) o
    cross join lateral (
        select j.id from jobs j
        where j.pool = :pool and j.state = 'queued' and j.priority = (select priority from top)
            and j.owner between o.owner and o.owner and j.attempts < j.max_attempts
        order by j.owner, j.id
        limit (select jobs from share)
        for update skip locked
    ) p
    limit :amount
)
update jobs j
set state = 'running',
    attempts = j.attempts + 1,
    token = greatest(j.token + 1, (extract(epoch from statement_timestamp()) * 1000000)::bigint),
    worker_id = :worker_id,
    worker_name = :worker_name,
    claimed_at = now(),
    started_at = coalesce(j.started_at, now()),
    lease_expires_at = now() + make_interval(secs => :lease_seconds)
from pick
where j.id = pick.id
returning j.id, j.token, j.kind, j.owner, j.subject_id, j.mime_type, j.attempts, j.max_attempts, j.payload, j.checkpoint,
    j.trace;

-- name: look_for_chores
-- Three probes of partial indexes that are empty in ordinary times. By min, not by exists: for "exists" the planner
-- expects a third of what waits to be exhausted, and reads the whole table to find that none is.
select
    (select min(run_after) from jobs where state = 'scheduled') as next_due_at,
    coalesce((select min(run_after) from jobs where state = 'scheduled') <= now(), false) as due,
    coalesce((select min(lease_expires_at) from jobs where state = 'running') < now(), false) as expired,
    (select min(id) from jobs where state = 'queued' and attempts >= max_attempts) is not null as exhausted;

-- name: is_waiting
-- Does anything wait in this pool at all? Asked when a claim came back empty.
select exists (select from jobs where pool = :pool and state = 'queued');

-- name: promote_due
-- Scheduled jobs whose time has come. SKIP LOCKED: several sweepers share the work. "any (array …)" here and below:
-- rows are found by id, where a join could be planned as one with the whole table.
with due as materialized (
    select id from jobs where state = 'scheduled' and run_after <= now()
    order by run_after limit :batch for update skip locked
)
update jobs j set state = 'queued' where j.id = any (array(select id from due))
returning j.pool, pg_notify('mediamill_jobs', j.pool);

-- name: finish_jobs
-- Completion of jobs without hooks, in one statement: out of the hot table, into the finished ones, counted,
-- told. What does not fit the fence is simply not among the ids that come back.
with gone as (
    delete from jobs j
    using unnest(:ids::bigint[], :tokens::bigint[], :results::jsonb[]) as f (id, token, result)
    where j.id = any (:ids) and j.id = f.id and j.token = f.token and j.worker_id = :worker_id
        and (j.state = 'running' and j.lease_expires_at > now()) is true
    returning j.id, j.kind, j.pool, j.owner, j.subject_id, j.mime_type, j.priority, j.attempts, j.worker_id,
        j.worker_name, j.created_at, j.started_at, j.claimed_at, j.trace, f.result
), kept as (
    insert into finished_jobs (id, kind, pool, owner, subject_id, mime_type, priority, attempts, worker_id,
        worker_name, created_at, started_at, trace, result)
    select id, kind, pool, owner, subject_id, mime_type, priority, attempts, worker_id, worker_name, created_at,
        started_at, trace, result from gone
), counted as (
    insert into throughput as t (minute, pool, worker_id, completed)
    select date_trunc('minute', now()), pool, :worker_id, count(*) from gone group by pool
    on conflict (minute, pool, worker_id) do update set completed = t.completed + excluded.completed
), tallied as (
    insert into attempts as a (kind, pool, outcome, bucket, shard, count, seconds)
    select kind, pool, 'completed', attempt_bucket(now() - claimed_at), pg_backend_pid() % 32, count(*),
        coalesce(sum(extract(epoch from now() - claimed_at)), 0)
    from gone group by 1, 2, 4 order by 1, 2, 4
    on conflict (kind, pool, outcome, bucket, shard) do update
        set count = a.count + excluded.count, seconds = a.seconds + excluded.seconds
), told as (
    insert into events (topic, subject, data)
    select 'job.completed', subject_id, jsonb_build_object('id', id, 'kind', kind, 'owner', owner)
    from gone where subject_id is not null
)
select id from gone;

-- name: save_results
-- A result that waits for its delivery, on a held job too.
with saved as (
    update jobs j set state = 'completed', result = f.result, percent = 100, lease_expires_at = null, error = null
    from unnest(:ids::bigint[], :tokens::bigint[], :results::jsonb[]) as f (id, token, result)
    where j.id = any (:ids) and j.id = f.id and j.token = f.token and j.worker_id = :worker_id
        and (j.state = 'running' and j.lease_expires_at > now()) is true
    returning j.id, j.kind, j.pool, j.claimed_at
), counted as (
    insert into throughput as t (minute, pool, worker_id, completed)
    select date_trunc('minute', now()), pool, :worker_id, count(*) from saved group by pool
    on conflict (minute, pool, worker_id) do update set completed = t.completed + excluded.completed
), tallied as (
    insert into attempts as a (kind, pool, outcome, bucket, shard, count, seconds)
    select kind, pool, 'completed', attempt_bucket(now() - claimed_at), pg_backend_pid() % 32, count(*),
        coalesce(sum(extract(epoch from now() - claimed_at)), 0)
    from saved group by 1, 2, 4 order by 1, 2, 4
    on conflict (kind, pool, outcome, bucket, shard) do update
        set count = a.count + excluded.count, seconds = a.seconds + excluded.seconds
)
select id, (select pg_notify('mediamill_results', '')) from saved;

-- name: tally_attempts!
-- Attempts that ended in another way. How long they took is told where it matters: `claimed_at` may be null.
insert into attempts as a (kind, pool, outcome, bucket, shard, count, seconds)
select f.kind, f.pool, :outcome, attempt_bucket(now() - f.claimed_at), pg_backend_pid() % 32, count(*),
    coalesce(sum(extract(epoch from now() - f.claimed_at)), 0)
from unnest(:kinds::text[], :pools::text[], :claimed::timestamptz[]) as f (kind, pool, claimed_at)
group by 1, 2, 4 order by 1, 2, 4
on conflict (kind, pool, outcome, bucket, shard) do update
    set count = a.count + excluded.count, seconds = a.seconds + excluded.seconds;

-- name: lock_claims
-- The jobs of these claims that still hold, locked until the transaction ends. In id order: no deadlock.
select j.* from unnest(:ids::bigint[], :tokens::bigint[]) as f (id, token)
join jobs j on j.id = f.id and j.token = f.token
where j.id = any (:ids) and j.worker_id = :worker_id and (j.state = 'running' and j.lease_expires_at > now()) is true
order by j.id
for update of j;

-- name: existing_jobs
select id from jobs where id = any (:ids::bigint[]);

-- name: retry_job
-- Back to wait for another attempt; an owner on hold gets it held. Runs under the lock of lock_claims. `given_back`: 1 if
-- this attempt was none.
update jobs j
set state = case when exists (select from held_owners h where h.owner = j.owner) then 'held' else 'scheduled' end,
    run_after = now() + make_interval(secs => :wait_seconds), attempts = j.attempts - :given_back,
    error = :error, claimed_at = null, lease_expires_at = null, step = null
where j.id = :id;

-- name: hand_back
-- A worker that stops gives back what it has not finished; the attempt does not count.
with back as (
    update jobs j
    set state = case when exists (select from held_owners h where h.owner = j.owner) then 'held' else 'queued' end,
        attempts = j.attempts - 1, claimed_at = null, lease_expires_at = null, step = null
    from unnest(:ids::bigint[], :tokens::bigint[]) as f (id, token)
    where j.id = any (:ids) and j.id = f.id and j.token = f.token and j.worker_id = :worker_id and (j.state = 'running') is true
    returning j.*
)
select back.*, pg_notify('mediamill_jobs', back.pool) from back;

-- name: reroute_job
-- The bytes are of another type than was claimed: to the pool of the real type. The attempt does not count, and what
-- was claimed is kept in the payload, by which the next processor knows that it must not send the job on again.
with moved as (
    update jobs j
    set mime_type = :mime_type, pool = pool_for(j.kind, :mime_type),
        payload = j.payload || jsonb_build_object('claimed_mime_type', j.mime_type),
        state = case when exists (select from held_owners h where h.owner = j.owner) then 'held' else 'queued' end,
        attempts = j.attempts - 1, claimed_at = null, lease_expires_at = null, step = null
    where j.id = :id and j.token = :token and j.worker_id = :worker_id
        and (j.state = 'running' and j.lease_expires_at > now()) is true
    returning j.*
)
select moved.*, pg_notify('mediamill_jobs', moved.pool) from moved;

-- name: requeue_released
-- Claims that nobody holds any more, back to the queue. Runs under row locks. `uncounted`: those whose attempt was none.
update jobs j
set state = case when exists (select from held_owners h where h.owner = j.owner) then 'held' else 'queued' end,
    attempts = j.attempts - (j.id = any (:uncounted::bigint[]))::integer, releases = j.releases + 1,
    error = :error, claimed_at = null, lease_expires_at = null, step = null
where j.id = any (:ids::bigint[])
returning j.id, pg_notify('mediamill_jobs', j.pool);

-- name: bury_jobs
-- To the dead letter, with all that is known. Runs under row locks. What the janitor buries does not count as
-- throughput: its pool would seem to move. Counted in one order by all: no deadlock of two sweeps.
with gone as (
    delete from jobs j
    using unnest(:ids::bigint[], :reasons::text[], :errors::text[], :tracebacks::text[], :notices::text[])
        as f (id, reason, error, traceback, notice)
    where j.id = f.id
    returning j.*, f.reason as dead_reason, coalesce(f.error, j.error, f.reason) as dead_error,
        f.traceback as dead_traceback, f.notice as dead_notice
), kept as (
    insert into dead_jobs (id, kind, pool, owner, subject_id, mime_type, priority, payload, attempts, max_attempts,
        token, worker_id, worker_name, created_at, started_at, step, percent, parts, checkpoint, result, trace,
        reason, error, traceback, notice)
    select id, kind, pool, owner, subject_id, mime_type, priority, payload, attempts, max_attempts,
        token, worker_id, worker_name, created_at, started_at, step, percent, parts, checkpoint, result, trace,
        dead_reason, dead_error, dead_traceback, dead_notice from gone
), counted as (
    insert into throughput as t (minute, pool, worker_id, failed)
    select date_trunc('minute', now()), pool, coalesce(worker_id, 0), count(*) from gone
    where dead_reason not in ('abandoned', 'hook_failed') group by 2, 3 order by 2, 3
    on conflict (minute, pool, worker_id) do update set failed = t.failed + excluded.failed
), told as (
    insert into events (topic, subject, data)
    select 'job.failed', coalesce(subject_id, id::text),
        jsonb_build_object('id', id, 'kind', kind, 'owner', owner, 'reason', dead_reason, 'error', left(dead_error, 500))
    from gone
)
select id from gone;

-- name: report_progress
-- Accepted from the current holder only, and extends the lease. Without a checkpoint its transaction does not wait for the
-- disk: all that notify commit one after the other, so each would wait for the disk of those before it, finishes too.
with moved as (
    update jobs
    set step = coalesce(:step, step), percent = coalesce(:percent, percent), parts = coalesce(:parts::jsonb, parts),
        checkpoint = coalesce(:checkpoint::jsonb, checkpoint), progress_at = now(),
        lease_expires_at = now() + make_interval(secs => :lease_seconds)
    where id = :id and token = :token and worker_id = :worker_id and (state = 'running' and lease_expires_at > now()) is true
    returning id, kind, subject_id, step, percent, parts
), told as (
    insert into events (topic, subject, data)
    select 'job.progress', coalesce(subject_id, id::text),
        jsonb_build_object('id', id, 'kind', kind, 'step', step, 'percent', percent, 'parts', parts)
    from moved
)
select id, case when :checkpoint::jsonb is null then set_config('synchronous_commit', 'off', true) end from moved;

-- name: extend_leases
-- The jobs whose child still lives, many at once; the ids whose claim still holds come back.
update jobs j set lease_expires_at = now() + make_interval(secs => :lease_seconds)
from unnest(:ids::bigint[], :tokens::bigint[]) as f (id, token)
where j.id = any (:ids) and j.id = f.id and j.token = f.token and j.worker_id = :worker_id
    and (j.state = 'running' and j.lease_expires_at > now()) is true
returning j.id;

-- name: hold_owner!
insert into held_owners (owner) values (:owner) on conflict (owner) do nothing;

-- name: hold_jobs
-- What waits is held; what runs goes on and is held when it comes back. The ready index is probed by pool and
-- priority. A job that is being claimed now is locked: this waits, then finds it running, and leaves it. Locked in the
-- order of ids, as releasing does.
with waiting as materialized (
    select j.id from jobs j
    where j.id in (
        select w.id from pools p cross join generate_series(0, 2) as priority
        cross join lateral (
            select id from jobs
            where pool = p.name and jobs.priority = priority.priority and owner = :owner and state = 'queued'
        ) w
        union all
        select id from jobs where owner = :owner and state = 'scheduled'
    ) and j.state in ('queued', 'scheduled')
    order by j.id for update
)
update jobs j set state = 'held' where j.id in (select id from waiting);

-- name: hold_stragglers
-- Jobs that were enqueued by a transaction that had not yet seen their owner being held.
update jobs j set state = 'held'
where j.id = any (array(
    select w.id from held_owners h cross join pools p cross join generate_series(0, 2) as priority
    cross join lateral (
        select id from jobs
        where pool = p.name and jobs.priority = priority.priority and state = 'queued'
            and jobs.owner between h.owner and h.owner
        order by jobs.owner, id limit 50 for update skip locked
    ) w
));

-- name: release_stragglers
-- The other way round: jobs that were held by a transaction that had not yet seen their owner being released.
-- Nothing else would ever move them. Owners of held jobs are found by hopping through their index.
with recursive owners (owner) as (
    (select owner from jobs where state = 'held' order by owner limit 1)
    union all
    select (select j.owner from jobs j where j.state = 'held' and j.owner > o.owner order by j.owner limit 1)
    from owners o where o.owner is not null
), free as materialized (
    select o.owner from owners o
    where o.owner is not null and not exists (select from held_owners h where h.owner = o.owner)
), back as materialized (
    select b.id from free
    cross join lateral (
        select id from jobs where state = 'held' and jobs.owner = free.owner order by id limit 50 for update skip locked
    ) b
)
update jobs j set state = case when run_after > now() then 'scheduled' else 'queued' end
where j.id = any (array(select id from back))
returning j.id, pg_notify('mediamill_jobs', j.pool);

-- name: release_owner
-- Results that waited are announced here: there may be nothing else to release.
with gone as (delete from held_owners where owner = :owner returning owner)
select pg_notify('mediamill_results', '') from gone;

-- name: release_jobs
-- Locked in the order of their ids: somebody who holds or releases the same ones at this moment waits, and neither for ever.
with held as materialized (
    select id from jobs where owner = :owner and state = 'held' order by id for update
), back as (
    update jobs set state = case when run_after > now() then 'scheduled' else 'queued' end
    where id in (select id from held) returning pool
), pools_woken as materialized (
    select pool, count(*) as jobs from back group by pool
)
select pool, jobs, pg_notify('mediamill_jobs', pool) from pools_woken;

-- name: drop_jobs_of_owner!
-- What runs is left to its worker; nobody will want its result, and the janitor clears it away.
delete from jobs where owner = :owner and state <> 'running';

-- name: list_held_owners
select h.owner, h.held_at, (select count(*) from jobs j where j.owner = h.owner and j.state = 'held') as jobs
from held_owners h order by h.owner;

-- name: lock_results
-- Results that wait for delivery, of owners that are not on hold and kinds that this process can deliver.
-- SKIP LOCKED: two deliverers never meet.
select j.* from jobs j
where j.state = 'completed' and j.kind = any (:kinds::text[]) and not exists (select from held_owners h where h.owner = j.owner)
    and j.id <> all (:later::bigint[])
order by j.id limit :batch
for update of j skip locked;

-- name: lock_results_of_owners
-- The same for these owners, on hold or not: the process that runs them reaps their results.
select j.* from jobs j where j.state = 'completed' and j.owner = any (:owners::text[])
order by j.id limit :batch for update of j skip locked;

-- name: finish_delivered
with gone as (
    delete from jobs where id = any (:ids::bigint[])
    returning id, kind, pool, owner, subject_id, mime_type, priority, attempts, worker_id, worker_name, created_at,
        started_at, trace, result
), kept as (
    insert into finished_jobs (id, kind, pool, owner, subject_id, mime_type, priority, attempts, worker_id,
        worker_name, created_at, started_at, trace, result)
    select * from gone
)
insert into events (topic, subject, data)
select 'job.completed', subject_id, jsonb_build_object('id', id, 'kind', kind, 'owner', owner)
from gone where subject_id is not null;
