"""The database out by pg_dump, in one snapshot, and in by pg_restore and psql, in one transaction.

All are fed and read through pipes of this process: when it is killed, they end, and the transaction was not ended.
"""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import subprocess
import tempfile
import threading
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import IO
from urllib.parse import unquote, urlsplit, urlunsplit

from mediamill.backup.copying import Progress, StoppedError
from mediamill.backup.durable import CHUNK_BYTES
from mediamill.backup.store import queries
from mediamill.db.connection import connect
from mediamill.db.passfile import passfile, passfile_environment
from mediamill.db.postmaster import ENVIRONMENT, binaries
from mediamill.db.root_user import EmbeddedServerError
from mediamill.errors import ConflictError, UnavailableError

DUMPING, LOADING = "mediamill backup", "mediamill restore"  # their sessions
COMPRESSION = "3"
BEGIN = b"begin;\n"
HEAD_BYTES = 4096
UNKNOWN_BEFORE_17 = b"SET transaction_timeout = 0;\n"  # zero is the default where it is known
# What says how to reach a server, as any client of PostgreSQL reads it.
PASSED = ("HOME", "PGPASSFILE", "PGSSLMODE", "PGSSLROOTCERT", "PGSSLCERT", "PGSSLKEY", "PGSSLCRL")
COMPLAINT_CHARACTERS = 2_000


class ClientTooOldError(UnavailableError):
    """PostgreSQL's own programs here are older than the server."""

    code = "postgres_client_too_old"


class NothingToBackUpError(ConflictError):
    """The database holds nothing of mediamill yet."""

    code = "nothing_to_back_up"


class ToolFailedError(UnavailableError):
    """One of PostgreSQL's programs failed."""

    code = "postgres_tool_failed"


@dataclass(frozen=True)
class Snapshot:
    """One moment of the database, for as long as the block lasts."""

    name: str
    schema_revision: str
    server_version: int


@asynccontextmanager
async def open_snapshot(url: str) -> AsyncIterator[Snapshot]:
    """What is committed now is in it; what comes later is not."""
    connection = await connect(url, name=DUMPING)
    try:
        async with connection.transaction(isolation="repeatable_read", readonly=True):
            name = await queries.export_snapshot.value(connection)
            if not await queries.has_schema.value(connection):
                raise NothingToBackUpError(fix="`mediamill up` makes the schema")
            revision = await queries.found_revision.value(connection)
            yield Snapshot(name, str(revision), connection.get_server_version().major)
    finally:
        await connection.close()


def find_program(name: str, server_version: int) -> Path:
    """pg_dump or pg_restore, not older than the server: ours, or one that is installed."""
    versions = []
    for program in _programs(name):
        version = _major_version(program)
        if version >= server_version:
            return program
        versions.append(version)
    newest = max(versions, default=None)
    there = f"the newest {name} here is of {newest}" if newest else f"there is no {name} here"
    raise ClientTooOldError(
        f"the server is PostgreSQL {server_version}, and {there}",
        fix=f"put the {name} of PostgreSQL {server_version} or newer on the PATH",
    )


def _programs(name: str) -> list[Path]:
    found = shutil.which(name)
    try:
        return [binaries() / name, *([Path(found)] if found else [])]
    except EmbeddedServerError:
        return [Path(found)] if found else []


def _major_version(program: Path) -> int:
    done = subprocess.run(  # noqa: S603 - a program of PostgreSQL, no shell
        [program, "--version"], capture_output=True, text=True, env=ENVIRONMENT, check=False
    )
    said = re.search(r"\s(\d+)", done.stdout)
    return int(said[1]) if said else 0


def dump_database(url: str, snapshot: Snapshot, target: Path, stop: threading.Event) -> tuple[int, str]:
    """The database as it was in the snapshot; size and hash of the dump."""
    program = find_program("pg_dump", snapshot.server_version)
    options = ["--format=custom", f"--compress={COMPRESSION}", f"--snapshot={snapshot.name}"]
    digest, size = hashlib.sha256(), 0
    with _running([str(program), *options], url, DUMPING, stdout=subprocess.PIPE) as tool:
        assert tool.process.stdout is not None
        with os.fdopen(os.open(target, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
            while chunk := tool.process.stdout.read(CHUNK_BYTES):
                if stop.is_set():
                    raise StoppedError
                file.write(chunk)
                digest.update(chunk)
                size += len(chunk)
            file.flush()
            os.fsync(file.fileno())
        tool.end()
    return size, digest.hexdigest()


def load_database(url: str, server_version: int, dump: Path, seal: str, progress: Progress) -> None:
    """All of the dump, or nothing: it is one transaction, and its end is the last thing that is said.

    `seal` stays on the schema, as the sign that this is where the rows come from.
    """
    program = find_program("pg_restore", server_version)
    options = ["--file=-", "--no-owner", "--no-privileges", "--no-comments", str(dump)]
    psql = [str(program.with_name("psql")), "--no-psqlrc", "--quiet", "--set=ON_ERROR_STOP=1"]
    with (
        _running([str(program), *options], stdout=subprocess.PIPE) as script,
        _running(psql, url, LOADING, stdin=subprocess.PIPE) as session,
    ):
        with suppress(BrokenPipeError):  # it has ended; why, it says
            _feed(script, session, BEGIN, _end_of(seal), progress)
        session.end()


def _feed(script: _Tool, session: _Tool, first: bytes, last: bytes, progress: Progress) -> None:
    assert script.process.stdout is not None
    assert session.process.stdin is not None
    session.process.stdin.write(first)
    head = script.process.stdout.read(HEAD_BYTES).replace(UNKNOWN_BEFORE_17, b"", 1)
    session.process.stdin.write(head)
    while chunk := script.process.stdout.read(CHUNK_BYTES):
        session.process.stdin.write(chunk)
        progress.add(len(chunk), copied=True)
    script.end()
    session.process.stdin.write(last)
    session.process.stdin.close()


def _end_of(seal: str) -> bytes:
    """The script has left no search path."""
    if not re.fullmatch(r"[0-9a-f]{64}", seal):
        raise ValueError("a seal is a hash")
    table = "(select oid::regclass from pg_class where relname = 'alembic_version' and relkind = 'r')"
    note = f"do $$ begin execute format('comment on table %s is %L', {table}, '{seal}'); end $$;"
    return f"{note}\ncommit;\n".encode()


@contextmanager
def _running(command: list[str], url: str | None = None, session: str = "", **pipes: int) -> Iterator[_Tool]:
    """A program, with the address of the database if it needs one; ended with the block."""
    address, password = split_password(url or "")
    given = {"stdin": subprocess.DEVNULL, "stdout": subprocess.DEVNULL, **pipes}
    with tempfile.TemporaryFile() as complaint, passfile(password or "") as descriptor:
        secret = passfile_environment(descriptor) if password else {}
        process = subprocess.Popen(  # noqa: S603 - PostgreSQL's own program, no shell
            [*command, *([f"--dbname={address}"] if url else [])],
            stdin=given["stdin"],
            stdout=given["stdout"],
            stderr=complaint,
            env={**client_environment(), **secret, "PGAPPNAME": session},
            pass_fds=[descriptor],
            cwd="/",
        )
        try:
            yield _Tool(Path(command[0]).name, process, complaint)
        finally:
            process.kill()
            for pipe in (process.stdin, process.stdout):
                if pipe is not None:
                    with suppress(BrokenPipeError):
                        pipe.close()
            process.wait()


@dataclass(frozen=True)
class _Tool:
    name: str
    process: subprocess.Popen[bytes]
    complaint: IO[bytes]

    def end(self) -> None:
        """Wait for a good end; its complaint becomes our error."""
        code = self.process.wait()
        if code == 0:
            return
        self.complaint.seek(0)
        said = self.complaint.read().decode(errors="replace").strip()[-COMPLAINT_CHARACTERS:]
        raise ToolFailedError(f"PostgreSQL's {self.name} failed: {said or f'exit status {code}'}")


def split_password(url: str) -> tuple[str, str | None]:
    """The address for the command line, which everybody on the machine can read, and what they must not read."""
    split = urlsplit(url)
    user, _, where = split.netloc.rpartition("@")
    name, _, password = user.partition(":")
    address = urlunsplit(split._replace(netloc=f"{name}@{where}" if name else where))
    return address, unquote(password) or None


def client_environment() -> dict[str, str]:
    """What says how to reach a server, and nothing else of ours."""
    return {**ENVIRONMENT, **{key: os.environ[key] for key in PASSED if key in os.environ}}
