-- Users, tokens and sessions. Of passwords, tokens and cookies only hashes are here.

-- name: insert_user
insert into users (name, password_hash, scopes) values (:name, :password_hash, :scopes::text[])
on conflict ((lower(name))) do nothing
returning id;

-- name: find_user
select id, name, password_hash, scopes, disabled_at, issuer,
    exists (select from second_factors f where f.user_id = users.id and f.confirmed_at is not null) as second_factor
from users where lower(name) = lower(:name);

-- name: show_user
select id, name, password_hash, scopes, disabled_at, issuer from users where id = :user_id;

-- name: list_users
select u.id, u.name, u.scopes, u.disabled_at, u.created_at, u.password_at, u.seen_at, u.issuer,
    exists (select from second_factors f where f.user_id = u.id and f.confirmed_at is not null) as second_factor,
    (select count(*) from passkeys p where p.user_id = u.id) as passkeys,
    (select count(*) from open_sessions s where s.user_id = u.id) as sessions,
    (select count(*) from api_tokens t where t.user_id = u.id and t.revoked_at is null) as tokens
from users u order by lower(u.name);

-- name: set_password
-- Sessions are bound to the password's hash, so that none of them outlives it, whoever opened it meanwhile.
update users set password_hash = :password_hash, password_at = now() where id = :user_id returning name;

-- name: set_scopes
update users set scopes = :scopes::text[] where id = :user_id returning name;

-- name: disable_user
update users set disabled_at = coalesce(disabled_at, now()) where id = :user_id returning name;

-- name: enable_user
update users set disabled_at = null where id = :user_id returning name;

-- name: remove_user
delete from users where id = :user_id returning name;

-- name: insert_token
-- One that is made with a token of somebody's is theirs, too: else it would outlive them.
insert into api_tokens (prefix, hash, name, scopes, user_id, made_by, expires_at)
values (:prefix, :hash, :name, :scopes::text[],
    coalesce(:user_id::bigint, (select user_id from api_tokens where id = :token_id::bigint)), :made_by,
    case when :days::double precision is not null then now() + make_interval(secs => 86400 * :days) end)
returning id, expires_at;

-- name: find_tokens
-- By prefix; the hash is compared by the caller in constant time. A token that a user made is worth what they are.
select t.id, t.hash, t.name, t.scopes, t.revoked_at, t.expires_at <= now() as expired,
    t.used_at is null or t.used_at < now() - interval '1 minute' as stale,
    t.user_id is not null as owned, u.scopes as owner_scopes, u.disabled_at as owner_disabled_at
from api_tokens t left join users u on u.id = t.user_id
where t.prefix = :prefix;

-- name: use_token!
update api_tokens set used_at = now() where id = :token_id and (used_at is null or used_at < now() - interval '1 minute');

-- name: list_tokens
select t.id, t.prefix, t.name, t.scopes, t.made_by, t.created_at, t.expires_at, t.used_at, t.revoked_at,
    case when t.revoked_at is not null then 'revoked'
        when t.expires_at <= now() then 'expired'
        when u.disabled_at is not null then 'disabled'
        else 'active' end as state
from api_tokens t left join users u on u.id = t.user_id
where :all::boolean or (t.revoked_at is null and (t.expires_at is null or t.expires_at > now()))
order by t.id desc;

-- name: revoke_token
update api_tokens set revoked_at = coalesce(revoked_at, now()) where id = :token_id returning name;

-- name: insert_session
insert into login_sessions (hash, user_id, proof, address, agent, expires_at, idle)
values (:hash, :user_id, :proof, :address, :agent, now() + make_interval(secs => :seconds),
    make_interval(secs => :idle_seconds))
returning id;

-- name: find_session
-- `stale`: its last use is written down once a minute, not with every request.
select s.id, s.user_id, s.proof, s.used_at < now() - interval '1 minute' as stale,
    u.name, u.scopes, u.password_hash, u.disabled_at
from open_sessions s left join users u on u.id = s.user_id
where s.hash = :hash;

-- name: use_session!
with used as (
    update login_sessions set used_at = now() where id = :session_id returning user_id
)
update users set seen_at = now() from used where id = used.user_id;

-- name: list_sessions
select id, address, agent, created_at, used_at, expires_at from open_sessions
where user_id is not distinct from :user_id::bigint order by used_at desc;

-- name: close_session!
delete from login_sessions where id = :session_id;

-- name: close_sessions!
-- All of somebody's but the one that asks for it.
delete from login_sessions
where user_id is not distinct from :user_id::bigint and id is distinct from :but::bigint;

-- name: close_all_sessions!
delete from login_sessions;

-- name: sweep_sessions!
delete from login_sessions where expires_at <= now() or used_at <= now() - idle;
