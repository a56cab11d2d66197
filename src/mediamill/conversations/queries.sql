-- Conversations. What arrived is kept whole in arrivals until it is in queues; every move between the two is one statement.

-- name: last_id
-- The highest id that was ever given in a conversation, placeholders included.
select coalesce(max(last_id), 0) from conversations
where bot_id = :bot_id and provider_name = :provider_name and correspondent_id = :correspondent_id;

-- name: accept
-- A new message, once by its provider's id: of two that come at once the second waits, and gets no row.
with added as (
    insert into arrivals (bot_id, provider_name, correspondent_id, provider_message_id, id, state, guid, message, media, ready_at)
    values (:bot_id, :provider_name, :correspondent_id, :provider_message_id, :id::bigint,
        case when :guid::text is null then 'ready' else 'placeholder' end, :guid::text, :message::jsonb, :media::jsonb,
        case when :guid::text is null then now() end)
    on conflict (bot_id, provider_name, correspondent_id, provider_message_id) do nothing
    returning id
), known as (
    insert into conversations as c (bot_id, provider_name, correspondent_id, display_name, is_group, last_id)
    select :bot_id, :provider_name, :correspondent_id, :display_name::text, :is_group::boolean, id from added
    on conflict (bot_id, provider_name, correspondent_id) do update
    set display_name = coalesce(excluded.display_name, c.display_name), last_at = now(),
        is_group = excluded.is_group, last_id = greatest(c.last_id, excluded.last_id)
), told as (
    insert into events (topic, subject, data)
    select 'message.received', :bot_id, jsonb_build_object('provider_name', :provider_name::text,
        'correspondent_id', :correspondent_id::text, 'id', id, 'media', :guid::text is not null)
    from added
)
select id from added;

-- name: find_arrival
select id, state, guid, message from arrivals
where bot_id = :bot_id and provider_name = :provider_name and correspondent_id = :correspondent_id
    and provider_message_id = :provider_message_id;

-- name: open_arrivals
-- What a bot had in memory when it was last alive, in the order of ids.
select a.provider_name, a.correspondent_id, a.message, c.last_id from arrivals a
join conversations c using (bot_id, provider_name, correspondent_id)
where a.bot_id = :bot_id and a.state <> 'stored' order by a.provider_name, a.correspondent_id, a.id;

-- name: finish_arrivals
-- The text of placeholders has come, or word that there will be none. Only once: a second word finds no placeholder.
-- "guid = any" next to the join, and the state in brackets: found by guid, not by a look at everything that is open.
with done as (
    update arrivals a
    set state = 'ready', ready_at = now(), media = a.media || jsonb_build_object('failed_reason', f.failed_reason),
        message = a.message || jsonb_build_object('content', f.content, 'message_size', length(f.content),
            'media_processing_id', null)
    from unnest(:guids::text[], :contents::text[], :failed_reasons::text[]) as f (guid, content, failed_reason)
    where a.guid = any (:guids) and a.guid = f.guid and (a.state = 'placeholder') is true
    returning a.*
), told as (
    insert into events (topic, subject, data)
    select 'message.ready', bot_id, jsonb_build_object('provider_name', provider_name, 'correspondent_id', correspondent_id,
        'id', id, 'failed_reason', media ->> 'failed_reason')
    from done
)
select guid, pg_notify('mediamill_messages', bot_id) from done;

-- name: rewrite_waiting
-- The same for one that failed, was told, and is not stored yet. Waits for a store that is under way.
with done as (
    update arrivals a
    set media = a.media || jsonb_build_object('failed_reason', f.failed_reason),
        message = a.message || jsonb_build_object('content', f.content, 'message_size', length(f.content))
    from unnest(:guids::text[], :contents::text[], :failed_reasons::text[]) as f (guid, content, failed_reason)
    where a.guid = any (:guids) and a.guid = f.guid and (a.state = 'ready') is true and a.media ->> 'failed_reason' is not null
    returning a.*
), told as (
    insert into events (topic, subject, data)
    select 'message.ready', bot_id, jsonb_build_object('provider_name', provider_name, 'correspondent_id', correspondent_id,
        'id', id, 'failed_reason', media ->> 'failed_reason')
    from done
)
select guid from done;

-- name: rewrite_stored
-- A media message that failed once and was processed again later: its text takes the place of the notice.
with done as (
    update queues q
    set content = f.content, message_size = length(f.content),
        media = q.media || jsonb_build_object('failed_reason', f.failed_reason)
    from unnest(:guids::text[], :contents::text[], :failed_reasons::text[]) as f (guid, content, failed_reason)
    join arrivals a on a.guid = any (:guids) and a.guid = f.guid and (a.state = 'stored') is true
    where q.bot_id = a.bot_id and q.provider_name = a.provider_name and q.correspondent_id = a.correspondent_id and q.id = a.id
    returning f.guid, q.bot_id, q.provider_name, q.correspondent_id, q.id, f.failed_reason
), told as (
    insert into events (topic, subject, data)
    select 'message.ready', bot_id, jsonb_build_object('provider_name', provider_name, 'correspondent_id', correspondent_id,
        'id', id, 'failed_reason', failed_reason)
    from done
)
select guid from done;

-- name: ready_media
-- Media messages of these bots whose text has come and may not be in memory yet.
select bot_id, provider_name, correspondent_id, id, guid, message ->> 'content' as content from arrivals
where bot_id = any (:bot_ids::text[]) and state = 'ready' and guid is not null
order by id limit :batch;

-- name: store_messages!
-- Finished messages out of memory, for good. One that is stored already (a lost answer) stays as it is. Locked, so that
-- a text that replaces a notice at this moment is stored, not the notice.
with f as materialized (
    select * from unnest(:provider_names::text[], :correspondent_ids::text[], :ids::bigint[])
        as f (provider_name, correspondent_id, id)
), moved as (
    select a.* from f
    join arrivals a on a.bot_id = :bot_id and a.provider_name = f.provider_name
        and a.correspondent_id = f.correspondent_id and a.id = f.id and a.state = 'ready'
    for update of a
), kept as (
    insert into queues (bot_id, provider_name, correspondent_id, id, content, sender, source, accepted_time,
        message_size, originating_time, "group", provider_message_id, media)
    select a.bot_id, a.provider_name, a.correspondent_id, a.id, m.content, m.sender, m.source, m.accepted_time,
        m.message_size, m.originating_time, nullif(m."group", 'null'), a.provider_message_id, a.media
    from moved a cross join lateral jsonb_to_record(a.message) as m (content text, sender jsonb, source text,
        accepted_time timestamptz, message_size integer, originating_time bigint, "group" jsonb)
    on conflict (bot_id, provider_name, correspondent_id, id) do nothing
)
update arrivals a set state = 'stored', message = null from moved m
where a.bot_id = m.bot_id and a.provider_name = m.provider_name and a.correspondent_id = m.correspondent_id and a.id = m.id;

-- name: left_behind
-- Finished messages that are long out of memory (evicted by a limit before they were stored).
select provider_name, correspondent_id, id from arrivals
where bot_id = :bot_id and state = 'ready' and ready_at < now() - make_interval(secs => :older_than_seconds)
order by id limit :batch;

-- name: open_placeholders
-- Of these, those that still wait for their text.
select guid from arrivals where guid = any (:guids::text[]) and (state = 'placeholder') is true;

-- name: jobless_placeholders
-- Of these placeholders, those from before this moment that no job will ever finish.
select a.guid, a.message ->> 'content' as caption from arrivals a
where a.guid = any (:guids::text[]) and a.state = 'placeholder' and a.accepted_at < :before
    and not exists (select from jobs j where j.subject_id = a.guid);

-- name: stored_media
-- Of these, those that are stored.
select guid from arrivals where guid = any (:guids::text[]) and (state = 'stored') is true;

-- name: forget_arrivals!
-- By then no provider sends a message again.
delete from arrivals where ctid = any (array(
    select ctid from arrivals where state = 'stored' and accepted_at < now() - make_interval(days => :keep_days) limit :batch));

-- name: find_correspondent
-- The conversation of somebody who is known by one of these identifiers; the oldest one if there are several.
select c.correspondent_id from correspondents c
left join conversations v on v.bot_id = c.bot_id and v.provider_name = c.provider_name
    and v.correspondent_id = c.correspondent_id
where c.bot_id = :bot_id and c.provider_name = :provider_name and c.identifier = any (:identifiers::text[])
order by c.identifier <> :first, v.last_id desc nulls last, c.correspondent_id limit 1;

-- name: know_correspondent!
insert into correspondents (bot_id, provider_name, identifier, correspondent_id)
select :bot_id, :provider_name, identifier, :correspondent_id from unnest(:identifiers::text[]) as i (identifier)
on conflict (bot_id, provider_name, identifier) do nothing;

-- name: list_conversations
select c.provider_name, c.correspondent_id, c.display_name, c.is_group, c.last_at, c.last_id,
    (select count(*) from arrivals a where a.bot_id = c.bot_id and a.provider_name = c.provider_name
        and a.correspondent_id = c.correspondent_id and a.state = 'placeholder') as processing
from conversations c
where c.bot_id = :bot_id and c.last_at < coalesce(:before::timestamptz, 'infinity')
order by c.last_at desc limit :amount;

-- name: find_conversation
select provider_name, correspondent_id, display_name, is_group, last_at, last_id from conversations
where bot_id = :bot_id and provider_name = :provider_name and correspondent_id = :correspondent_id;

-- name: list_messages
-- Stored or not, in the true order; the newest that are asked for.
select * from (
    (select q.id, q.content, q.sender, q.source, q.accepted_time, q.message_size, q.originating_time, q."group",
        q.provider_message_id, null::text as media_processing_id, q.media
    from queues q
    where q.bot_id = :bot_id and q.provider_name = :provider_name and q.correspondent_id = :correspondent_id
        and q.id < coalesce(:before::bigint, 9223372036854775807) and q.id > coalesce(:after::bigint, -1)
    order by q.id desc limit :amount)
    union all
    (select a.id, m.content, m.sender, m.source, m.accepted_time, m.message_size, m.originating_time,
        nullif(m."group", 'null'), a.provider_message_id, m.media_processing_id, a.media
    from arrivals a cross join lateral jsonb_to_record(a.message) as m (content text, sender jsonb, source text,
        accepted_time timestamptz, message_size integer, originating_time bigint, "group" jsonb, media_processing_id text)
    where a.bot_id = :bot_id and a.provider_name = :provider_name and a.correspondent_id = :correspondent_id
        and a.state <> 'stored'
        and a.id < coalesce(:before::bigint, 9223372036854775807) and a.id > coalesce(:after::bigint, -1)
    order by a.id desc limit :amount)
) all_of_them order by id desc limit :amount;

-- name: media_jobs
-- What the engine says of these media: at work, or dead and why, and whether it would still find its file.
select subject_id as guid, id as job_id, state, percent, null::text as error, false as file_gone from jobs
where subject_id = any (:guids::text[]) and kind = 'message.process'
union all
select subject_id, id, 'dead', null, error,
    payload #> '{file,given_up}' is not null and result is null and reason <> 'delivery_failed'
from dead_jobs
where subject_id = any (:guids::text[]) and kind = 'message.process';

-- name: add_reply!
insert into replies (bot_id, provider_name, correspondent_id, message_id, told, sender_id)
values (:bot_id, :provider_name, :correspondent_id, :message_id, :told, :sender_id)
on conflict (bot_id, provider_name, correspondent_id, message_id) do update set told = excluded.told
where replies.state = 'failed' and replies.answer is null; -- noted by a restore, before its text was known

-- name: stop_open_replies!
-- Of a backup that is restored: what was due then has most likely been answered since. It fails, and can be asked for.
update replies set state = 'failed', error = :error, ended_at = now() where state in ('due', 'written');

-- name: stop_coming_replies!
-- The same for messages that were still on their way to being answered.
insert into replies (bot_id, provider_name, correspondent_id, message_id, told, sender_id, state, error, ended_at)
select a.bot_id, a.provider_name, a.correspondent_id, a.id, coalesce(a.message ->> 'content', ''),
    a.message #>> '{sender,identifier}', 'failed', :error, now()
from arrivals a join bots b on b.id = a.bot_id
where a.state <> 'stored' and a.message ->> 'source' = 'user' and coalesce(b.config #>> '{reply,by}', 'none') <> 'none'
on conflict (bot_id, provider_name, correspondent_id, message_id) do nothing;

-- name: open_replies
-- Conversations in which an answer is due; notices (below zero) go out also if nobody answers for the bot.
select distinct provider_name, correspondent_id from replies
where bot_id = :bot_id and state in ('due', 'written') and (message_id < 0 or :answers::boolean);

-- name: next_reply
-- Notices first, then in the order in which the bot was notified: the text of slow media comes after what was said meanwhile.
select message_id, notified_order, told, state, answer, tries from replies
where bot_id = :bot_id and provider_name = :provider_name and correspondent_id = :correspondent_id
    and state in ('due', 'written') and (message_id < 0 or :answers::boolean)
order by message_id > 0, notified_order limit 1;

-- name: past_replies
-- What the bot was notified of before this message, newest first.
select told, answer from replies
where bot_id = :bot_id and provider_name = :provider_name and correspondent_id = :correspondent_id
    and notified_order < :notified_order and message_id > 0 and answer is not null
order by notified_order desc limit :amount;

-- name: move_reply
-- An answer that was written stays: it may have been sent.
with moved as (
    update replies
    set state = :state, answer = coalesce(answer, :answer), error = :error, tries = :tries,
        ended_at = case when :state in ('sent', 'failed') then now() end
    where bot_id = :bot_id and provider_name = :provider_name and correspondent_id = :correspondent_id
        and message_id = :message_id and state in ('due', 'written')
    returning *
), failed as (
    insert into events (topic, subject, data)
    select 'reply.failed', bot_id, jsonb_build_object('provider_name', provider_name, 'correspondent_id', correspondent_id,
        'id', message_id, 'error', error)
    from moved where state = 'failed' and message_id > 0
)
select sender_id from moved;

-- name: list_failed_replies
select provider_name, correspondent_id, message_id, error, ended_at from replies
where bot_id = :bot_id and provider_name = :provider_name and correspondent_id = :correspondent_id and state = 'failed'
    and message_id > 0
order by message_id desc limit :amount;

-- name: redo_reply
with again as (
    update replies set state = case when answer is null then 'due' else 'written' end, tries = 0, error = null, ended_at = null
    where bot_id = :bot_id and provider_name = :provider_name and correspondent_id = :correspondent_id
        and message_id = :message_id and state = 'failed'
    returning bot_id
)
select pg_notify('mediamill_bots', bot_id) from again;

-- name: add_bot
insert into bots (id, config) values (:id, :config::jsonb) on conflict (id) do nothing returning id;

-- name: list_bots
select b.id, b.running, b.config, b.status, b.created_at,
    (select count(*) from conversations c where c.bot_id = b.id) as conversations,
    (select count(*) from arrivals a where a.bot_id = b.id and a.state = 'placeholder') as processing
from bots b where :id::text is null or b.id = :id order by b.id;

-- name: change_bot
-- Whoever runs bots is told.
with changed as (
    update bots set running = coalesce(:running, running), config = coalesce(:config::jsonb, config), updated_at = now(),
        starts = starts + (not running and coalesce(:running, false))::integer
    where id = :id returning id
), told as (
    insert into events (topic, subject, data) select 'bot.changed', id, '{}' from changed
)
select id, pg_notify('mediamill_bots', id) from changed;

-- name: delete_bot
with gone as (delete from bots where id = :id and not running returning id), told as (
    insert into events (topic, subject, data) select 'bot.changed', id, '{}' from gone
)
select id, pg_notify('mediamill_bots', id) from gone;

-- name: tell_status!
-- What a provider of a bot says of itself; told only when it is news.
with changed as (
    update bots set status = status || jsonb_build_object(:provider_name::text, :status::jsonb)
    where id = :id and (status -> :provider_name) is distinct from :status::jsonb returning id
)
insert into events (topic, subject, data) select 'bot.changed', id, '{}' from changed;

-- name: bots_to_run
select id, config, starts from bots where running order by id;

-- name: lock_bot
-- It stays as it is until the transaction ends: of a start and a stop at the same time, the stop has the last word.
select running from bots where id = :id for share;

-- name: get_configuration
select value from configuration where name = :name;

-- name: list_configuration
select name, value, updated_at from configuration order by name;

-- name: set_configuration
with set_ as (
    insert into configuration (name, value) values (:name, :value::jsonb)
    on conflict (name) do update set value = excluded.value, updated_at = now() returning name
)
select pg_notify('mediamill_bots', '') from set_;

-- name: unset_configuration
with gone as (delete from configuration where name = :name returning name)
select name, pg_notify('mediamill_bots', '') from gone;

-- name: findable_media
select a.guid, a.bot_id, a.provider_name, a.correspondent_id, a.id, a.media, a.accepted_at as arrived_at, c.display_name
from arrivals a left join conversations c on c.bot_id = a.bot_id and c.provider_name = a.provider_name
    and c.correspondent_id = a.correspondent_id
where a.guid = any (:guids::text[]);

-- name: media_after
-- The next so many media messages of those that are stored. Held, so that a text that is rewritten meanwhile is the last.
select q.bot_id, q.provider_name, q.correspondent_id, q.id, q.media ->> 'guid' as guid, q.content, q.media,
    q.media ->> 'failed_reason' as failed_reason, q.accepted_time as arrived_at, c.display_name
from queues q left join conversations c on c.bot_id = q.bot_id and c.provider_name = q.provider_name
    and c.correspondent_id = q.correspondent_id
where q.media is not null and (q.bot_id, q.provider_name, q.correspondent_id, q.id)
    > (:bot_id::text, :provider_name::text, :correspondent_id::text, :id::bigint)
order by q.bot_id, q.provider_name, q.correspondent_id, q.id limit :batch for share of q;
