-- pgvector, which a database may have or not. Without it vectors are kept as arrays, which nothing can be found by.

-- name: is_waiting
-- Vectors are arrays, and the server has pgvector: what `adopt` may change. Null before there is a table for vectors.
select a.atttypid = 'real[]'::regtype and exists (select from pg_available_extensions where name = 'vector')
from pg_attribute a where a.attrelid = to_regclass('search_vectors') and a.attname = 'v';

-- name: lock_schema
select pg_advisory_xact_lock(:key);

-- name: adopt!
-- Who may not create extensions needs a superuser for it, once (`mediamill check` says so). One without its library is no
-- reason not to start. A pgvector before 0.7 has no halfvec.
do $$ begin
    begin
        create extension if not exists vector;
    exception when insufficient_privilege or undefined_file then
        return;
    end;
    if to_regtype('halfvec') is not null and exists (select from pg_attribute
        where attrelid = to_regclass('search_vectors') and attname = 'v' and atttypid = 'real[]'::regtype)
    then
        alter table search_vectors alter column v type halfvec using v::halfvec;
    end if;
end $$;

-- name: find_state
select case
    when exists (select from pg_attribute where attrelid = to_regclass('search_vectors') and attname = 'v'
        and atttypid = to_regtype('halfvec')) then 'ready'
    when to_regtype('halfvec') is not null then 'next_start'
    when exists (select from pg_extension where extname = 'vector') then 'too_old'
    when not exists (select from pg_available_extensions where name = 'vector') then 'not_installed'
    when (select rolsuper from pg_roles where rolname = current_user) then 'next_start'
    else 'not_created' end;
