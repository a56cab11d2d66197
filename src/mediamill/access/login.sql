-- Second factors, passkeys, and logins that take several steps.

-- name: begin_factor
-- A new secret takes the place of one that was never confirmed; one that was confirmed stays as it is.
insert into second_factors (user_id, secret) values (:user_id, :secret)
on conflict (user_id) do update set secret = excluded.secret, created_at = now(), last_step = 0
where second_factors.confirmed_at is null
returning user_id;

-- name: find_factor
select secret, confirmed_at, last_step from second_factors where user_id = :user_id;

-- name: confirm_factor
update second_factors set confirmed_at = now(), last_step = :step
where user_id = :user_id and secret = :secret and confirmed_at is null
returning user_id;

-- name: use_step
-- A code is for one time step. Of two requests with the same code, the second finds the step used.
update second_factors set last_step = :step
where user_id = :user_id and confirmed_at is not null and last_step < :step
returning user_id;

-- name: insert_recovery_codes!
insert into recovery_codes (user_id, hash) select :user_id, unnest(:hashes::bytea[]);

-- name: use_recovery_code
update recovery_codes set used_at = now() where user_id = :user_id and hash = :hash and used_at is null
returning user_id;

-- name: count_recovery_codes
select count(*) from recovery_codes where user_id = :user_id and used_at is null;

-- name: remove_factor!
delete from second_factors where user_id = :user_id;

-- name: remove_recovery_codes!
delete from recovery_codes where user_id = :user_id;

-- name: insert_passkey
insert into passkeys (user_id, credential_id, public_key, sign_count, name)
values (:user_id, :credential_id, :public_key, :sign_count, :name)
on conflict (credential_id) do nothing
returning id;

-- name: list_passkeys
select id, credential_id, name, created_at, used_at from passkeys where user_id = :user_id order by id;

-- name: find_passkey
select p.id, p.public_key, p.sign_count, p.user_id, u.name, u.password_hash, u.scopes, u.disabled_at
from passkeys p join users u on u.id = p.user_id
where p.credential_id = :credential_id for update of p;

-- name: use_passkey!
update passkeys set sign_count = :sign_count, used_at = now() where id = :id;

-- name: remove_passkey
delete from passkeys where id = :id and user_id = :user_id returning name;

-- name: remove_passkeys!
delete from passkeys where user_id = :user_id;

-- name: insert_step!
insert into login_steps (hash, kind, user_id, data, expires_at)
values (:hash, :kind, :user_id, :data, now() + make_interval(secs => :seconds));

-- name: find_step
select user_id, data from login_steps where hash = :hash and kind = :kind and expires_at > now();

-- name: take_step
-- Each step is taken once: of two requests with the same cookie, the second finds nothing.
delete from login_steps where hash = :hash and kind = :kind and expires_at > now() returning user_id, data;

-- name: sweep_steps!
delete from login_steps where expires_at <= now();

-- name: find_identity
select id, name, password_hash, scopes, disabled_at from users where issuer = :issuer and subject = :subject;

-- name: insert_identity!
-- Nothing if the name is taken (it is never linked to a user who is there), or if another login was faster.
insert into users (name, issuer, subject, scopes, password_at) values (:name, :issuer, :subject, :scopes::text[], null)
on conflict do nothing;
