-- Scans. Every write shows the token of its scan, under a lock on the library's row: of two scans the older one ends.

-- name: lock_scan
select *, coalesce(scan_beat_at > now() - :busy_seconds * interval '1 second', false) as is_alive,
    coalesce(scan_beat_at > now() - :resume_seconds * interval '1 second', false) as is_recent
from libraries where slug = :slug and deleted_at is null for update;

-- name: begin_scan
-- `scan_started_at` marks what this scan finds missing, so one that goes on keeps it.
update libraries set scan_status = 'scanning', scan_token = scan_token + 1, scan_beat_at = clock_timestamp(), scan_error = null,
    scan_at = case when :resume then scan_at end,
    scan_started_at = case when :resume then scan_started_at else clock_timestamp() end,
    scan_counts = :counts::jsonb
where number = :number returning scan_token, scan_started_at;

-- name: newest_asset
-- Assets with a greater id are new to this scan; 0 if the library has none, so that none need be looked for. In the order
-- of an index: else a plan for any library would read all assets to find none of a new one.
select case when (select true from assets where library = :library order by rel_path limit 1)
    then (select max(id) from assets) else 0 end;

-- name: hold_scan
select number from libraries where number = :number and scan_token = :token for update;

-- name: beat!
update libraries set scan_beat_at = clock_timestamp() where number = :number and scan_token = :token;

-- name: note_scan!
update libraries set scan_at = :scan_at, scan_counts = :counts::jsonb, scan_beat_at = clock_timestamp() where number = :number;

-- name: finish_scan!
update libraries set scan_status = 'idle', scan_at = null, scan_beat_at = null, scan_error = null, scanned_at = now(),
    scan_counts = :counts::jsonb
where number = :number and scan_token = :token;

-- name: retry_missed!
-- A job did not find the file, a scan did: what it is on was away, and nothing else about the file is other than before.
update assets set status = 'pending', retry_count = 0, error = null, error_code = null
where library = :number and type = any ('{image,video}'::text[]) and status = 'failed' and error_code = 'file_gone'
    and vanished_at is null;

-- name: stop_scan!
update libraries set scan_status = 'idle', scan_at = null, scan_beat_at = null, scan_error = :error
where number = :number and scan_token = :token;

-- name: has_assets
-- By an index, as newest_asset.
select coalesce((select true from assets where library = :library and vanished_at is null
    order by type, status, shown_at desc, id desc limit 1), false);

-- name: known_folders
-- In the order of a walk; the root is asked for by its path.
select id, rel_path, rel_path || '/' as key, digest, is_mount from library_folders
where library = :library and rel_path || '/' > :after and rel_path <> '' order by rel_path || '/' limit :amount;

-- name: folders_by_path
select id, rel_path, digest, is_mount from library_folders where library = :library and rel_path = any (:paths::text[]);

-- name: take_folder_ids
select nextval(pg_get_serial_sequence('library_folders', 'id')) from generate_series(1, :amount);

-- name: change_folders!
update library_folders o set digest = f.digest, is_mount = f.is_mount
from unnest(:ids::bigint[], :digests::bytea[], :mounts::bool[]) as f (id, digest, is_mount) where o.id = f.id;

-- name: drop_folders!
delete from library_folders where id = any (:ids::bigint[]);

-- name: assets_in_folders
select id, folder, rel_path, mtime_ns, size, inode, vanished_at is not null as vanished
from assets where folder = any (:folders::bigint[]);

-- name: assets_by_path
select id, folder, rel_path, mtime_ns, size, inode, vanished_at is not null as vanished
from assets where library = :library and rel_path = any (:paths::text[]);

-- name: change_assets!
-- Another content: all work on it begins anew, and what comes of a job that is under way is not taken.
update assets a set status = 'pending', job_id = null, retry_count = 0, error = null, error_code = null,
    vanished_at = null, folder = f.folder, mtime_ns = f.mtime_ns, size = f.size, inode = f.inode,
    shown_at = case when output is null then timestamp 'epoch' + f.mtime_ns / 1000 * interval '1 microsecond' else shown_at end
from unnest(:ids::bigint[], :folders::bigint[], :mtimes::bigint[], :sizes::bigint[], :inodes::bigint[])
    as f (id, folder, mtime_ns, size, inode)
where a.id = f.id;

-- name: keep_assets!
-- The same content as before, found again. A job that failed meanwhile may have failed because it was away.
update assets a set folder = f.folder, inode = f.inode, vanished_at = null,
    retry_count = case when vanished_at is not null and status in ('failed', 'poisoned') then 0 else retry_count end,
    status = case when vanished_at is null or status not in ('failed', 'poisoned') then status
        when error_code = 'tag_failed' then 'proxied' else 'pending' end
from unnest(:ids::bigint[], :folders::bigint[], :inodes::bigint[]) as f (id, folder, inode)
where a.id = f.id;

-- name: vanish_assets!
-- Jobs that would read them are let go; they wait, and are not fed, until they are back.
update assets set vanished_at = :at, job_id = case when status in ('pending', 'extracting') then null else job_id end,
    status = case status when 'extracting' then 'pending' else status end
where vanished_at is null and (id = any (:ids::bigint[]) or folder = any (:folders::bigint[]));

-- name: renamed_assets
-- What this scan found missing and what it found new, if they are one file by inode, size, time and type, and no other is.
with gone as (
    select inode, size, mtime_ns, type, min(id) as id from assets where library = :library and vanished_at = :at
    group by 1, 2, 3, 4 having count(*) = 1
), fresh as (
    select inode, size, mtime_ns, type, min(id) as id from assets
    where library = :library and id > :newest and vanished_at is null
    group by 1, 2, 3, 4 having count(*) = 1
)
select gone.id, fresh.id from gone join fresh using (inode, size, mtime_ns, type);

-- name: take_away_names
-- The rows under new names go; what they are called and where they are is for the rows that were there before.
delete from assets where id = any (:ids::bigint[]) returning id, folder, rel_path;

-- name: rename_assets!
-- Only the words of the name are others. A job that reads the file would look for it under its old name.
update assets a set folder = f.folder, rel_path = f.rel_path, vanished_at = null,
    job_id = case when status in ('pending', 'extracting') then null else job_id end,
    status = case status when 'extracting' then 'pending' else status end,
    search_vector = case when search_vector is not null then ts_filter(search_vector, '{a,b,d}')
        || ts_filter(findable(null, null, f.rel_path, null), '{c}') end
from unnest(:ids::bigint[], :folders::bigint[], :paths::text[]) as f (id, folder, rel_path)
where a.id = f.id;

-- name: request_scan
-- Idle, or left behind by a process that died; or requested by a job that is no more.
update libraries l set scan_status = case scan_status when 'scanning' then scan_status else 'scan_req' end, scan_error = null
where number = :number and not (scan_status = 'scanning'
        and coalesce(scan_beat_at > now() - :busy_seconds * interval '1 second', false))
    and not exists (select from jobs j where j.kind = 'library.scan' and j.subject_id = l.number::text)
returning number;

-- name: forget_scan_request!
update libraries set scan_status = 'idle', scan_error = :error where number = :number and scan_status = 'scan_req';

-- name: due_scans
-- Those whose time has come, and those whose scan died: it goes on from where it was.
select slug from libraries
where is_active and deleted_at is null and scan_status <> 'scan_req'
    and coalesce(scan_beat_at < now() - :busy_seconds * interval '1 second', true)
    and (scan_status = 'scanning' or rescan_seconds is not null
        and coalesce(greatest(scanned_at, scan_started_at) < now() - rescan_seconds * interval '1 second', true))
order by scanned_at nulls first limit 100;
