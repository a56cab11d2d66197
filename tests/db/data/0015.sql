-- Who may talk to a bot: one sender who was allowed, and one who waits with a code.
insert into senders (bot_id, provider_name, sender_id, display_name, state, code, expires_at, decided_at)
values ('old talker', 'telegram', '41', 'Ann', 'allowed', null, null, now()),
    ('old talker', 'telegram', '42', 'Bob', 'pending', 'ABCD2345', now() + interval '1 hour', null);
