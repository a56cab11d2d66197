-- What dispatch asks the database besides jobs.

-- name: identity
-- Which database this is, wherever its clients find it: several may share one Redis, and must not hear each other.
select (select system_identifier from pg_control_system())::text || '-' || (select oid from pg_database where datname = current_database())::text;

-- name: is_relay_free
-- Shared and for this statement only: those who ask are not in each other's way, only the relay's own lock is.
select pg_try_advisory_xact_lock_shared(hashtextextended('relay', :lock_class));

-- name: take_relay
-- For as long as the session lives: a relay that dies is followed by another at once.
select pg_try_advisory_lock(hashtextextended('relay', :lock_class));
