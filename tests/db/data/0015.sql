-- Somebody who may talk to a bot.
insert into senders (bot_id, provider_name, sender_id, display_name, state, decided_at)
values ('old shop', 'whatsapp', 'anna@net', 'Anna', 'allowed', now());
