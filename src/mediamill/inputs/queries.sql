-- Runs and their images. A run is written by the try that was started last; images go when the agent has taken them.

-- name: purge_expired
-- On every ingest, and by nobody else. An image that is being claimed just now is left alone: its expiry is refreshed.
delete from input_images where input_image_id in (
    select input_image_id from input_images where expires_at <= now()
    order by expires_at limit 1000 for update skip locked
)
returning source, thread_key, run_id, byte_size;

-- name: purge_thread_images!
-- Likewise: three days after the last answer in their thread.
delete from thread_images where (run_id, position) in (
    select run_id, position from thread_images where expires_at <= now()
    order by expires_at limit 1000 for update skip locked
);

-- name: lock_scope
-- Images of one scope get their places one after the other, and a text takes them all or none.
select pg_advisory_xact_lock(:lock_class::int, hashtext(concat_ws(chr(31), :source::text, :thread_key::text, :user_key::text)));

-- name: add_run
-- Of two with one key that come at once the second waits, and gets no row.
with added as (
    insert into runs (source, thread_key, user_key, delivery_mode, text, agent, idempotency_key, payload_hash,
        image_count, image_bytes, start_after)
    values (:source, :thread_key, :user_key, :delivery_mode, :text, :agent::jsonb, :idempotency_key, :payload_hash,
        :image_count, :image_bytes, now() + make_interval(secs => :start_after_seconds::float8))
    on conflict (source, idempotency_key) do nothing
    returning *
), told as (
    insert into events (topic, subject, data)
    select 'run.queued', thread_key, jsonb_build_object('run_id', run_id, 'images', image_count) from added
)
select *, pg_notify('mediamill_runs', run_id::text) from added;

-- name: find_run_by_key
select run_id, payload_hash from runs where source = :source and idempotency_key = :idempotency_key;

-- name: show_run
select r.*, (select count(*) from input_images i where i.run_id = r.run_id) as images_waiting
from runs r where r.run_id = :run_id;

-- name: list_runs
-- Newest first; `before` is the sequence of the last that was seen.
select r.*, (select count(*) from input_images i where i.run_id = r.run_id) as images_waiting
from runs r where r.sequence < coalesce(:before::bigint, 9223372036854775807)
order by r.sequence desc limit :amount;

-- name: list_thread_runs
-- Said so that only the index of threads will do: a plan for "one thread or all", or by sequence alone, walks through
-- everybody's runs.
select r.*, (select count(*) from input_images i where i.run_id = r.run_id) as images_waiting
from runs r
where (r.thread_key, r.sequence) < (:thread_key, coalesce(:before::bigint, 9223372036854775807))
    and r.thread_key >= :thread_key
order by r.thread_key desc, r.sequence desc limit :amount;

-- name: count_pending
select count(*) as count, coalesce(sum(byte_size), 0)::bigint as bytes, coalesce(max(position), -1) as last
from input_images
where source = :source and thread_key = :thread_key and user_key is not distinct from :user_key and run_id is null
    and expires_at > now();

-- name: claim_pending
-- The pending images of a scope for this run; their three days begin anew. The scope is locked: the only ones that
-- another transaction can have locked are those that it purges, and to wait for them could be a deadlock.
with due as (
    select input_image_id from input_images
    where source = :source and thread_key = :thread_key and user_key is not distinct from :user_key and run_id is null
        and expires_at > now()
    for update skip locked
), claimed as (
    update input_images set run_id = :run_id, expires_at = now() + interval '3 days'
    where input_image_id in (select input_image_id from due)
    returning byte_size, position
), figures as (
    select count(*) as count, coalesce(sum(byte_size), 0)::bigint as bytes, coalesce(max(position), -1) as last
    from claimed
), noted as (
    update runs set image_count = image_count + f.count, image_bytes = image_bytes + f.bytes
    from figures f where run_id = :run_id
)
select count, bytes, last from figures;

-- name: drop_pending
delete from input_images
where source = :source and thread_key = :thread_key and user_key is not distinct from :user_key and run_id is null
returning byte_size;

-- name: run_of_group
-- The run that took the first images of an album, while it has not begun: those that come late belong to it as well.
select r.run_id, r.image_count, r.image_bytes from runs r
where r.state = 'queued' and r.tries = 0 and r.source = :source and r.thread_key = :thread_key
    and r.user_key is not distinct from :user_key
    and (select count(*) from input_images i -- no "exists": that could be found by a look at all images
        where i.run_id = r.run_id and i.telegram_media_group_id = :media_group_id) > 0
order by r.sequence desc limit 1 for update;

-- name: next_place
select coalesce(max(position), -1) + 1 from input_images where run_id = :run_id;

-- name: note_more_images
update runs set image_count = image_count + 1, image_bytes = image_bytes + :byte_size where run_id = :run_id returning run_id;

-- name: images_of_run
select input_image_id, mime_type, byte_size, filename, position from input_images
where run_id = :run_id order by position, input_image_id;

-- name: piece_of_image
select substring(image_bytes from :start::int for :length::int) from input_images where input_image_id = :input_image_id;

-- name: delete_images_of_run
-- After the agent has taken them. Twice does no harm.
delete from input_images where run_id = :run_id returning byte_size;

-- name: open_threads
select distinct thread_key from runs where state in ('queued', 'running');

-- name: open_runs
-- What is to be done in a thread, in order. The next one that is due waits for those before it.
select r.*, (select count(*) from input_images i where i.run_id = r.run_id) as images_waiting,
    greatest(0, extract(epoch from r.start_after - now()))::float8 as wait_seconds
from runs r where r.thread_key = :thread_key and r.state in ('queued', 'running') order by r.sequence limit :amount;

-- name: start_run
-- A new try; whoever wrote for an older one writes no more.
update runs set state = 'running', tries = tries + 1, answer = '', error_code = null, error = null,
    started_at = now()
where run_id = :run_id and state in ('queued', 'running') and start_after <= now()
returning tries, image_count, pg_notify('mediamill_runs', run_id::text);

-- name: grow_answer
update runs set answer = :answer where run_id = :run_id and state = 'running' and tries = :tries
returning pg_notify('mediamill_runs', run_id::text);

-- name: complete_run
with done as (
    update runs set state = 'completed', answer = :answer, tokens = :tokens, ended_at = now()
    where run_id = :run_id and state = 'running' and tries = :tries
    returning run_id, thread_key, pg_notify('mediamill_runs', run_id::text)
), told as (
    insert into events (topic, subject, data)
    select 'run.completed', thread_key, jsonb_build_object('run_id', run_id) from done
)
select run_id from done;

-- name: put_run_back
-- It failed and is tried again later, or its server stops: then at once, and no failure is counted.
update runs set state = 'queued', failures = failures + :failures, error_code = :error_code, error = :error,
    start_after = now() + make_interval(secs => :after_seconds::float8)
where run_id = :run_id and state = 'running' and tries = :tries
returning pg_notify('mediamill_runs', run_id::text);

-- name: fail_run
-- For good. Its images stay until they expire, so that it can be tried again by hand.
with done as (
    update runs set state = 'failed', failures = failures + 1, error_code = :error_code, error = :error, ended_at = now()
    where run_id = :run_id and state = 'running' and tries = :tries
    returning run_id, thread_key, error_code, pg_notify('mediamill_runs', run_id::text)
), told as (
    insert into events (topic, subject, data)
    select 'run.failed', thread_key, jsonb_build_object('run_id', run_id, 'error_code', error_code) from done
)
select run_id from done;

-- name: retry_run
update runs set state = 'queued', failures = 0, error_code = null, error = null, ended_at = null, start_after = now()
where run_id = :run_id and state = 'failed'
returning run_id, pg_notify('mediamill_runs', run_id::text);

-- name: past_runs
-- What was said before in this thread, newest first.
select run_id, text, answer from runs
where thread_key = :thread_key and sequence < :sequence and state = 'completed'
order by sequence desc limit :amount;

-- name: keep_thread_images!
-- The small versions of a run's images, for the questions that follow. They are of the thread's newest answer.
insert into thread_images (run_id, position, thread_key, sequence, mime_type, image)
select :run_id, i.position, :thread_key, :sequence, i.mime_type, i.image
from unnest(:mime_types::text[], :images::bytea[]) with ordinality as i (mime_type, image, position)
on conflict do nothing;

-- name: trim_thread_images!
-- The newest stay, within the budget, for three days more.
with placed as (
    select run_id, position, row_number() over newest as place, sum(length(image)) over newest as bytes
    from thread_images where thread_key = :thread_key
    window newest as (order by sequence desc, position desc)
), gone as (
    delete from thread_images t using placed p
    where t.run_id = p.run_id and t.position = p.position and (p.place > :most or p.bytes > :most_bytes)
)
update thread_images t set expires_at = now() + interval '3 days' from placed p
where t.run_id = p.run_id and t.position = p.position and p.place <= :most and p.bytes <= :most_bytes;

-- name: images_of_thread
-- Of what was said before, in order.
select run_id, mime_type, image from thread_images
where thread_key = :thread_key and sequence < :sequence and expires_at > now() order by sequence, position;
