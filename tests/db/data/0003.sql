-- A bot that was stopped, a conversation with stored messages, one that waits for its media with its job, replies of
-- every state.
insert into configuration (name, value) values ('media_storage_quota_gb', '12');
insert into bots (id, running, starts, config)
values ('old bot', false, 3, '{"providers": {"chat": {}}, "reply": {"by": "echo", "prompt": "", "model": null, "groups": false}}');
insert into correspondents values ('old bot', 'chat', '+49', 'anna');
insert into conversations (bot_id, provider_name, correspondent_id, display_name, last_id)
values ('old bot', 'chat', 'anna', 'Anna', 3);
insert into queues (bot_id, provider_name, correspondent_id, id, content, sender, source, accepted_time, message_size,
    originating_time, provider_message_id, media)
select 'old bot', 'chat', 'anna', n, 'stored ' || n,
    '{"identifier": "anna", "display_name": "Anna", "alternate_identifiers": []}', 'user', now() - interval '1 day', 8,
    1700000000000, 'p-' || n, null
from generate_series(1, 2) n;
insert into arrivals (bot_id, provider_name, correspondent_id, provider_message_id, id, state, guid, message, media)
values
    ('old bot', 'chat', 'anna', 'p-1', 1, 'stored', null, null, null),
    ('old bot', 'chat', 'anna', 'p-2', 2, 'stored', null, null, null),
    ('old bot', 'chat', 'anna', 'p-3', 3, 'placeholder', 'old-guid',
        '{"id": 3, "content": "a caption", "sender": {"identifier": "anna", "display_name": "Anna",
        "alternate_identifiers": []}, "source": "user", "accepted_time": "2026-01-02T03:04:05+00:00", "message_size": 9,
        "originating_time": 1700000000000, "group": null, "provider_message_id": "p-3",
        "media_processing_id": "old-guid"}',
        '{"guid": "old-guid", "mime_type": "audio/ogg", "original_filename": "note.ogg", "failed_reason": null}');
insert into held_owners (owner) values ('bot:old bot');
insert into jobs (kind, pool, owner, subject_id, mime_type, priority, state, payload, max_attempts)
values ('message.process', 'audio', 'bot:old bot', 'old-guid', 'audio/ogg', 1, 'held',
    '{"file": {"staged": "old-guid"}, "bot_id": "old bot", "provider_name": "chat", "correspondent_id": "anna"}', 1);
insert into replies (bot_id, provider_name, correspondent_id, message_id, told, state, answer)
values ('old bot', 'chat', 'anna', 1, 'stored 1', 'sent', 'You said: stored 1'),
    ('old bot', 'chat', 'anna', 2, 'stored 2', 'failed', null);
