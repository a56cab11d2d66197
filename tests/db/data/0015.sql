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
-- Photos and a film with times, when those were kept in UTC.
insert into libraries (slug, name, absolute_path, deleted_at) values ('old-times', 'Old times', '/gone/times', now());
insert into assets (library, folder, rel_path, type, mtime_ns, size, inode, shown_at, status, output, facts)
select l.number, 0, a.name, a.type, 1, 1, 1, a.shown::timestamptz, 'completed', '1-1', a.facts::jsonb
from libraries l, (values
    ('phone.jpg', 'image', '2024-05-31 22:30Z', '{"format": "JPEG", "taken_at": "2024-06-01T00:30:00+02:00", "taken_zone": "camera"}'),
    ('camera.jpg', 'image', '2024-06-01 00:30Z', '{"format": "JPEG", "taken_at": "2024-06-01T00:30:00", "taken_zone": "unknown"}'),
    ('wrong.jpg', 'image', '2024-06-01 00:30Z', '{"taken_at": "2024-02-31T00:30:00", "taken_zone": "unknown"}'),
    ('iphone.mov', 'video', '2024-05-31 22:30Z', '{"taken_zone": "camera", "tags":
        {"com.apple.quicktime.creationdate": "2024-06-01T00:30:00+0200", "creation_time": "2024-05-31T22:30:00Z"}}'),
    ('android.mp4', 'video', '2024-05-31 22:30Z', '{"taken_zone": "utc"}'),
    ('canon.cr3', 'image', '2024-07-01 10:00Z', '{"format": "RAW"}'),
    ('shot.png', 'image', '2024-07-01 10:00Z', '{"format": "PNG"}')) a (name, type, shown, facts)
where l.slug = 'old-times';
