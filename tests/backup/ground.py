"""A data folder with files of every sort, a database with a row, and empty places to restore into."""

from __future__ import annotations

import hashlib
import itertools
import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, nullcontext
from dataclasses import dataclass
from pathlib import Path

import asyncpg

from mediamill.backup.make import Made, make_backup
from mediamill.backup.model import Manifest
from mediamill.backup.restore import restore_backup
from tests.conftest import admin_url, create_database, database_url, drop_database, run_sql

FILES = {
    "pending_media/a-guid": b"a voice note",
    "videos/1/source": b"a film" * 400_000,
    "videos/1/7/master.m3u8": b"#EXTM3U",
    "libraries/001/1-2-3/preview.webp": b"a preview",
    "whatsapp/bot/auth/creds.json": b"{}",
    "bridge_secret": b"secret",
}
MACHINE = {
    "logs/postgres.log": b"log",
    "scratch/w/x": b"x",
    "tools/node": b"n",
    "inputs/incoming/y": b"y",
    "local_key": b"key",
    "open.html": b"link",
}
LONG_AGO = 1_700_000_000

_numbers = itertools.count(1)


def fill(data: Path, files: dict[str, bytes] | None = None) -> None:
    """Files that have been at rest for long."""
    for name, content in ({**FILES, **MACHINE} if files is None else files).items():
        path = data / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
        os.utime(path, (LONG_AGO, LONG_AGO))


def files_of(folder: Path) -> dict[str, str]:
    """Every file below, by its hash."""
    return {
        str(path.relative_to(folder)): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in folder.rglob("*")
        if path.is_file()
    }


def hashes(files: dict[str, bytes]) -> dict[str, str]:
    return {name: hashlib.sha256(content).hexdigest() for name, content in files.items()}


@asynccontextmanager
async def empty_url(server_url: str) -> AsyncIterator[str]:
    """An empty database."""
    name = f"restored_{os.getpid()}_{next(_numbers)}"
    admin = admin_url(server_url)
    await run_sql(admin, create_database(server_url, name))
    yield database_url(server_url, name)
    await run_sql(admin, drop_database(name))


@dataclass
class Ground:
    """Where a backup comes from."""

    url: str
    data: Path
    shelf: Path

    async def back_up(self, *, files: bool = True) -> Made:
        return await make_backup(self.url, self.data, self.shelf, files=files)

    async def note(self, name: str) -> None:
        """A row."""
        await run_sql(self.url, f"insert into configuration (name, value) values ('{name}', '1')")


async def restore(folder: Path, url: str, data: Path) -> Manifest:
    return await restore_backup(nullcontext(url), data, folder)


async def names_in(url: str) -> list[str]:
    """The rows."""
    connection = await asyncpg.connect(url)
    try:
        rows = await connection.fetch("select name from configuration order by name")
        return [row["name"] for row in rows if row["name"].startswith("row")]
    finally:
        await connection.close()
