"""The role that mediamill is in the embedded server: it owns its tables, and the machine is out of its reach."""

from __future__ import annotations

import asyncio
import contextlib
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import asyncpg
import pytest

from bench.superuser import superuser_url
from mediamill.db.embedded import EmbeddedServer, EmbeddedServerError, postmaster_pid, stop_immediately
from mediamill.db.migrate import newest_revision, schema_revision, upgrade
from mediamill.db.passfile import passfile, passfile_environment
from mediamill.db.roles import IS_SET_UP
from mediamill.engine.pools import list_pools
from tests.conftest import open_database, run_sql, server_folder

# The statements that turn SQL into files, programs or more rights.
BEYOND = (
    "copy (select 1) to program 'touch /tmp/mediamill-was-here'",
    "create table t (x text); copy t from program 'id'",
    "create table t (x text); copy t from '/etc/passwd'",
    "copy (select 1) to '/tmp/mediamill-was-here'",
    "select pg_read_file('/etc/passwd')",
    "select pg_read_file('postgresql.conf')",
    "select pg_read_binary_file('PG_VERSION')",
    "select pg_stat_file('PG_VERSION')",
    "select pg_ls_dir('.')",
    "select pg_ls_logdir()",
    "select lo_import('/etc/passwd')",
    "select lo_export(lo_create(0), '/tmp/mediamill-was-here')",
    "create function f() returns int language c as '/lib/libc.so.6', 'system'",
    "create function f() returns int language internal as 'pg_sleep'",
    "alter system set archive_command = 'touch /tmp/mediamill-was-here'",
    "set session_preload_libraries = 'x'",
    "load '/lib/x86_64-linux-gnu/libc.so.6'",
    "select pg_reload_conf()",
    "create role other superuser",
    "alter role mediamill superuser",
    "set role postgres",
    "grant pg_read_server_files to mediamill",
    "create database other",
    "create schema other",
    "create server s foreign data wrapper x",
    "select pg_create_physical_replication_slot('s')",
    "create publication p for all tables",
    "select rolpassword from pg_authid",
    "alter schema public owner to postgres",
    "drop extension vector",
    "drop database mediamill",
)
# As the versions before the role made it: everything belongs to the superuser, and the socket trusts whoever comes.
BEFORE = """
alter schema public owner to pg_database_owner;
do $$ declare each record; begin
    for each in select oid::regclass as name from pg_class
        where relnamespace = 'public'::regnamespace and relkind = 'r' loop
        execute format('alter table %s owner to postgres', each.name);
    end loop;
    for each in select oid::regprocedure as name from pg_proc where pronamespace = 'public'::regnamespace
        and not exists (select from pg_depend where objid = pg_proc.oid and deptype = 'e') loop
        execute format('alter function %s owner to postgres', each.name);
    end loop;
    for each in select stxname from pg_statistic_ext loop
        execute format('alter statistics %I owner to postgres', each.stxname);
    end loop;
end $$;
create table late (id serial primary key, big bigint generated always as identity, at timestamptz default now());
create sequence alone;
create view seen as select id from late;
create type mood as enum ('good');
alter role mediamill nologin password null;
"""
OWNERS = """
select distinct pg_get_userbyid(owner) from (
    select relowner from pg_class c where relnamespace = 'public'::regnamespace and relkind in ('r', 'v', 'S', 'i', 'p')
    union all select proowner from pg_proc p where pronamespace = 'public'::regnamespace
        and not exists (select from pg_depend where objid = p.oid and deptype = 'e')
    union all select typowner from pg_type t where typname in ('mood')
    union all select stxowner from pg_statistic_ext
    union all select nspowner from pg_namespace where nspname = 'public'
) found (owner)
"""
# Dies at the named moment of the set-up, as by kill -9: before it, at the nth statement, or after it.
DOOMED = """
import os, signal, sys
from pathlib import Path
from mediamill.db import roles
from mediamill.db.embedded import EmbeddedServer
run, when = roles._run, sys.argv[2]
def doomed(server, role, password, database, sql):
    if role == roles.SUPERUSER:
        if when == "before":
            os.kill(os.getpid(), signal.SIGKILL)
        if when.isdigit():  # psql sees no more of it, and its transaction is undone
            sql = "".join(sql.splitlines(keepends=True)[: int(when)])
        try:
            run(server, role, password, database, sql)
        finally:
            os.kill(os.getpid(), signal.SIGKILL)
    return run(server, role, password, database, sql)
roles._run = doomed
EmbeddedServer(Path(sys.argv[1])).start()
"""


@contextlib.contextmanager
def used(folder: Path) -> Iterator[str]:
    use = EmbeddedServer(folder).start()
    try:
        yield use.url
    finally:
        use.close()


@pytest.fixture
def data() -> Iterator[Path]:
    with server_folder() as folder:
        yield folder / "data"
        stop_immediately(folder / "data")


@pytest.fixture(scope="module")
def made_before() -> Iterator[Path]:
    """A migrated data folder as it was before the role, at rest: tests have a copy each."""
    with server_folder() as folder:
        data = folder / "data"
        with used(data) as url:
            asyncio.run(upgrade(url))
            asyncio.run(run_sql(superuser_url(url, data, "mediamill"), BEFORE))
        assert postmaster_pid(data) is None
        (data / "postgres.mediamill.password").unlink()
        (data / "postgres" / "mediamill_hba.conf").unlink()
        yield data


@pytest.fixture
def old_data(data: Path, made_before: Path) -> Path:
    subprocess.run(["cp", "-a", str(made_before), str(data)], check=True)
    return data


async def fetch(url: str, query: str) -> list[object]:
    connection = await asyncpg.connect(url)
    try:
        return [row[0] for row in await connection.fetch(query)]
    finally:
        await connection.close()


async def check_upgraded(url: str) -> None:
    """All is the role's, and the product works on it."""
    assert await fetch(url, OWNERS) == ["mediamill"]
    assert await fetch(url, IS_SET_UP) == [True]
    assert await fetch(url, "insert into late default values returning big") != []
    assert await schema_revision(url) == newest_revision()
    async with open_database(url) as database, database.transaction() as connection:
        assert await list_pools(connection)
        await connection.execute("alter table pools add column later int")  # as a migration would


@pytest.mark.parametrize("statements", BEYOND)
async def test_the_role_cannot_reach_the_machine_or_get_more_rights(new_url: str, statements: str) -> None:
    if os.environ.get("MEDIAMILL_TEST_DATABASE_URL"):
        pytest.skip("whose role that is, is up to its owner")
    connection = await asyncpg.connect(new_url)
    try:
        with pytest.raises((asyncpg.InsufficientPrivilegeError, asyncpg.UndefinedObjectError)):
            await connection.execute(statements)
    finally:
        await connection.close()


def test_the_role_cannot_create_an_extension(data: Path) -> None:
    with used(data) as url:
        asyncio.run(run_sql(superuser_url(url, data, "mediamill"), "drop extension vector"))
        with pytest.raises(asyncpg.InsufficientPrivilegeError, match="create extension"):
            asyncio.run(run_sql(url, "create extension vector"))
        allowed = "select has_database_privilege(current_database(), 'create')"  # trusted ones need this
        assert asyncio.run(fetch(url, allowed)) == [False]


async def test_the_role_is_kept_to_its_own_database(new_url: str) -> None:
    if os.environ.get("MEDIAMILL_TEST_DATABASE_URL"):
        pytest.skip("whose role that is, is up to its owner")
    rights = "rolsuper or rolcreatedb or rolcreaterole or rolreplication or rolbypassrls"
    assert await fetch(new_url, f"select {rights} from pg_roles where rolname = current_user") == [False]
    assert (
        await fetch(new_url, "select roleid from pg_auth_members where member = current_user::regrole") == []
    )
    for name in ("postgres", "template1"):
        with pytest.raises(asyncpg.InsufficientPrivilegeError):
            await asyncpg.connect(new_url.rpartition("/")[0] + f"/{name}")


def test_whoever_reaches_the_socket_needs_a_password(data: Path) -> None:
    with used(data) as url:
        for role in ("postgres", "mediamill"):
            there = superuser_url(url, data, "mediamill").rpartition("@")[2]
            for given in (role, f"{role}:wrong"):
                with pytest.raises((asyncpg.InvalidPasswordError, asyncpg.InternalClientError)):
                    asyncio.run(fetch(f"postgresql://{given}@{there}", "select 1"))


def test_a_data_folder_of_an_older_version_comes_up_with_everything_owned_by_the_role(old_data: Path) -> None:
    with used(old_data) as url:
        asyncio.run(check_upgraded(url))


@pytest.mark.parametrize("when", ["before", *map(str, range(3, 60, 7)), "after"])
def test_an_upgrade_that_is_killed_anywhere_is_done_by_the_next_start(old_data: Path, when: str) -> None:
    command = [sys.executable, "-c", DOOMED, str(old_data), when]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120)
    assert done.returncode == -signal.SIGKILL, done.stderr
    with used(old_data) as url:
        asyncio.run(check_upgraded(url))


def test_what_an_older_version_makes_later_is_given_to_the_role_as_well(data: Path) -> None:
    with used(data) as url:
        asyncio.run(run_sql(superuser_url(url, data, "mediamill"), "create table public.made_later ()"))
    with used(data) as url:
        assert asyncio.run(fetch(url, OWNERS)) == ["mediamill"]


@pytest.mark.parametrize("name", ["postgres.password", "postgres.mediamill.password"])
def test_a_lost_password_is_replaced(data: Path, name: str) -> None:
    with used(data) as url:
        asyncio.run(upgrade(url))
    (data / name).unlink()
    with used(data) as url:
        assert asyncio.run(fetch(url, "select current_user")) == ["mediamill"]
        assert asyncio.run(fetch(superuser_url(url, data), "select current_user")) == ["postgres"]


def test_a_password_lost_while_a_server_runs_without_users_is_replaced(data: Path) -> None:
    code = "import sys; from pathlib import Path; from mediamill.db.embedded import EmbeddedServer\n"
    code += "EmbeddedServer(Path(sys.argv[1])).start(); import os; os._exit(0)"
    subprocess.run([sys.executable, "-c", code, str(data)], check=True, timeout=120)
    (data / "postgres.password").unlink()
    (data / "postgres.mediamill.password").unlink()
    with used(data) as url:
        assert asyncio.run(fetch(superuser_url(url, data), "select current_user")) == ["postgres"]


def test_a_wrong_superuser_password_is_a_clear_error(data: Path) -> None:
    with used(data):
        pass
    (data / "postgres.password").write_text("wrong\n")
    (data / "postgres.mediamill.password").unlink()
    with pytest.raises(EmbeddedServerError) as caught:
        EmbeddedServer(data).start()
    assert "remove postgres.password" in (caught.value.fix or "")
    (data / "postgres.password").unlink()
    with used(data) as url:
        assert asyncio.run(fetch(url, "select 1")) == [1]


@pytest.mark.parametrize("password", ["plain", "a:b\\c d'\"é"])
def test_a_program_finds_the_password_in_the_file_and_nowhere_else(password: str) -> None:
    with passfile(password) as descriptor:
        told = passfile_environment(descriptor)
        command = [str(shutil.which("cat")), told["PGPASSFILE"]]
        read = subprocess.run(command, pass_fds=[descriptor], env=told, capture_output=True, check=True)
        again = subprocess.run(command, pass_fds=[descriptor], env=told, capture_output=True, check=True)
    escaped = password.replace("\\", "\\\\").replace(":", "\\:")
    assert read.stdout == again.stdout == f"*:*:*:*:{escaped}\n".encode()
    assert password not in str(told)
