-- Who may talk to a bot. One of its own: the bots of before are read as they were.
insert into bots (id, running, config) values
    ('old gate', false, '{"providers": {"whatsapp": {}}, "reply": {"by": "none"}, "access": {"mode": "paired", "groups": "never"}}');
insert into senders (bot_id, provider_name, sender_id, state, decided_at) values
    ('old gate', 'whatsapp', '491700000015@s.whatsapp.net', 'allowed', now());
insert into sender_days (bot_id, provider_name, sender_id, day, messages) values
    ('old gate', 'whatsapp', '491700000015@s.whatsapp.net', current_date, 3);
