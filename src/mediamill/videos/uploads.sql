-- Uploads. How much has come is the size of the part file; a row says what is to come, and whether it became a video.

-- name: let_go_of_old!
-- A finished one whose video is gone or in the trash, or whose time is over, is not what somebody looks for who begins.
-- Of two who begin at once the second finds nothing to let go of, and gets what the first began.
update uploads u set fingerprint = null
where u.purpose = 'video' and u.fingerprint = :fingerprint and u.bytes = :bytes and u.finished_at is not null
    and (u.expires_at < now() or not exists (select from videos v where v.id = u.id and v.deleted_at is null));

-- name: let_go!
-- Its sender has heard that it is finished: whoever begins with its fingerprint now means another video. The row stays,
-- for others who sent the same at the same time and have not heard it yet.
update uploads set fingerprint = null where id = :id;

-- name: add_upload
-- Of two that begin with one fingerprint at once the second waits, and gets the row of the first, with what it said last.
-- One that is finished is given as it is, also if it was not a moment ago: the index is over both, so that whoever
-- begins again while the last byte arrives makes no second video.
insert into uploads (id, purpose, name, bytes, metadata, fingerprint, expires_at)
values (:id, 'video', :name, :bytes, :metadata::jsonb, :fingerprint,
    now() + make_interval(secs => :keep_seconds::float8))
on conflict (purpose, fingerprint, bytes) where fingerprint is not null
do update set
    name = case when uploads.finished_at is null then excluded.name else uploads.name end,
    metadata = case when uploads.finished_at is null then excluded.metadata else uploads.metadata end,
    expires_at = case when uploads.finished_at is null then excluded.expires_at else uploads.expires_at end
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
