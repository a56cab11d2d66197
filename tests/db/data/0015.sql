-- Who may talk to a bot.
insert into senders (bot_id, provider_name, sender_id, display_name, state, decided_at) values
    ('old shop', 'whatsapp', '491', 'Ada', 'allowed', now()),
    ('old shop', 'whatsapp', '492', 'Nobody', 'blocked', now());
