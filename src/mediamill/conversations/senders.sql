-- Who may talk to a bot, and how much. A day is a calendar day in UTC.

-- name: find_sender
-- What the owner decided about somebody, by any of the ids; a block of one of them counts most.
select s.sender_id, s.state, s.expires_at > now() as is_live from senders s
where s.bot_id = :bot_id and s.provider_name = :provider_name and s.sender_id in (
    select unnest(:identifiers::text[]) union
    select c.correspondent_id from correspondents c
    where c.bot_id = :bot_id and c.provider_name = :provider_name and c.identifier = any (:identifiers))
order by s.state = 'blocked' desc, s.state = 'allowed' desc limit 1;

-- name: lock_codes
-- Strangers who come at once wait for each other, so that the number of codes stays within its bound.
select pg_advisory_xact_lock(7236962, hashtext(:bot_id));

-- name: forget_codes!
delete from senders where bot_id = :bot_id and state = 'pending' and expires_at <= now();

-- name: add_code
-- One code for each stranger, as long as there is room. No row: there is none, or somebody has decided meanwhile.
with added as (
    insert into senders (bot_id, provider_name, sender_id, display_name, state, identifiers, code, asked_at, expires_at)
    select :bot_id, :provider_name, :sender_id, :display_name, 'pending', :identifiers::text[], :code, now(),
        now() + make_interval(secs => :seconds::float8)
    where (select count(*) from senders where bot_id = :bot_id and state = 'pending') < :most::integer
    on conflict do nothing
    returning bot_id, code
), changed as (
    insert into events (topic, subject, data) select 'bot.changed', bot_id, '{}' from added
)
select code from added;

-- name: add_notice
-- A short word to somebody that answers no message: among the replies, with an id below zero, ready to be sent.
with added as (
    insert into replies (bot_id, provider_name, correspondent_id, message_id, told, state, answer)
    values (:bot_id, :provider_name, :correspondent_id, nextval('notice_ids'), '', 'written', :text)
    returning bot_id
)
select pg_notify('mediamill_bots', bot_id) from added;

-- name: forget_notices!
delete from replies where message_id < 0 and ended_at < now() - interval '1 day';

-- name: sender_key
-- Under which id somebody is counted: that of the conversation, if there is one.
select coalesce((
    select c.correspondent_id from correspondents c
    where c.bot_id = :bot_id and c.provider_name = :provider_name and c.identifier = any (:identifiers::text[])
    order by c.identifier <> :first, c.correspondent_id limit 1), :first);

-- name: read_day
select messages, media_seconds, tokens from sender_days
where bot_id = :bot_id and provider_name = :provider_name and sender_id = :sender_id
    and day = (now() at time zone 'utc')::date;

-- name: lock_day
-- The same, in the transaction that counts: nobody else counts in between.
insert into sender_days as d (bot_id, provider_name, sender_id, day)
values (:bot_id, :provider_name, :sender_id, (now() at time zone 'utc')::date)
on conflict (bot_id, provider_name, sender_id, day) do update set messages = d.messages
returning messages, media_seconds, tokens;

-- name: count_used!
insert into sender_days as d (bot_id, provider_name, sender_id, day, messages, media_seconds, tokens)
values (:bot_id, :provider_name, :sender_id, coalesce(:day::date, (now() at time zone 'utc')::date), :messages,
    greatest(0, :media_seconds::float8), :tokens)
on conflict (bot_id, provider_name, sender_id, day) do update
set messages = d.messages + excluded.messages, tokens = d.tokens + excluded.tokens,
    media_seconds = greatest(0, d.media_seconds + :media_seconds::float8);

-- name: note_notified
-- That the limit is reached is said once a day. No row: it was said.
insert into sender_days as d (bot_id, provider_name, sender_id, day, notified)
values (:bot_id, :provider_name, :sender_id, (now() at time zone 'utc')::date, true)
on conflict (bot_id, provider_name, sender_id, day) do update set notified = true where not d.notified
returning extract(epoch from (day + 1)::timestamp - (now() at time zone 'utc'))::float8 as seconds_left;

-- name: forget_days!
delete from sender_days where day < (now() at time zone 'utc')::date - :keep_days::integer;

-- name: forget_old_codes!
delete from senders where state = 'pending' and expires_at <= now();

-- name: list_senders
-- Those with a code first, the latest above; with what they used today.
select s.provider_name, s.sender_id, s.display_name, s.state, s.code, s.asked_at, s.expires_at, s.decided_at,
    coalesce(d.messages, 0) as messages, coalesce(d.media_seconds, 0) as media_seconds, coalesce(d.tokens, 0) as tokens
from senders s left join sender_days d on d.bot_id = s.bot_id and d.provider_name = s.provider_name
    and d.sender_id = s.sender_id and d.day = (now() at time zone 'utc')::date
where s.bot_id = :bot_id and (s.state <> 'pending' or s.expires_at > now())
order by s.state <> 'pending', s.state, coalesce(s.asked_at, s.decided_at) desc, s.sender_id;

-- name: find_code
select provider_name, sender_id from senders
where bot_id = :bot_id and code = :code and state = 'pending' and expires_at > now();

-- name: lock_stranger
-- Somebody who waits with a code: of two owners who decide at once, the second finds nobody.
select identifiers from senders
where bot_id = :bot_id and provider_name = :provider_name and sender_id = :sender_id and state = 'pending'
    and expires_at > now() for update;

-- name: decide_sender!
-- Allowed or blocked, from the next message on.
with decided as (
    insert into senders as s (bot_id, provider_name, sender_id, state, decided_at)
    values (:bot_id, :provider_name, :sender_id, :state, now())
    on conflict (bot_id, provider_name, sender_id) do update
    set state = excluded.state, code = null, expires_at = null, decided_at = now()
    returning bot_id
)
insert into events (topic, subject, data) select 'bot.changed', bot_id, '{}' from decided;

-- name: forget_sender
with gone as (
    delete from senders where bot_id = :bot_id and provider_name = :provider_name and sender_id = :sender_id
    returning bot_id
), changed as (
    insert into events (topic, subject, data) select 'bot.changed', bot_id, '{}' from gone
)
select bot_id from gone;
