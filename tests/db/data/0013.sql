-- An upload that is finished, and whose sender has not heard so.
insert into uploads (id, purpose, name, bytes, fingerprint, expires_at, finished_at) values
    ('00000000-0000-4000-8000-000000001301', 'video', 'unheard.mp4', 200, 'unheard', now() + interval '1 day', now());
