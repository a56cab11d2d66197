-- Uploads. How much has come is the size of the part file; a row says what is to come, and whether it became a video.

-- name: add_upload
-- Of two that begin with one fingerprint at once the second waits, and gets the row of the first, with what it said last.
insert into uploads (id, purpose, name, bytes, metadata, fingerprint, expires_at)
values (:id, 'video', :name, :bytes, :metadata::jsonb, :fingerprint,
    now() + make_interval(secs => :keep_seconds::float8))
on conflict (purpose, fingerprint, bytes) where finished_at is null and fingerprint is not null
do update set name = excluded.name, metadata = excluded.metadata, expires_at = excluded.expires_at
returning *;

-- name: show_upload
select * from uploads where id = :id;

-- name: lock_upload
-- Whoever makes a video of it: one after the other, so that the second finds it finished.
select * from uploads where id = :id for update;

-- name: touch_upload
-- Somebody goes on with it.
update uploads set expires_at = now() + make_interval(secs => :keep_seconds::float8)
where id = :id and finished_at is null
returning *;

-- name: finish_upload
-- The row stays for a while: whoever did not hear the answer can ask again.
update uploads set finished_at = now(), expires_at = now() + make_interval(secs => :keep_seconds::float8)
where id = :id and finished_at is null
returning *;

-- name: drop_upload!
-- Never one that became a video meanwhile.
delete from uploads where id = :id and finished_at is null;

-- name: unfinished_uploads
select * from uploads where finished_at is null and id > :after order by id limit :amount;

-- name: forget_finished!
delete from uploads where finished_at is not null and expires_at < now();

-- name: known_uploads
select id from uploads where id = any(:ids::uuid[]);
