-- A user who made a token, a session of each kind, what was done.
insert into users (name, password_hash, scopes, seen_at) values
    ('old ann', '$argon2id$v=19$m=65536,t=3,p=4$qoE2qEiZfvxqL8379Re8Rw$1PymGPEI+EL9HVLF6+PKJBNE0O5p0wjTOcUXe51Wys4',
        '{read,ingest}', now() - interval '1 day');
insert into api_tokens (prefix, hash, name, scopes, user_id, made_by)
select 'oldtoken', sha256('mill_oldtoken-of-ann'), 'old camera', '{ingest}', id, name from users where name = 'old ann';
insert into login_sessions (hash, user_id, proof, expires_at)
select sha256('an old session'), id, sha256(convert_to(password_hash, 'UTF8')), now() + interval '1 day' from users where name = 'old ann';
insert into audit (who, kind, address, action, subject, outcome) values
    ('old ann', 'user', '203.0.113.9', 'pool.change', 'audio', '200');
