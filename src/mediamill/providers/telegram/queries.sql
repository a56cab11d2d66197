-- Telegram. An update is kept once, taken in the order of its chat, and ended in the transaction that did its work.

-- name: begin_life
-- The same for as long as the bot is there.
with added as (
    insert into telegram_bots (bot_id) values (:bot_id) on conflict (bot_id) do nothing returning life
)
select life from added union all select life from telegram_bots where bot_id = :bot_id limit 1;

-- name: keep_updates
-- Each once, however often it comes.
insert into telegram_updates (bot_id, account, update_id, chat, message_id, album, update)
select :bot_id, :account, u.update_id, u.chat, u.message_id, u.album, u.body::jsonb
from unnest(:update_ids::bigint[], :chats::text[], :message_ids::bigint[], :albums::text[], :bodies::text[])
    as u (update_id, chat, message_id, album, body)
on conflict (bot_id, account, update_id) do nothing
returning update_id;

-- name: due_chats
-- Chats whose first open update may be taken now, or with an acknowledgement that is not told yet.
select chat from (
    select distinct on (chat) chat, not_before from telegram_updates
    where bot_id = :bot_id and account = :account and state = 'new' order by chat, update_id
) heads where not_before <= now()
union
select chat from telegram_acks where bot_id = :bot_id and account = :account and state <> 'told'
limit :amount;

-- name: open_heads
-- The first open update of every chat: if anything was begun before the process died, it was these.
select distinct on (chat) chat, update_id, update from telegram_updates
where bot_id = :bot_id and account = :account and state = 'new' order by chat, update_id;

-- name: next_updates
-- The first open update of a chat; with all of its album that are there, in the order in which they were sent.
with head as (
    select update_id, album, not_before from telegram_updates
    where bot_id = :bot_id and account = :account and chat = :chat and state = 'new' order by update_id limit 1
)
select u.update_id, u.update, u.image_saved, u.tries, u.created_at from telegram_updates u, head h
where u.bot_id = :bot_id and u.account = :account and u.chat = :chat and u.state = 'new' and h.not_before <= now()
    and (u.update_id = h.update_id or u.album = h.album)
order by u.message_id, u.update_id limit :amount;

-- name: end_update
-- No row: somebody else has ended it, and whatever was done in this transaction must not be.
update telegram_updates set state = :state, update = null, error = :error, ended_at = now()
where bot_id = :bot_id and account = :account and update_id = :update_id and state = 'new' returning update_id;

-- name: is_album_known
-- Was another of its album let in? The pieces of an album may come one by one, and only one has the caption.
select exists (select from telegram_updates
    where bot_id = :bot_id and account = :account and chat = :chat and album = :album and state = 'done');

-- name: note_image_saved
-- Its caption is still to be taken.
update telegram_updates set image_saved = true
where bot_id = :bot_id and account = :account and update_id = :update_id and state = 'new' and not image_saved
returning update_id;

-- name: postpone_update!
-- It failed; its chat waits for it.
update telegram_updates
set tries = tries + :more_tries, not_before = now() + make_interval(secs => :seconds::float8), error = :error
where bot_id = :bot_id and account = :account and update_id = :update_id and state = 'new';

-- name: forget_updates!
-- By then Telegram does not send them again.
delete from telegram_updates where ctid = any (array(
    select ctid from telegram_updates where state <> 'new' and ended_at < now() - make_interval(days => :keep_days)
    limit :batch));

-- name: forget_sends!
delete from telegram_sends where sent_at < now() - make_interval(days => :keep_days);

-- name: forget_acks!
delete from telegram_acks where updated_at < now() - make_interval(days => :keep_days);

-- name: count_images!
-- More to acknowledge, with those of the same album.
insert into telegram_acks as a (bot_id, account, chat, album, saved, refused, failed, waiting, reason)
values (:bot_id, :account, :chat, :album, :saved, :refused, :failed, :waiting, :reason)
on conflict (bot_id, account, chat, album) do update
set saved = a.saved + excluded.saved, refused = a.refused + excluded.refused, failed = a.failed + excluded.failed,
    waiting = greatest(a.waiting, excluded.waiting), reason = coalesce(excluded.reason, a.reason), updated_at = now(),
    state = case when a.state = 'sending' then a.state else 'due' end;

-- name: open_acks
select album, saved, refused, failed, waiting, reason, state, message_id from telegram_acks
where bot_id = :bot_id and account = :account and chat = :chat and state <> 'told' order by updated_at, album;

-- name: move_ack!
update telegram_acks set state = :state, message_id = coalesce(:message_id, message_id)
where bot_id = :bot_id and account = :account and chat = :chat and album = :album;

-- name: sent_parts
select part, message_id from telegram_sends where bot_id = :bot_id and send_id = :send_id order by part;

-- name: note_sent!
insert into telegram_sends (bot_id, send_id, part, message_id) values (:bot_id, :send_id, :part, :message_id)
on conflict (bot_id, send_id, part) do nothing;

-- name: take_back_sent
delete from telegram_sends where bot_id = :bot_id and send_id = :send_id returning part;
