-- Telegram: an update that waits, one that is done, what was sent.
insert into telegram_bots (bot_id, life) values ('old bot', 'a life');
insert into telegram_updates (bot_id, account, update_id, chat, message_id, state, update, ended_at)
values ('old bot', 7, 1, '5', 1, 'done', null, now()),
    ('old bot', 7, 2, '5', 2, 'new', '{"update_id": 2}', null);
insert into telegram_acks (bot_id, account, chat, album, saved, state) values ('old bot', 7, '5', 'm1', 2, 'told');
insert into telegram_sends (bot_id, send_id, part, message_id) values ('old bot', 's-1', 0, 9);
