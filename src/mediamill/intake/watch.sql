-- Watched folders: what was seen there at the last look, and what was taken in.

-- name: watched_projects
select id, slug, watch_path, watch_error from projects where watch_path is not null order by watched_at nulls first, id;

-- name: known_paths
select rel_path, mtime_ns, size, taken from watched_files
where project_id = :project and rel_path = any (:paths::bytea[]);

-- name: note_seen!
-- New, or another than at the last look: it is not taken before it has stayed as it is.
insert into watched_files as w (project_id, rel_path, mtime_ns, size)
select :project, s.* from unnest(:paths::bytea[], :times::bigint[], :sizes::bigint[]) as s
on conflict (project_id, rel_path) do update set mtime_ns = excluded.mtime_ns, size = excluded.size, taken = false;

-- name: note_taken!
update watched_files set taken = true, file_id = coalesce(:file::bigint, file_id)
where project_id = :project and rel_path = :path;

-- name: lock_watched
-- If it still waits to be taken as it was seen: of several that look at once one takes it. With what it held before.
select w.rel_path, (select a.sha256 from project_files f join analyses a on a.id = f.analysis_id where f.id = w.file_id)
    as before
from watched_files w where w.project_id = :project and w.rel_path = :path and w.mtime_ns = :mtime_ns and w.size = :size
    and not w.taken for update;

-- name: note_looked!
-- Unless another folder was chosen meanwhile.
update projects set watched_at = now(), watch_error = :error where id = :id and watch_path = :watch_path;

-- name: forget_watched!
delete from watched_files where project_id = :project;
