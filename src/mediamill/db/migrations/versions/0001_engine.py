"""The engine: jobs, what became of them, pools, workers, events, counters and alerts."""

from alembic import op

revision = "0001"
down_revision = None
branch_labels = None
depends_on = None

# The hot table. It holds only jobs that somebody still has to move; few indexes, most of them partial and
# empty in ordinary times, because every index is paid for by every claim.
JOBS = """
create table jobs (
    id bigint generated always as identity primary key,
    kind text not null,
    pool text not null,
    owner text not null,
    subject_id text,
    mime_type text,
    priority smallint not null check (priority between 0 and 2),
    state text not null check (state in ('scheduled', 'queued', 'running', 'completed', 'held')),
    payload jsonb not null check (jsonb_typeof(payload) = 'object'),
    attempts integer not null default 0,
    max_attempts integer not null check (max_attempts > 0),
    token bigint not null default 0,
    worker_id integer,
    worker_name text,
    run_after timestamptz not null default now(),
    created_at timestamptz not null default now(),
    started_at timestamptz,
    claimed_at timestamptz,
    lease_expires_at timestamptz,
    progress_at timestamptz,
    step text,
    percent real,
    parts jsonb,
    checkpoint jsonb,
    error text,
    result jsonb
) with (
    fillfactor = 85,
    autovacuum_vacuum_scale_factor = 0.02,
    autovacuum_vacuum_threshold = 2000,
    autovacuum_analyze_scale_factor = 0.1,
    autovacuum_vacuum_cost_delay = 0
);
create index jobs_ready on jobs (pool, priority, owner, id) where state = 'queued';
create index jobs_running on jobs (lease_expires_at) where state = 'running';
create index jobs_scheduled on jobs (run_after) where state = 'scheduled';
create index jobs_completed on jobs (owner, id) where state = 'completed';
create index jobs_held on jobs (owner, id) where state = 'held';
create index jobs_exhausted on jobs (id) where state = 'queued' and attempts >= max_attempts;
create index jobs_subject on jobs (subject_id) where subject_id is not null;

create table job_keys (
    kind text not null,
    key text not null,
    job_id bigint not null,
    created_at timestamptz not null default now(),
    primary key (kind, key)
);
create index job_keys_created on job_keys using brin (created_at);

create table finished_jobs (
    id bigint primary key,
    kind text not null,
    pool text not null,
    owner text not null,
    subject_id text,
    mime_type text,
    priority smallint not null,
    attempts integer not null,
    worker_id integer,
    worker_name text,
    created_at timestamptz not null,
    started_at timestamptz,
    finished_at timestamptz not null default now(),
    result jsonb
);
create index finished_jobs_finished on finished_jobs using brin (finished_at) with (pages_per_range = 32);

create table dead_jobs (
    id bigint primary key,
    kind text not null,
    pool text not null,
    owner text not null,
    subject_id text,
    mime_type text,
    priority smallint not null,
    payload jsonb not null,
    attempts integer not null,
    max_attempts integer not null,
    token bigint not null,
    worker_id integer,
    worker_name text,
    created_at timestamptz not null,
    started_at timestamptz,
    step text,
    percent real,
    parts jsonb,
    checkpoint jsonb,
    reason text not null,
    error text not null,
    traceback text,
    result jsonb,
    failed_at timestamptz not null default now()
);
create index dead_jobs_failed on dead_jobs (failed_at);
create index dead_jobs_subject on dead_jobs (kind, subject_id) where subject_id is not null;

create table held_owners (
    owner text primary key,
    held_at timestamptz not null default now()
);
"""

POOLS = """
create table pools (
    name text primary key,
    matches text[] not null,
    processor text,
    concurrency integer not null,
    timeout_seconds double precision not null,
    max_attempts integer not null,
    lease_seconds double precision not null,
    stale_seconds double precision not null,
    retry boolean not null,
    backoff_seconds double precision not null,
    backoff_limit_seconds double precision not null,
    memory_bytes bigint not null,
    gpu boolean not null,
    forget_after_seconds double precision not null,
    updated_at timestamptz not null default now()
);
create unique index pools_one_catch_all on pools ((true)) where matches = '{}';
insert into pools values
    ('scripted', '{scripted.run}', 'scripted', 2, 60, 3, 300, 900, true, 2, 300, 1073741824, false, 10800),
    ('default', '{}', null, 4, 60, 3, 300, 900, true, 2, 300, 1073741824, false, 10800);
"""

WORKERS = """
create table workers (
    id integer generated always as identity primary key,
    name text not null,
    type text not null check (type in ('local', 'remote')),
    state text not null check (state in ('active', 'idle', 'busy', 'paused', 'offline', 'disabled')),
    command text check (command in ('pause', 'resume', 'shutdown', 'forensic_dump')),
    hostname text,
    process text,
    pools text[] not null default '{}',
    capabilities jsonb not null default '{}',
    metadata jsonb not null default '{}',
    stats jsonb not null default '{}',
    gpu boolean generated always as (capabilities @> '{"gpu": true}') stored,
    current_job_id bigint,
    registered_at timestamptz not null default now(),
    heartbeat_at timestamptz,
    session_lost_at timestamptz
) with (fillfactor = 50);
create index workers_alive on workers (id) where state not in ('offline', 'disabled');

create table worker_keys (
    prefix text not null,
    hash bytea not null unique,
    worker_id integer not null references workers on delete cascade,
    created_at timestamptz not null default now(),
    revoked_at timestamptz
);
create index worker_keys_prefix on worker_keys (prefix);
"""

WATCHING = """
create table events (
    id bigint generated always as identity primary key,
    topic text not null,
    subject text not null,
    data jsonb not null,
    created_at timestamptz not null default now()
);
create index events_created on events using brin (created_at);

create table throughput (
    minute timestamptz not null,
    pool text not null,
    worker_id integer not null,
    completed integer not null default 0,
    failed integer not null default 0,
    primary key (minute, pool, worker_id)
) with (fillfactor = 50);

create table counters (
    name text not null,
    value bigint not null default 0,
    shard integer not null default 0,
    primary key (name, shard)
) with (fillfactor = 50);

create table alerts (
    id bigint generated always as identity primary key,
    type text not null,
    data jsonb not null,
    created_at timestamptz not null default now(),
    sent_at timestamptz,
    tries integer not null default 0,
    try_after timestamptz not null default now(),
    last_error text
);
create index alerts_waiting on alerts (try_after) where sent_at is null;

create table alert_limits (
    type text primary key,
    last_at timestamptz not null,
    suppressed bigint not null default 0
);
"""

# One notification per statement that told something, none for one that told nothing.
ANNOUNCE = """
create function announce_events() returns trigger language plpgsql as $$
begin
    if exists (select from told) then
        perform pg_notify('mediamill_events', '');
    end if;
    return null;
end $$
"""
ANNOUNCE_TRIGGER = """
create trigger announce after insert on events
referencing new table as told for each statement execute function announce_events()
"""

TABLES = [
    "alert_limits",
    "alerts",
    "counters",
    "throughput",
    "events",
    "worker_keys",
    "workers",
    "pools",
    "held_owners",
    "dead_jobs",
    "finished_jobs",
    "job_keys",
    "jobs",
]


def _run(script: str) -> None:
    for statement in script.split(";\n"):
        if statement.strip():
            op.execute(statement)


def upgrade() -> None:
    for script in (JOBS, POOLS, WORKERS, WATCHING):
        _run(script)
    op.execute(ANNOUNCE)
    op.execute(ANNOUNCE_TRIGGER)


def downgrade() -> None:
    for table in TABLES:
        op.execute(f"drop table {table}")
    op.execute("drop function announce_events()")
