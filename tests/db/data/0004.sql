-- Runs of an agent: one that was answered, one that waits with its image; an image that waits for a text.
insert into runs (run_id, source, thread_key, delivery_mode, text, idempotency_key, payload_hash, state, answer)
values ('00000000-0000-4000-8000-000000000401', 'api', 'old thread', 'prompt', 'what is it?', 'k-1', 'h', 'completed',
    'a cat');
insert into runs (run_id, source, thread_key, delivery_mode, text, payload_hash, state, image_count, image_bytes)
values ('00000000-0000-4000-8000-000000000402', 'api', 'old thread', 'follow_up', 'and this?', 'h2', 'queued', 1, 3);
insert into input_images (source, thread_key, run_id, mime_type, byte_size, image_bytes, position)
values ('api', 'old thread', '00000000-0000-4000-8000-000000000402', 'image/png', 3, '\x010203', 0),
    ('telegram', 'old chat', null, 'image/png', 2, '\x0405', 0);
