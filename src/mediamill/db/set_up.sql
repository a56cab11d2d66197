-- Run by the superuser of the embedded server, through psql. Every statement may run again: a set-up that was killed
-- is repeated whole. `password` is set before, own_schema.sql follows.
\set ON_ERROR_STOP on
set log_min_error_statement = panic; -- the log must not show the password
set scram_iterations = 1; -- it has 256 random bits: nobody guesses it, however cheap a guess is
select 'create role mediamill' where not exists (select from pg_roles where rolname = 'mediamill') \gexec
alter role mediamill login nosuperuser nocreatedb nocreaterole noreplication nobypassrls password :'password';
revoke connect on database postgres, template1 from public;
select 'create database mediamill' where not exists (select from pg_database where datname = 'mediamill') \gexec
\connect mediamill
