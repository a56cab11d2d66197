-- Somebody who was allowed to talk to a bot, of before jobs could wait for a model server.
insert into senders (bot_id, provider_name, sender_id, display_name, state, decided_at)
values ('old shop', 'whatsapp', '4912345', 'Old Fan', 'allowed', now());
