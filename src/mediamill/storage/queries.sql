-- Files in a bucket: their names, and what is to be deleted there. A key is used once, so that an object never changes.
-- A folder's files are those from `folder/` up to `folder0`, the text after every one that begins with `folder/`.

-- name: list_pieces
select first, bytes, key, sha256 from stored_pieces where name = :name order by first;

-- name: facts_of
select max(first + bytes) as bytes, max(noted_at) as noted_at from stored_pieces where name = :name;

-- name: put_pieces!
insert into stored_pieces (name, first, bytes, key, sha256)
select :name, * from unnest(:firsts::bigint[], :bytes::bigint[], :keys::text[], :hashes::bytea[]);

-- name: drop_names!
-- Each is the name of a file or of a folder. The objects wait in the garbage, for readers and for restored backups: from
-- the last of their names on, not from the first.
with gone as (
    delete from stored_pieces p using unnest(:names::text[]) n(name)
    where p.name = n.name collate "C"
        or (p.name >= n.name || '/' collate "C" and p.name < n.name || '0' collate "C")
    returning p.key
)
insert into stored_garbage (key) select distinct key from gone on conflict (key) do update set at = excluded.at;

-- name: sizes_in
select substr(name, length(:folder::text) + 2) as name, sum(bytes)::bigint as bytes from stored_pieces
where name >= :folder || '/' collate "C" and name < :folder || '0' collate "C"
    and position('/' in substr(name, length(:folder) + 2)) = 0
group by name;

-- name: move_folder!
update stored_pieces set name = :target::text || substr(name, length(:source::text) + 1), noted_at = now()
where name >= :source || '/' collate "C" and name < :source || '0' collate "C";

-- name: rename_file!
update stored_pieces set name = :target, noted_at = now() where name = :source;

-- name: link_files!
-- The rows are held until the end: nobody can drop the last name of an object while it gets another.
insert into stored_pieces (name, first, bytes, key, sha256)
select :target::text || '/' || substr(name, length(:source::text) + 2), first, bytes, key, sha256
from (
    select * from stored_pieces where name = any (select :source || '/' || n from unnest(:names::text[]) n) for share
) held
on conflict (name, first) do nothing;

-- name: old_folders
-- Those in one folder in which nothing is newer.
select folder from (
    select :shard::text || '/' || split_part(substr(name, length(:shard) + 2), '/', 1) as folder, noted_at
    from stored_pieces
    where name >= :shard || '/' collate "C" and name < :shard || '0' collate "C"
        and position('/' in substr(name, length(:shard) + 2)) > 0
) files
group by folder having max(noted_at) <= now() - make_interval(secs => :older_than_seconds) order by folder;

-- name: names_in
select name from stored_pieces
where name > :after::text collate "C" and name < :folder::text || '0' collate "C"
group by name having max(noted_at) <= now() - make_interval(secs => :older_than_seconds)
order by name limit :batch;

-- name: old_garbage
-- Taken by one sweep at a time. What has a name again stays an object, and is garbage no more.
with old as (
    select key from stored_garbage where at < now() - make_interval(secs => :older_than_seconds)
    order by at limit :batch for update skip locked
), named as (
    delete from stored_garbage g using old
    where g.key = old.key and exists (select from stored_pieces p where p.key = old.key)
)
select key from old where not exists (select from stored_pieces p where p.key = old.key);

-- name: forget_garbage!
delete from stored_garbage where key = any (:keys::text[]);

-- name: known_keys
-- Of these objects, those that have a name, or wait in the garbage.
select key from stored_pieces where key = any (:keys::text[])
union select key from stored_garbage where key = any (:keys);

-- name: figures
select count(distinct name) as files, coalesce(sum(bytes), 0)::bigint as bytes,
    (select count(*) from stored_garbage) as garbage from stored_pieces;

-- name: count_areas
-- Every object once, however many names it has, in the first folder of its name. It reads every row: not for each request.
select area as name, sum(files)::bigint as files, count(*) as objects, sum(bytes)::bigint as bytes
from (
    select min(split_part(name, '/', 1)) as area, count(*) filter (where first = 0) as files, max(bytes) as bytes
    from stored_pieces group by key || '' -- read as it lies: by the index it takes several times as long
) objects
group by area order by sum(bytes) desc, area;

-- name: count_garbage
select count(*) from stored_garbage;

-- name: folders_in
-- One look into the index for each folder, however many files are in it.
with recursive step (name) as (
    (select name from stored_pieces
        where name >= :folder::text || '/' collate "C" and name < :folder || '0' collate "C" order by name limit 1)
    union all
    select next.name from step cross join lateral (
        select p.name from stored_pieces p
        where p.name >= case
                when position('/' in substr(step.name, length(:folder) + 2)) > 0
                then :folder || '/' || split_part(substr(step.name, length(:folder) + 2), '/', 1) || '0'
                else step.name || chr(1)
            end collate "C"
            and p.name < :folder || '0' collate "C"
        order by p.name limit 1
    ) next
)
select :folder || '/' || split_part(substr(name, length(:folder) + 2), '/', 1) as folder from step
where position('/' in substr(name, length(:folder) + 2)) > 0;

-- name: age_of
-- Seconds since something changed in a folder.
select extract(epoch from now() - max(noted_at))::float8 from stored_pieces
where name >= :folder || '/' collate "C" and name < :folder || '0' collate "C";

-- name: count_in
select count(distinct name) from stored_pieces
where name >= :folder || '/' collate "C" and name < :folder || '0' collate "C";

-- name: size_in
select coalesce(sum(bytes), 0)::bigint from stored_pieces
where name >= :folder || '/' collate "C" and name < :folder || '0' collate "C";

-- name: identity
-- Of this very database: one that was restored elsewhere has another.
select system_identifier::text || '-' || (select oid from pg_database where datname = current_database())
from pg_control_system();

-- name: link_pieces!
-- The same objects under a second name. The rows are held, as in link_files.
insert into stored_pieces (name, first, bytes, key, sha256)
select :target, first, bytes, key, sha256
from (select * from stored_pieces where name = :source for share) held;

-- name: page_names
-- `shared`: another name has the same object.
select name, exists (select from stored_pieces o where o.key = p.key and o.name <> p.name) as shared
from stored_pieces p where first = 0 and name > :after::text collate "C" order by name limit :batch;

-- name: pieces_in_shard
select name, key, bytes from stored_pieces where key >= :shard || '/' collate "C" and key < :shard || '0' collate "C";

-- name: beyond_room
-- From the newest file on, those with which they are too many bytes.
select name from (
    select name, sum(sum(bytes)) over (order by max(noted_at) desc, name) as total from stored_pieces
    where name >= :folder::text || '/' collate "C" and name < :folder || '0' collate "C" group by name
) files
where total > :most_bytes::bigint;
