-- What a backup asks the database besides the dump itself, which pg_dump makes.

-- name: export_snapshot
-- Inside a transaction that stays open: whoever takes this name sees what it sees, and nothing later.
select pg_export_snapshot();

-- name: found_revision
select version_num from alembic_version;

-- name: has_schema
select to_regclass('alembic_version') is not null;

-- name: loaded_from
-- The sign that load_database leaves, in the transaction that brings the rows.
select obj_description(to_regclass('alembic_version'), 'pg_class');

-- name: is_empty
-- Nothing of anybody: no table, view, sequence or function besides those of the system and of extensions.
select not exists (
    select from pg_class c join pg_namespace n on n.oid = c.relnamespace
    where n.nspname not in ('pg_catalog', 'information_schema') and n.nspname not like 'pg\_%'
        and not exists (select from pg_depend d where d.classid = 'pg_class'::regclass and d.objid = c.oid and d.deptype = 'e')
    union all
    select from pg_proc p join pg_namespace n on n.oid = p.pronamespace
    where n.nspname not in ('pg_catalog', 'information_schema') and n.nspname not like 'pg\_%'
        and not exists (select from pg_depend d where d.classid = 'pg_proc'::regclass and d.objid = p.oid and d.deptype = 'e')
);

-- name: end_loading
-- The session of a restore that was killed may still be there for a moment, and hold locks.
select pg_terminate_backend(pid, 30000) from pg_stat_activity
where datname = current_database() and application_name = :name;

-- name: analyze!
-- The planner knows nothing of what was loaded until somebody looks.
analyze;
