-- Makes the role `mediamill` the owner of everything in the schema `public` of this database, but not of the database:
-- whoever owns that may create extensions. One transaction, so that the schema's owner says whether all of it was done.
begin;
create extension if not exists vector; -- only a superuser may
do $$
declare
    each record;
begin
    for each in
        with ours as (select oid from pg_namespace where nspname = 'public'),
        role as (select oid from pg_roles where rolname = 'mediamill'),
        of_extensions as (select classid, objid from pg_depend where deptype = 'e'),
        found (class, object, owner, kind, name) as (
            select 'pg_class'::regclass, c.oid, relowner, case relkind when 'v' then 'view' when 'm' then 'materialized view'
                when 'S' then 'sequence' when 'f' then 'foreign table' else 'table' end, c.oid::regclass::text
            from pg_class c join ours on ours.oid = relnamespace
            where relkind in ('r', 'p', 'v', 'm', 'S', 'f')
                -- the sequence of a column goes with its table
                and not exists (select from pg_depend d where d.classid = 'pg_class'::regclass and d.objid = c.oid and deptype in ('a', 'i'))
            union all
            select 'pg_proc'::regclass, p.oid, proowner, 'routine', p.oid::regprocedure::text
            from pg_proc p join ours on ours.oid = pronamespace
            union all
            select 'pg_type'::regclass, t.oid, typowner, 'type', t.oid::regtype::text
            from pg_type t join ours on ours.oid = typnamespace left join pg_class c on c.oid = typrelid
            where typtype in ('d', 'e', 'r') or relkind = 'c'
            union all
            select 'pg_statistic_ext'::regclass, s.oid, stxowner, 'statistics', format('public.%I', stxname)
            from pg_statistic_ext s join ours on ours.oid = stxnamespace
        )
        select format('alter %s %s owner to mediamill', kind, name) as statement
        from found join role on role.oid <> owner
        where (class, object) not in (select classid, objid from of_extensions)
    loop
        execute each.statement;
    end loop;
end $$;
alter schema public owner to mediamill;
commit;
