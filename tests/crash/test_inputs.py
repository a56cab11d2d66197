"""Whoever takes in a message is killed with -9: it is there whole or not at all, and can be sent again."""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.conftest import wait_until
from tests.inputs.conftest import ANN, Bench, bench

__all__ = ["bench"]

PROGRAM = """
import asyncio, sys
from pathlib import Path
from mediamill.db.connection import Database
from mediamill.inputs.accept import accept_run
from mediamill.inputs.model import NewRun, Scope, SpooledImage

async def main(url, *files):
    database = await Database.open(url, connections=1, name="doomed")
    images = [SpooledImage(Path(file), "image/png", 1_000_000, "") for file in files]
    async with database.transaction() as connection:
        new = NewRun(Scope("telegram", "bot/telegram/1", "ann"), "look", idempotency_key="k", payload_hash="h")
        await accept_run(connection, new, images, claim_pending=True)
        print("accepted", flush=True)
        sys.stdin.readline()
    print("committed", flush=True)
    sys.stdin.readline()

asyncio.run(main(*sys.argv[1:]))
"""
DOOMED = "from pg_stat_activity where application_name = 'doomed' and datname = current_database()"
COPIED = "select bytes_processed > 300000 from pg_stat_progress_copy where datname = current_database()"
CONTENT = b"x" * 1_000_000


class Doomed:
    """A process that takes in a message with two images; the second comes through a pipe, when the test gives it."""

    def __init__(self, bench: Bench, process: asyncio.subprocess.Process, pipe: int) -> None:
        self.bench, self.process, self.pipe = bench, process, pipe

    async def give(self, content: bytes) -> None:
        while content:
            content = content[await asyncio.to_thread(os.write, self.pipe, content) :]

    async def says(self) -> str:
        assert self.process.stdout is not None
        async with asyncio.timeout(60):
            return (await self.process.stdout.readline()).decode().strip()

    async def commit(self) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(b"\n")
        await self.process.stdin.drain()

    async def kill(self) -> None:
        """The database notices, too."""
        self.process.kill()
        await self.process.wait()

        async def gone() -> bool:
            return not await self.bench.one(f"select count(*) {DOOMED}")

        await wait_until(gone)


@pytest.fixture
async def doomed(bench: Bench, new_url: str, tmp_path: Path) -> AsyncIterator[Doomed]:
    whole, slow = bench.image(CONTENT), tmp_path / "slow"
    os.mkfifo(slow)
    pipe = os.open(slow, os.O_RDWR)
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        "-c",
        PROGRAM,
        new_url,
        str(whole.path),
        str(slow),
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
    )
    yield Doomed(bench, process, pipe)
    if process.returncode is None:
        process.kill()
        await process.wait()
    os.close(pipe)


async def send_again(bench: Bench) -> bool:
    """Whether it was there."""
    images = [bench.image(CONTENT), bench.image(CONTENT)]
    accepted = await bench.accept(images, scope=ANN, claim=True, idempotency_key="k", payload_hash="h")
    stored = await bench.contents(accepted.run.run_id)
    assert stored == [b"waited", CONTENT, CONTENT]
    assert await bench.rows("select image_count from runs") == [(3,)]
    assert await bench.one("select count(*) from input_images") == 3
    assert await bench.one("select count(*) from events where topic = 'run.queued'") == 1
    return accepted.repeated


@pytest.mark.spec("I3", "I4", "I8")
@pytest.mark.parametrize("point", ["in the middle of a COPY", "before the commit", "after the commit"])
async def test_a_message_is_there_whole_or_not_at_all(bench: Bench, doomed: Doomed, point: str) -> None:
    await bench.save(bench.image(b"waited"))
    if point == "in the middle of a COPY":
        await doomed.give(CONTENT[:600_000])

        async def copied() -> bool:
            return bool(await bench.one(COPIED))

        await wait_until(copied)
    else:
        await doomed.give(CONTENT)
        assert await doomed.says() == "accepted"
    if point == "after the commit":
        await doomed.commit()
        assert await doomed.says() == "committed"
    await doomed.kill()
    if point != "after the commit":
        assert await bench.rows("select 1 from runs") == []
        assert await bench.rows("select run_id, image_bytes from input_images") == [(None, b"waited")]
    assert await send_again(bench) == (point == "after the commit")
