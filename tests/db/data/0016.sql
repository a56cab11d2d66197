-- A conversation whose replies have the order in which the bot was notified.
insert into replies (bot_id, provider_name, correspondent_id, message_id, told, state, answer)
values ('old bot', 'chat', 'carl', 7, 'late media', 'sent', 'to the media');
