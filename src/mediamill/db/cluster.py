"""The files of the embedded PostgreSQL in a data folder: cluster, settings, socket folder, log, password."""

from __future__ import annotations

import hashlib
import os
import secrets
import shutil
import stat
import tempfile
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from mediamill.db.postmaster import binaries, run_tool
from mediamill.db.root_user import OTHER_WAY, Account, EmbeddedServerError, check_readable, open_way

MAJOR_VERSION = "18"
DEFAULT_PORT = 5432  # without TCP it is only a part of the socket's name
SOCKET_PATH_BYTES = 100  # the kernel's limit is 108, with the final zero
LOG_LIMIT_BYTES = 10 * 1024 * 1024
MEGABYTE = 1024**2
BUFFERS_SHARE, LEAST_BUFFERS, MOST_BUFFERS = (
    8,
    64 * MEGABYTE,
    4096 * MEGABYTE,
)  # an eighth of the memory, between those
MEMORY_LIMIT = Path("/sys/fs/cgroup/memory.max")  # of a container
INITDB_OPTIONS = (
    "--auth-local=scram-sha-256",
    "--auth-host=scram-sha-256",
    "--encoding=UTF8",
    "--locale-provider=builtin",
    "--builtin-locale=C.UTF-8",
    "--username=postgres",
)
IMPOSSIBLE_PID = 2**31 - 2
HBA_FILE = "mediamill_hba.conf"
# In place of pg_hba.conf, which once trusted whoever reached the socket.
HBA = b"""# Written by mediamill at every start.
local all all scram-sha-256
host all all 127.0.0.1/32 scram-sha-256
"""


@dataclass(frozen=True)
class Cluster:
    """Where everything of one data folder (absolute, resolved) is, and whose it is."""

    data: Path
    account: Account

    @property
    def folder(self) -> Path:
        return self.data / "postgres"

    @property
    def log(self) -> Path:
        return self.data / "logs" / "postgres.log"

    @property
    def superuser_password(self) -> Path:
        return self.data / "postgres.password"

    @property
    def role_password(self) -> Path:
        return self.data / "postgres.mediamill.password"

    def open_way(self) -> None:
        """Let the server's user reach its files and programs."""
        program = binaries() / "postgres"
        open_way([self.folder, program], self.account)
        check_readable(program, self.account)

    def make(self) -> None:
        """Create the cluster if there is none, under another name first: a half-made one is never used."""
        for leftover in self.data.glob("postgres.new-*"):
            shutil.rmtree(leftover, ignore_errors=True)
        if self.folder.exists() and (not self.folder.is_dir() or any(self.folder.iterdir())):
            self._check_version()
            return
        self.ensure_password(self.superuser_password)
        new = Path(tempfile.mkdtemp(prefix="postgres.new-", dir=self.data))
        try:
            self.account.own(new)
            password = f"--pwfile={self.superuser_password}"
            run_tool("initdb", f"--pgdata={new}", password, *INITDB_OPTIONS, account=self.account)
            with (new / "postgresql.conf").open("a") as settings:
                settings.write("\ninclude_if_exists 'mediamill.conf'\n")
                settings.flush()
                os.fsync(settings.fileno())
            new.rename(self.folder)
        except BaseException:
            shutil.rmtree(new, ignore_errors=True)
            raise
        _sync_folder(self.data)

    def _check_version(self) -> None:
        try:
            version = (self.folder / "PG_VERSION").read_text().strip()
        except (FileNotFoundError, NotADirectoryError):
            raise EmbeddedServerError(
                f"{self.folder} holds something that is not a PostgreSQL database.",
                fix="move it away, or choose another MEDIAMILL_DATA",
            ) from None
        if version != MAJOR_VERSION:
            raise EmbeddedServerError(
                f"The database in {self.folder} was made by PostgreSQL {version}; "
                f"this mediamill brings PostgreSQL {MAJOR_VERSION}.",
                fix="dump it with the version that made it and load it into a new MEDIAMILL_DATA",
            )

    def ensure_password(self, path: Path) -> str:
        """What is in the file, which is made if it is missing."""
        if not path.exists():
            self.write(path, _new_password())
        return path.read_text().strip()

    def _reset_superuser_password(self) -> None:
        """Its file was lost, or the cluster came here without it. In single-user mode PostgreSQL asks for none."""
        password = _new_password()
        statement = f"alter role postgres password '{password.decode().strip()}'\n"
        single = ("--single", "-D", str(self.folder), "postgres")
        run_tool("postgres", *single, account=self.account, said=statement)
        self.write(self.superuser_password, password)

    def write(self, path: Path, content: bytes) -> None:
        """Replace a private file of the server in one step."""
        new = path.with_name(path.name + ".new")
        new.unlink(missing_ok=True)
        descriptor = os.open(new, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        with os.fdopen(descriptor, "wb") as file:
            file.write(content)
            file.flush()
            os.fsync(descriptor)
        self.account.own(new)
        new.replace(path)

    def prepare_start(self, port: int | None) -> None:
        """Write the settings and clear what a dead server left; the caller knows that no server lives."""
        socket_folder = self._socket_folder(port or DEFAULT_PORT)
        open_way([socket_folder], self.account)
        self._make_socket_folder(socket_folder)
        for leftover in socket_folder.glob(".s.PGSQL.*"):
            leftover.unlink()
        self._disarm_pid_file()
        access = self.folder / HBA_FILE
        self.write(access, HBA)
        settings = settings_text(socket_folder, port) + os.fsencode(f"hba_file = {_quote(str(access))}\n")
        self.write(self.folder / "mediamill.conf", settings)
        if not self.superuser_password.exists():
            self._reset_superuser_password()

    def _socket_folder(self, port: int) -> Path:
        """In the data folder if the path is short enough (and has no comma: clients split hosts there)."""
        name = "mediamill-" + hashlib.sha256(os.fsencode(self.data)).hexdigest()[:16]
        temporary = [Path(tempfile.gettempdir()).resolve(), Path("/tmp")]  # noqa: S108 - private below
        for folder in (self.data / "run", *(place / name for place in temporary)):
            socket = os.fsencode(folder / f".s.PGSQL.{port}")
            if len(socket) <= SOCKET_PATH_BYTES and b"," not in socket:
                return folder
        raise AssertionError("a folder under /tmp always fits")

    def _make_socket_folder(self, folder: Path) -> None:
        """In the temporary folder anybody may have been first, so nothing is done through a symlink."""
        with suppress(FileExistsError):
            folder.mkdir(mode=0o700)
        found = folder.lstat()
        if not stat.S_ISDIR(found.st_mode) or found.st_uid not in (self.account.uid, os.geteuid()):
            raise EmbeddedServerError(
                f"{folder} is needed for the database's socket, but it is somebody else's.",
                fix=f"remove {folder}, or {OTHER_WAY}",
            )
        descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
        try:
            os.fchmod(descriptor, 0o700)
        finally:
            os.close(descriptor)
        self.account.own(folder)

    def _disarm_pid_file(self) -> None:
        """PostgreSQL takes any process with the pid of its dead server (a zombie, too) for that server.

        The rest of the file stays, for it names the shared memory by which PostgreSQL finds old backends.
        """
        path = self.folder / "postmaster.pid"
        with suppress(FileNotFoundError):
            pid, _, rest = path.read_bytes().partition(b"\n")
            if not pid.isdigit():
                path.unlink()
            elif Path(f"/proc/{int(pid)}").exists():
                self.write(path, b"%d\n%s" % (IMPOSSIBLE_PID, rest))

    def open_log(self) -> int:
        """Open the server's log for adding; a long one is put aside first."""
        self.log.parent.mkdir(mode=0o700, exist_ok=True)
        with suppress(FileNotFoundError):
            if self.log.lstat().st_size > LOG_LIMIT_BYTES:
                self.log.replace(self.log.with_name("postgres.log.1"))
        flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW
        log = os.open(self.log, flags, 0o600)
        self.account.own(self.log)
        return log


def settings_text(socket_folder: Path, port: int | None) -> bytes:
    """The text of mediamill.conf. What makes commits durable is left as PostgreSQL has it: on."""
    buffers = min(max(_memory_bytes() // BUFFERS_SHARE, LEAST_BUFFERS), MOST_BUFFERS)
    settings = {
        "listen_addresses": "127.0.0.1" if port else "",
        "port": str(port or DEFAULT_PORT),
        "unix_socket_directories": '"' + str(socket_folder).replace('"', '""') + '"',  # it is a list
        "unix_socket_permissions": "0700",
        "password_encryption": "scram-sha-256",
        "max_connections": "200",
        "shared_buffers": f"{buffers // MEGABYTE}MB",  # taken from the system as it is filled
        "max_wal_size": "4GB",
        "checkpoint_timeout": "15min",
        "autovacuum_naptime": "10s",
        "jit": "off",
        "log_min_messages": "warning",
        "timezone": "UTC",
        "log_timezone": "UTC",
    }
    lines = [f"{name} = {_quote(value)}\n" for name, value in settings.items()]
    return os.fsencode("# Written by mediamill at every start.\n" + "".join(lines))


def _new_password() -> bytes:
    return secrets.token_urlsafe(32).encode() + b"\n"


def _memory_bytes() -> int:
    """Of the machine, or of the container if that has less."""
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    with suppress(OSError, ValueError):  # there is none, or it is "max"
        memory = min(memory, int(MEMORY_LIMIT.read_text()))
    return memory


def _quote(value: str) -> str:
    return "'" + value.replace("\\", "\\\\").replace("'", "''") + "'"


def _sync_folder(folder: Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
