-- Workers: who they are, what they do, what they are told, and the keys of the remote ones.

-- name: insert_worker
insert into workers (name, type, state, hostname, process, pools, capabilities, metadata, heartbeat_at)
values (:name, :type, 'active', :hostname, :process, :pools::text[], :capabilities::jsonb, :metadata::jsonb,
    case when :type::text = 'local' then now() end)
returning id;

-- name: insert_key!
insert into worker_keys (prefix, hash, worker_id) values (:prefix, :hash, :worker_id);

-- name: find_keys
-- By prefix; the hash is compared by the caller in constant time.
select k.hash, k.worker_id, k.revoked_at, w.name, w.process from worker_keys k join workers w on w.id = k.worker_id
where k.prefix = :prefix;

-- name: revoke_keys!
update worker_keys set revoked_at = now() where worker_id = :worker_id and revoked_at is null;

-- name: take_session_lock
-- Held by the session, not by a transaction: it goes the moment the process or its connection dies.
select pg_advisory_lock(:lock_class, :worker_id);

-- name: come_back!
-- A worker that was given up is watched again from the moment it has its lock, not from its next heartbeat: what
-- it claims in between must not be left to its lease if it dies.
update workers set state = case when state = 'offline' then 'active' else state end, session_lost_at = null
where id = :worker_id and type = 'local' and (state = 'offline' or session_lost_at is not null);

-- name: heartbeat
-- Brings an offline worker back; a disabled one stays disabled. The command is handed over once: the row is
-- locked by the inner select, so that a command given meanwhile is either seen or stays for the next beat.
with before as (
    select command, state from workers where id = :worker_id for update
)
update workers w
set heartbeat_at = now(),
    state = case when before.state = 'disabled' then 'disabled' else :state end,
    current_job_id = :current_job_id, stats = :stats::jsonb, hostname = coalesce(:hostname, w.hostname),
    command = null,
    session_lost_at = case when w.type = 'local' then null else w.session_lost_at end
from before
where w.id = :worker_id
returning before.command, before.state as was, w.state, w.name;

-- name: greet_worker
-- A remote worker starts: from now on its key speaks for this process, and for no other that still has it.
update workers
set process = :process, hostname = coalesce(:hostname, hostname), capabilities = :capabilities::jsonb,
    metadata = :metadata::jsonb, heartbeat_at = now()
where id = :worker_id and type = 'remote'
returning name, pools;

-- name: set_state
-- One that leaves while a claim is still in its name (it could not be handed back) is not offline yet: its session
-- ends, and whoever notices puts the job back at once instead of waiting for the lease.
update workers
set state = case
        when state = 'disabled' then state
        when :state::text = 'offline' and exists (
            select from jobs where state = 'running' and worker_id = :worker_id) then state
        else :state end,
    current_job_id = null
where id = :worker_id returning id;

-- name: give_command
update workers set command = :command where id = :worker_id returning id, pg_notify('mediamill_workers', :worker_id::text);

-- name: disable_worker
update workers set state = 'disabled' where id = :worker_id returning id, name, pg_notify('mediamill_workers', :worker_id::text);

-- name: enable_worker
update workers set state = 'offline' where id = :worker_id and state = 'disabled'
returning id, name, pg_notify('mediamill_workers', :worker_id::text);

-- name: find_worker
select id from workers where id::text = :who or name = :who order by state = 'offline', id desc limit 1;

-- name: show_worker
select id, name, type, state, pools, gpu, process from workers where id = :worker_id;

-- name: list_workers
select id, name, type, state, hostname, pools, capabilities, metadata, stats, gpu, current_job_id, registered_at,
    heartbeat_at, session_lost_at, command
from workers
where :all or state <> 'offline' or coalesce(heartbeat_at, registered_at) > now() - interval '1 hour'
order by state = 'offline', id;

-- name: is_gpu_idle
-- Does an idle worker with a GPU, heard within two heartbeats, serve this pool?
select exists (
    select from workers
    where gpu and state = 'idle' and id <> :worker_id and (pools = '{}' or :pool = any (pools))
        and heartbeat_at > now() - 2 * make_interval(secs => :heartbeat_seconds)
);

-- name: tell!
insert into events (topic, subject, data) values (:topic, :subject, :data::jsonb);

-- name: keep_dump
-- The name says whose it is and when it was taken: one that comes twice is kept once.
insert into flight_dumps (name, worker_id, worker_name, taken_at, bytes, content)
values (:name, :worker_id, coalesce((select name from workers where id = :worker_id), :worker_id::integer::text), :taken_at,
    :bytes, :content)
on conflict (name) do nothing
returning id;

-- name: missing_dumps
select n.name from unnest(:names::text[]) as n (name)
where not exists (select from flight_dumps f where f.name = n.name);

-- name: list_dumps
select id, name, worker_id, worker_name, taken_at, bytes from flight_dumps
where (:worker_id::integer is null or worker_id = :worker_id)
order by taken_at desc, id desc limit :amount;

-- name: read_dump
select name, content from flight_dumps where id = :id;

-- name: forget_dumps
delete from flight_dumps where taken_at < now() - make_interval(days => 1) * :keep_days::float8
    or id not in (select id from flight_dumps order by taken_at desc, id desc limit :most);
