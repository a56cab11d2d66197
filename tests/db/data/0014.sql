-- Bots on chat networks, of before anybody could say who may talk to them.
insert into bots (id, running, config) values
    ('old listener', true, '{"providers": {"whatsapp": {}}, "reply": {"by": "none", "groups": false}}'),
    ('old shop', true, '{"providers": {"whatsapp": {}, "chat": {}}, "reply": {"by": "echo", "groups": false}}'),
    ('old talker', false, '{"providers": {"telegram": {"token": "1:x"}}, "reply": {"by": "openai", "groups": true}}');
