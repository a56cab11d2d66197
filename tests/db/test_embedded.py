"""The embedded PostgreSQL, with real servers and real kills."""

import asyncio
import contextlib
import fcntl
import os
import shutil
import signal
import socket
import stat
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from urllib.parse import unquote, urlsplit

import asyncpg
import pytest

from bench.superuser import superuser_url
from mediamill.db.embedded import (
    EmbeddedServer,
    EmbeddedServerError,
    ServerUse,
    postmaster_pid,
    stop_immediately,
)
from tests import ports
from tests.conftest import wait_until

NOBODY = 65534
as_root = pytest.mark.skipif(os.geteuid() != 0, reason="needs root")

# A process that uses the server until its input ends; with "fork" it leaves a child that lives just as long, with
# "stuck" it does not get beyond initdb.
USER = """
import os, sys
from pathlib import Path
from mediamill.db import cluster
from mediamill.db.embedded import EmbeddedServer
if "stuck" in sys.argv:
    run_tool = cluster.run_tool
    cluster.run_tool = lambda *words, **more: (run_tool(*words, **more), sys.stdin.read())
use = EmbeddedServer(Path(sys.argv[1])).start()
if "fork" in sys.argv and os.fork() == 0:
    sys.stdin.read()
    os._exit(0)
print(use.url, flush=True)
sys.stdin.read()
use.close()
"""


def run_user(data: Path, *options: str) -> subprocess.Popen[str]:
    command = [sys.executable, "-c", USER, str(data), *options]
    return subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)


def started(user: subprocess.Popen[str]) -> str:
    """The url that the user prints once it has the server."""
    assert user.stdout is not None
    url = user.stdout.readline().strip()
    assert url.startswith("postgresql://")
    return url


def leave(user: subprocess.Popen[str]) -> None:
    user.communicate(timeout=120)
    assert user.returncode == 0


def eventually(holds: Callable[[], bool], limit_seconds: float = 120) -> None:
    until = time.monotonic() + limit_seconds
    while not holds():
        assert time.monotonic() < until, "it did not become true in time"
        time.sleep(0.005)


def ask(url: str, query: str) -> object:
    return asyncio.run(fetch(url, query))


async def fetch(url: str, query: str) -> object:
    connection = await asyncpg.connect(url)
    try:
        return await connection.fetchval(query)
    finally:
        await connection.close()


def socket_folder(use: ServerUse) -> Path:
    return Path(unquote(urlsplit(use.url).netloc.rpartition("@")[2].rpartition(":")[0]))


@contextlib.contextmanager
def folder_of_a_server(data: Path) -> Iterator[Path]:
    try:
        yield data
    finally:
        stop_immediately(data)
        shutil.rmtree(data, ignore_errors=True)


@pytest.fixture
def data(tmp_path: Path) -> Iterator[Path]:
    with folder_of_a_server(tmp_path / "data") as folder:
        yield folder


@pytest.fixture(scope="module")
def cluster_with_a_row(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A data folder whose cluster exists and has a row, for tests that bring it back to life."""
    with folder_of_a_server(tmp_path_factory.mktemp("used") / "data") as folder:
        use = EmbeddedServer(folder).start()
        ask(use.url, "CREATE TABLE kept AS SELECT 'row' AS value")
        use.close()
        yield folder


@pytest.fixture
def used_data(cluster_with_a_row: Path) -> Iterator[Path]:
    yield cluster_with_a_row
    stop_immediately(cluster_with_a_row)


@pytest.fixture
def lone_use(used_data: Path) -> Iterator[ServerUse]:
    use = EmbeddedServer(used_data).start()
    yield use
    use.close()
    assert postmaster_pid(used_data) is None


def test_starts_in_a_path_with_spaces_quotes_and_other_letters() -> None:
    # not in tmp_path: with its long name the socket would go elsewhere
    name = tempfile.mkdtemp(prefix="""it's "my" Öl $HOME \\ 100% @:?#""")
    with folder_of_a_server(Path(name).resolve()) as data:
        use = EmbeddedServer(data).start()
        assert socket_folder(use) == data / "run"
        assert ask(use.url, "SELECT current_database()") == "mediamill"
        assert ask(use.url, "SELECT current_user") == "mediamill"
        use.close()
        assert postmaster_pid(data) is None


def test_a_path_too_long_for_a_socket_gets_a_private_folder_elsewhere(tmp_path: Path) -> None:
    with folder_of_a_server(tmp_path / ("long" * 30)) as data:
        use = EmbeddedServer(data).start()
        folder = socket_folder(use)
        assert ask(use.url, "SELECT 1") == 1
        use.close()
        assert folder.parent == Path(tempfile.gettempdir()).resolve()
        found = folder.lstat()
        assert stat.S_IMODE(found.st_mode) == 0o700
        assert found.st_uid == (data / "postgres").stat().st_uid

        folder.rmdir()
        folder.symlink_to(tmp_path)
        try:
            with pytest.raises(EmbeddedServerError, match="somebody else"):
                EmbeddedServer(data).start()
        finally:
            folder.unlink()


def test_a_comma_in_the_path_does_not_split_the_host(tmp_path: Path) -> None:
    with folder_of_a_server(tmp_path / "a,b") as data:
        use = EmbeddedServer(data).start()
        assert ask(use.url, "SELECT 1") == 1
        folder = socket_folder(use)
        use.close()
        folder.rmdir()


def test_two_processes_starting_at_once_on_an_empty_folder_share_one_server(data: Path) -> None:
    first, second = run_user(data), run_user(data)
    urls = {started(first), started(second)}
    assert len(urls) == 1
    server = postmaster_pid(data)

    leave(first)
    assert postmaster_pid(data) == server
    assert ask(urls.pop(), "SELECT 1") == 1

    leave(second)
    assert postmaster_pid(data) is None


def test_two_uses_in_one_process_are_two_shares_and_close_may_be_called_again(used_data: Path) -> None:
    first, second = EmbeddedServer(used_data).start(), EmbeddedServer(used_data).start()
    first.close()
    first.close()
    assert postmaster_pid(used_data) is not None
    second.close()
    assert postmaster_pid(used_data) is None


def test_a_killed_user_frees_its_share_even_if_a_fork_of_it_lives_on(used_data: Path) -> None:
    killed = run_user(used_data, "fork")
    started(killed)
    use = EmbeddedServer(used_data).start()
    killed.kill()
    killed.wait()
    use.close()
    assert postmaster_pid(used_data) is None
    killed.communicate()


def test_a_server_whose_users_were_all_killed_is_found_again(used_data: Path) -> None:
    user = run_user(used_data)
    started(user)
    server = postmaster_pid(used_data)
    user.kill()
    user.communicate()
    assert postmaster_pid(used_data) == server

    use = EmbeddedServer(used_data).start()
    assert postmaster_pid(used_data) == server
    assert ask(use.url, "SELECT value FROM kept") == "row"
    use.close()
    assert postmaster_pid(used_data) is None


# It looks at nothing else, so that it does not see that its server is gone.
BUSY_UNTIL_TOLD = "DO $$ BEGIN WHILE (pg_stat_file('go_on', true)).size IS NULL LOOP END LOOP; END $$"


async def test_after_kill_9_of_the_server_with_a_busy_backend_the_rows_are_there(used_data: Path) -> None:
    use = EmbeddedServer(used_data).start()
    await fetch(use.url, "CREATE TABLE IF NOT EXISTS late (value int)")
    busy = await asyncpg.connect(superuser_url(use.url, used_data, "mediamill"))  # who may look at files
    backend = await busy.fetchval("SELECT pg_backend_pid()")
    await busy.execute("INSERT INTO late VALUES (1)")
    go_on = used_data / "postgres" / "go_on"
    query = asyncio.ensure_future(busy.execute(BUSY_UNTIL_TOLD))
    await asyncio.sleep(0)  # lets the query leave
    server = postmaster_pid(used_data)
    assert server is not None
    await wait_until_busy(superuser_url(use.url, used_data), backend)
    os.kill(server, signal.SIGKILL)
    eventually(lambda: postmaster_pid(used_data) is None)
    assert runs(backend), "the backend must outlive its server, or this test shows nothing"

    starting = asyncio.create_task(asyncio.to_thread(EmbeddedServer(used_data).start))
    go_on.touch()
    again = await starting
    go_on.unlink()
    assert not runs(backend)
    assert postmaster_pid(used_data) != server
    assert await fetch(again.url, "SELECT value FROM late") == 1
    await asyncio.gather(query, return_exceptions=True)
    busy.terminate()
    again.close()
    use.close()


def runs(pid: int) -> bool:
    """Whether the process lives; a zombie that nobody has fetched yet has no command line."""
    try:
        return bool(Path(f"/proc/{pid}/cmdline").read_bytes())
    except (FileNotFoundError, ProcessLookupError):
        return False


async def wait_until_busy(url: str, backend: int) -> None:
    query = f"SELECT state = 'active' FROM pg_stat_activity WHERE pid = {backend}"
    async with asyncio.timeout(120):
        while not await fetch(url, query):  # noqa: ASYNC110 - the state is in another process
            await asyncio.sleep(0.005)


def test_after_an_immediate_stop_the_next_start_recovers_what_was_committed(used_data: Path) -> None:
    use = EmbeddedServer(used_data).start()
    ask(use.url, "CREATE TABLE IF NOT EXISTS sudden (value int)")
    ask(use.url, "INSERT INTO sudden VALUES (7)")
    stop_immediately(used_data)
    assert postmaster_pid(used_data) is None
    stop_immediately(used_data)

    again = EmbeddedServer(used_data).start()
    assert ask(again.url, "SELECT value FROM sudden") == 7
    use.close()
    assert postmaster_pid(used_data) is not None
    again.close()
    assert postmaster_pid(used_data) is None


async def is_recovering(url: str) -> bool:
    try:
        await (await asyncpg.connect(url)).close()
    except asyncpg.CannotConnectNowError:
        return True
    except (OSError, asyncpg.PostgresError):  # the server is just noticing
        return False
    return False


async def test_whoever_comes_while_the_server_recovers_from_a_killed_backend_waits(used_data: Path) -> None:
    use = await asyncio.to_thread(EmbeddedServer(used_data).start)
    held, victim = await asyncio.gather(asyncpg.connect(use.url), asyncpg.connect(use.url))
    holder = held.get_server_pid()
    os.kill(holder, signal.SIGSTOP)  # the server cannot recover while one of its backends lives
    os.kill(victim.get_server_pid(), signal.SIGKILL)
    try:
        await wait_until(partial(is_recovering, use.url))
        again = await asyncio.to_thread(EmbeddedServer(used_data).start)
    finally:
        with contextlib.suppress(ProcessLookupError):  # the server kills it after five seconds
            os.kill(holder, signal.SIGCONT)
    assert await fetch(again.url, "SELECT 1") == 1
    await asyncio.gather(held.close(), victim.close(), return_exceptions=True)
    again.close()
    use.close()


def test_kill_9_in_the_middle_of_initdb_leaves_nothing_that_is_used(data: Path) -> None:
    user = run_user(data, "stuck")
    eventually(lambda: bool(list(data.glob("postgres.new-*/global/*"))))
    user.kill()
    user.communicate()
    assert not (data / "postgres").exists()

    use = EmbeddedServer(data).start()
    assert ask(use.url, "SELECT 1") == 1
    use.close()
    EmbeddedServer(data).start().close()
    assert not list(data.glob("postgres.new-*"))


def test_a_stale_pid_file_that_names_another_program_does_not_matter(used_data: Path) -> None:
    pid_file = used_data / "postgres" / "postmaster.pid"
    pid_file.write_text(f"{os.getpid()}\n{used_data / 'postgres'}\n1\n5432\n\n\n  1 1\nready   \n")
    assert postmaster_pid(used_data) is None
    EmbeddedServer(used_data).start().close()
    pid_file.write_text("")
    EmbeddedServer(used_data).start().close()
    assert postmaster_pid(used_data) is None


def test_the_server_inherits_the_lock_that_says_it_lives_and_no_other(
    lone_use: ServerUse, used_data: Path
) -> None:
    links = {str(link.readlink()) for link in Path(f"/proc/{postmaster_pid(used_data)}/fd").iterdir()}
    assert {link for link in links if "/postgres." in link and not link.endswith(".log")} == {
        str(used_data / "postgres.alive")
    }
    with (used_data / "postgres.alive").open("r+") as file, pytest.raises(BlockingIOError):
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)


def test_no_tcp_port_is_open_unless_asked_for(lone_use: ServerUse, used_data: Path) -> None:
    assert ask(lone_use.url, "SHOW listen_addresses") == ""
    assert not tcp_addresses(postmaster_pid(used_data))


def tcp_addresses(pid: int | None) -> set[str]:
    """The local addresses of the TCP sockets of a process, as the kernel writes them."""
    links = (str(link.readlink()) for link in Path(f"/proc/{pid}/fd").iterdir())
    own = {link.removeprefix("socket:[").rstrip("]") for link in links if link.startswith("socket:[")}
    rows = [
        line.split()
        for table in ("tcp", "tcp6")
        for line in Path(f"/proc/net/{table}").read_text().splitlines()[1:]
    ]
    return {row[1] for row in rows if row[9] in own}


def test_commits_are_durable_and_the_socket_is_private(lone_use: ServerUse) -> None:
    for setting in ("fsync", "full_page_writes", "synchronous_commit"):
        assert ask(lone_use.url, f"SHOW {setting}") == "on"
    assert ask(lone_use.url, "SHOW max_connections") == "200"
    assert stat.S_IMODE(socket_folder(lone_use).stat().st_mode) == 0o700


def test_with_a_port_it_listens_on_loopback_only_and_wants_the_password(
    used_data: Path, free_port: int
) -> None:
    use = EmbeddedServer(used_data, free_port).start()
    assert tcp_addresses(postmaster_pid(used_data)) == {f"0100007F:{free_port:04X}"}
    for role, name in (("postgres", "postgres.password"), ("mediamill", "postgres.mediamill.password")):
        url = f"postgresql://{role}@127.0.0.1:{free_port}/mediamill"
        with pytest.raises(asyncpg.InvalidPasswordError):
            ask(url.replace("@", ":wrong@"), "SELECT 1")
        password_file = used_data / name
        assert stat.S_IMODE(password_file.stat().st_mode) == 0o600
        password = password_file.read_text().strip()
        assert ask(url.replace("@", f":{password}@"), "SELECT value FROM kept") == "row"
    use.close()


def test_a_port_is_refused_while_others_use_the_server_without_it(used_data: Path, free_port: int) -> None:
    user = run_user(used_data)
    started(user)
    with pytest.raises(EmbeddedServerError, match="no TCP port") as caught:
        EmbeddedServer(used_data, free_port).start()
    assert caught.value.fix
    user.kill()
    user.communicate()
    use = EmbeddedServer(used_data, free_port).start()
    assert tcp_addresses(postmaster_pid(used_data)) == {f"0100007F:{free_port:04X}"}
    use.close()


@pytest.fixture
def free_port() -> int:
    return ports.free_port()


def test_a_busy_port_is_a_clear_error_with_the_end_of_the_log(used_data: Path) -> None:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen()
        with pytest.raises(EmbeddedServerError, match="Address already in use") as caught:
            EmbeddedServer(used_data, listener.getsockname()[1]).start()
    assert "port" in (caught.value.fix or "")
    assert caught.value.code == "embedded_database"
    assert postmaster_pid(used_data) is None


def test_a_data_folder_that_is_a_file_is_a_clear_error(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("x")
    for data in (tmp_path / "file", tmp_path / "file" / "below"):
        with pytest.raises(EmbeddedServerError) as caught:
            EmbeddedServer(data).start()
        assert "MEDIAMILL_DATA" in (caught.value.fix or "")


def test_a_cluster_of_another_version_or_no_cluster_at_all_is_refused(tmp_path: Path) -> None:
    cluster = tmp_path / "postgres"
    cluster.mkdir()
    (cluster / "notes.txt").write_text("not a database")
    if os.geteuid() == 0:
        with pytest.raises(EmbeddedServerError, match="belongs to root"):
            EmbeddedServer(tmp_path).start()
        os.chown(cluster, NOBODY, NOBODY)
    with pytest.raises(EmbeddedServerError, match="not a PostgreSQL database"):
        EmbeddedServer(tmp_path).start()
    (cluster / "PG_VERSION").write_text("16\n")
    with pytest.raises(EmbeddedServerError, match="PostgreSQL 16"):
        EmbeddedServer(tmp_path).start()


def test_a_long_log_is_put_aside_at_the_start(used_data: Path) -> None:
    log = used_data / "logs" / "postgres.log"
    with log.open("ab") as file:
        file.truncate(11 * 1024 * 1024)
    EmbeddedServer(used_data).start().close()
    assert log.stat().st_size < 1024 * 1024
    assert log.with_name("postgres.log.1").stat().st_size == 11 * 1024 * 1024


@as_root
def test_as_root_only_the_servers_user_may_pass_a_private_folder(tmp_path: Path) -> None:
    private = tmp_path / "private"
    private.mkdir(mode=0o700)
    with folder_of_a_server(private / "data") as data:
        use = EmbeddedServer(data).start()
        server_user = (data / "postgres").stat().st_uid
        assert ask(use.url, "SELECT 1") == 1
        use.close()
        assert server_user != 0
        assert private.stat().st_mode & stat.S_IRWXO == 0
        assert may(server_user, "-x", private)
        assert not may(server_user, "-r", private)
        assert not may(NOBODY, "-x", private)
        assert not may(NOBODY, "-x", private, group=private.stat().st_gid)

        private.chmod(0o700)  # takes the entry's effect away, as pytest and others do with their folders
        assert not may(server_user, "-x", private)
        EmbeddedServer(data).start().close()


def may(uid: int, what: str, path: Path, group: int = NOBODY) -> bool:
    """Whether the kernel lets this user do this, asked below a folder that only the ACL opens."""
    command = ["/bin/sh", "-c", 'test "$1" .', "sh", what]
    done = subprocess.run(command, cwd=path, user=uid, group=group, extra_groups=[])
    return done.returncode == 0


@as_root
def test_a_full_disk_is_a_clear_error_and_leaves_no_half_made_cluster(tmp_path: Path) -> None:
    disk = tmp_path / "disk"
    disk.mkdir()
    if subprocess.run(["mount", "-t", "tmpfs", "-o", "size=20m", "none", disk]).returncode:
        pytest.skip("may not mount a small disk")
    try:
        with pytest.raises(EmbeddedServerError, match="space") as caught:
            EmbeddedServer(disk / "data").start()
        assert "free some space" in (caught.value.fix or "")
        assert not list((disk / "data").glob("postgres*/"))
    finally:
        subprocess.run(["umount", disk], check=True)
