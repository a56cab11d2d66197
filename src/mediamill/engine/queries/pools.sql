-- Pools: definitions that can be edited while everything runs.

-- name: lock_pools!
-- One editor at a time, so that "exactly one catch-all" and "one pool for a match" are judged on what will stand.
lock table pools in share row exclusive mode;

-- name: list_pools
select name, matches, processor, concurrency, timeout_seconds, max_attempts, lease_seconds, stale_seconds, retry,
    backoff_seconds, backoff_limit_seconds, memory_bytes, gpu, forget_after_seconds, no_progress_seconds
from pools order by matches = '{}', name;

-- name: put_pool!
insert into pools (name, matches, processor, concurrency, timeout_seconds, max_attempts, lease_seconds, stale_seconds,
    retry, backoff_seconds, backoff_limit_seconds, memory_bytes, gpu, forget_after_seconds,
    no_progress_seconds)
values (:name, :matches::text[], :processor, :concurrency, :timeout_seconds, :max_attempts, :lease_seconds,
    :stale_seconds, :retry, :backoff_seconds, :backoff_limit_seconds, :memory_bytes, :gpu, :forget_after_seconds,
    :no_progress_seconds)
on conflict (name) do update set matches = excluded.matches, processor = excluded.processor,
    concurrency = excluded.concurrency, timeout_seconds = excluded.timeout_seconds,
    max_attempts = excluded.max_attempts, lease_seconds = excluded.lease_seconds,
    stale_seconds = excluded.stale_seconds, retry = excluded.retry, backoff_seconds = excluded.backoff_seconds,
    backoff_limit_seconds = excluded.backoff_limit_seconds, memory_bytes = excluded.memory_bytes,
    gpu = excluded.gpu, forget_after_seconds = excluded.forget_after_seconds,
    no_progress_seconds = excluded.no_progress_seconds, updated_at = now();

-- name: drop_pools!
delete from pools where name = any (:names::text[]);

-- name: move_jobs
-- Waiting jobs of pools that go, to the catch-all, in the transaction that drops them.
update jobs set pool = :to_pool where pool = any (:names::text[]) and state in ('queued', 'scheduled', 'held') returning id;

-- name: route_jobs!
-- On request, once the new pools stand: those jobs go where they would go if they came now.
update jobs set pool = pool_for(kind, mime_type)
where id = any (:ids::bigint[]) and pool is distinct from pool_for(kind, mime_type);

-- name: announce_pools
select pg_notify('mediamill_pools', '');
