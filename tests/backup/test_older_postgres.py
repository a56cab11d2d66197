"""An external server of the oldest PostgreSQL that mediamill works with: out of it, and into it."""

from __future__ import annotations

import shutil
import subprocess
import tempfile
from collections.abc import AsyncIterator
from pathlib import Path
from urllib.parse import quote

import pytest

from mediamill.db.connection import OLDEST_VERSION
from mediamill.db.migrate import newest_revision, schema_revision, upgrade
from mediamill.db.postmaster import ENVIRONMENT, binaries
from mediamill.db.root_user import server_account
from tests.backup.ground import FILES, Ground, empty_url, files_of, fill, hashes, names_in, restore
from tests.conftest import database_url, run_sql


@pytest.fixture
async def older_server() -> AsyncIterator[str]:
    """The PostgreSQL 16 that comes in the same package as ours."""
    programs = binaries().parents[1] / "pginstall" / "bin"
    if not (programs / "postgres").exists():
        pytest.skip("this package has no PostgreSQL 16")
    folder = Path(tempfile.mkdtemp(prefix="mediamill-older-"))
    account = server_account(folder / "none")
    account.own(folder)

    def run(name: str, *words: object) -> None:
        subprocess.run(
            [programs / name, *map(str, words)],
            check=True,
            stdout=subprocess.DEVNULL,
            cwd="/",
            env=ENVIRONMENT,
            **account.process_options(),
        )

    data = ("-D", folder / "data")
    options = f"-c listen_addresses='' -c unix_socket_directories='{folder}' -c fsync=off"
    run("initdb", *data, "-U", "postgres", "--auth=trust", "--encoding=UTF8", "--locale=C")
    run("pg_ctl", *data, "-w", "-l", folder / "log", "-o", options, "start")
    yield f"postgresql://postgres@{quote(str(folder), safe='')}:5432/postgres"
    run("pg_ctl", *data, "-w", "-m", "immediate", "stop")
    shutil.rmtree(folder)


async def test_a_backup_of_the_oldest_server_goes_into_it_again(older_server: str, tmp_path: Path) -> None:
    await run_sql(older_server, "create database lived")
    url = database_url(older_server, "lived")
    await upgrade(url)
    ground = Ground(url, tmp_path / "data", tmp_path / "backups")
    fill(ground.data)
    await ground.note("row 1")
    made = await ground.back_up()
    assert made.manifest.postgres == OLDEST_VERSION
    async with empty_url(older_server) as other:
        await restore(made.folder, other, tmp_path / "other")
        assert await names_in(other) == ["row 1"]
        assert await schema_revision(other) == newest_revision()
    assert hashes(FILES).items() <= files_of(tmp_path / "other").items()


async def test_a_backup_of_the_oldest_server_goes_into_a_newer_one(
    older_server: str, empty: str, tmp_path: Path
) -> None:
    await run_sql(older_server, "create database lived")
    url = database_url(older_server, "lived")
    await upgrade(url)
    ground = Ground(url, tmp_path / "data", tmp_path / "backups")
    await ground.note("row 1")
    made = await ground.back_up()
    await restore(made.folder, empty, tmp_path / "other")
    assert await names_in(empty) == ["row 1"]
