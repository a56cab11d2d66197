-- Alerts: an outbox with a rate limit per type.

-- name: raise_alert
-- The limit row is the lock: of two alerts of one type at once, the second sees the time of the first. What is not sent is
-- counted, and the next one that is sent says how many others it stands for.
with allowed as (
    insert into alert_limits as l (type, last_at, summed_up) values (:type, now(), :more)
    on conflict (type) do update
        set last_at = case when l.last_at <= now() - make_interval(secs => :rate_limit_seconds) then now() else l.last_at end,
            suppressed = case
                when l.last_at <= now() - make_interval(secs => :rate_limit_seconds) then 0
                else l.suppressed + 1 + excluded.summed_up
            end,
            summed_up = l.suppressed + excluded.summed_up
    returning suppressed, summed_up
)
insert into alerts (type, data)
select :type, :data::jsonb || case when summed_up > 0 then jsonb_build_object('and_more', summed_up) else '{}' end
from allowed where suppressed = 0
returning id, pg_notify('mediamill_alerts', '');

-- name: note_failures
-- In one order by all: no deadlock of two sweeps. Not in the dead letter, which forgets a job that is tried again.
insert into subject_failures as s (kind, subject, failures)
select kind, subject, count(*) from unnest(:kinds::text[], :subjects::text[]) as f (kind, subject)
group by 1, 2 order by 1, 2
on conflict (kind, subject) do update set failures = s.failures + excluded.failures, failed_at = now()
returning kind, subject, failures;

-- name: forget_failures
-- Of subjects that have not failed for a year.
delete from subject_failures where (kind, subject) in (
    select kind, subject from subject_failures where failed_at < now() - interval '1 year'
    limit :batch for update skip locked
);

-- name: take_waiting
-- Taken by pushing its next try forward: no lock is held while the webhook is called, two senders never send
-- one alert at once, and one that dies in between leaves it to come due again.
update alerts a set try_after = now() + make_interval(secs => :lease_seconds)
from (
    select id from alerts where sent_at is null and try_after <= now()
    order by try_after, id limit 1 for update skip locked
) due
where a.id = due.id
returning a.id, a.type, a.data, a.tries, a.created_at;

-- name: mark_sent!
update alerts set sent_at = now(), tries = tries + 1, last_error = null where id = :id;

-- name: mark_failed!
update alerts set tries = tries + 1, last_error = :error, try_after = now() + make_interval(secs => :wait_seconds)
where id = :id;

-- name: give_up!
update alerts set sent_at = now(), tries = tries + 1, last_error = :error where id = :id;

-- name: insert_test
-- Not to be taken by a sender: whoever tries it sends it at once.
insert into alerts (type, data, try_after) values ('test', '{}', 'infinity')
returning id, type, data, tries, created_at;

-- name: list_alerts
select id, type, data, created_at, tries, last_error,
    case
        when sent_at is null and tries = 0 then 'waiting'
        when sent_at is null then 'failing'
        when last_error is null then 'sent'
        else 'given_up'
    end as state
from alerts order by id desc limit :amount;

-- name: count_alerts
-- `failing`: tried and not arrived, so far. `given_up`: of the last seven days; so long they are kept.
select count(*) filter (where sent_at is null and tries = 0) as waiting,
    count(*) filter (where sent_at is null and tries > 0) as failing,
    count(*) filter (where sent_at is not null and last_error is null) as sent,
    count(*) filter (where sent_at is not null and last_error is not null) as given_up,
    (array_agg(last_error order by id desc) filter (where last_error is not null))[1] as last_error
from alerts;

-- name: forget_sent!
delete from alerts where sent_at < now() - interval '7 days';
