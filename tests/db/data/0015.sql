-- A conversation in which the text of slow media came after what was said meanwhile, and a sender who may talk.
insert into senders (bot_id, provider_name, sender_id, state) values ('old bot', 'chat', 'anna', 'allowed');
insert into replies (bot_id, provider_name, correspondent_id, message_id, told, state, answer, created_at)
values ('old bot', 'chat', 'ben', 1, 'the transcript', 'sent', 'third', '2026-01-02 10:02'),
    ('old bot', 'chat', 'ben', 2, 'a text', 'sent', 'first', '2026-01-02 10:00'),
    ('old bot', 'chat', 'ben', 3, 'another', 'sent', 'second', '2026-01-02 10:01');
-- Who may talk to a bot: one sender who was allowed, and one who waits with a code.
insert into senders (bot_id, provider_name, sender_id, display_name, state, code, expires_at, decided_at)
values ('old talker', 'telegram', '41', 'Ann', 'allowed', null, null, now()),
    ('old talker', 'telegram', '42', 'Bob', 'pending', 'ABCD2345', now() + interval '1 hour', null);
