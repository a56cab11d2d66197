"""Inputs of remote workers go on where they broke off: after a lost connection, and after a lost worker."""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import pytest

from mediamill.db.connection import Database
from mediamill.engine.model import ClaimedJob
from mediamill.errors import ClaimLostError
from mediamill.worker.download import LEFTOVER_SECONDS, Downloads
from mediamill.worker.server_link import ServerLink, WordRefusedError
from tests.api.remote_worker import register
from tests.api.serving import Served, serve
from tests.conftest import wait_until
from tests.gate import Gate, gate_to

MEGABYTE = 1 << 20
SIZE = 6 * MEGABYTE + 12_345


@dataclass
class Ground:
    """A server, a gate before it, a claimed job with a file, and a folder for downloads."""

    served: Served
    gate: Gate
    link: ServerLink
    job: ClaimedJob
    file: Path
    folder: Path

    def downloads(self) -> Downloads:
        return Downloads(self.folder, self.link)

    def parts(self) -> list[Path]:
        return sorted((self.folder / "remote_inputs").glob("*"))

    async def until_part(self, least: int) -> None:
        async def there() -> bool:
            return sum(path.stat().st_size for path in self.parts()) >= least

        await wait_until(there)


@pytest.fixture
async def ground(database: Database, tmp_path: Path) -> AsyncIterator[Ground]:
    file = tmp_path / "server" / "pending_media" / "guid-1"
    file.parent.mkdir(parents=True)
    file.write_bytes(os.urandom(SIZE))
    async with serve(database, tmp_path / "server") as served, gate_to(served.url) as gate:
        worker = await register(served)
        await served.enqueue(payload={"file": {"staged": "guid-1"}})
        [job] = await worker.claim()
        claimed = ClaimedJob(
            job["id"], job["token"], worker.id, job["kind"], "scripted", "o", None, None, 1, 3, "{}", None
        )
        link = ServerLink(gate.url, worker.key)
        yield Ground(served, gate, link, claimed, file, tmp_path / "far")
        await link.close()


@pytest.mark.spec("E23")
async def test_a_download_goes_on_where_the_connection_was_lost(ground: Ground) -> None:
    ground.gate.break_after = MEGABYTE
    downloads = ground.downloads()
    path = await downloads.fetch(ground.job)
    assert path.read_bytes() == ground.file.read_bytes()
    assert ground.gate.broken >= 5
    assert ground.gate.down_bytes < 2 * SIZE  # what was there is not asked for again
    downloads.drop(ground.job.id)
    assert ground.parts() == []


@pytest.mark.spec("E23")
async def test_a_download_goes_on_after_a_restart_of_the_worker(ground: Ground) -> None:
    ground.gate.break_after = 4 * MEGABYTE
    first = ground.downloads()
    fetching = asyncio.create_task(first.fetch(ground.job))
    await ground.until_part(3 * MEGABYTE)
    fetching.cancel()
    await asyncio.gather(fetching, return_exceptions=True)
    first.close()
    [part] = ground.parts()
    had = part.stat().st_size
    ground.gate.break_after, ground.gate.down_bytes = None, 0
    second = ground.downloads()
    path = await second.fetch(ground.job)
    assert path == part
    assert path.read_bytes() == ground.file.read_bytes()
    assert ground.gate.down_bytes < SIZE - had + MEGABYTE
    second.close()
    whole = ground.downloads()  # once more, and nothing is missing at all
    ground.gate.down_bytes = 0
    assert (await whole.fetch(ground.job)).read_bytes() == ground.file.read_bytes()
    assert ground.gate.down_bytes < MEGABYTE


@pytest.mark.spec("E23")
async def test_a_file_that_changed_is_fetched_from_its_beginning(ground: Ground) -> None:
    first = ground.downloads()
    await first.fetch(ground.job)
    first.close()
    ground.file.write_bytes(b"another file by now")
    second = ground.downloads()
    assert (await second.fetch(ground.job)).read_bytes() == b"another file by now"
    assert len(ground.parts()) == 1


async def test_a_part_that_somebody_works_with_is_left_to_him(ground: Ground) -> None:
    first, second = ground.downloads(), ground.downloads()
    mine = await first.fetch(ground.job)
    other = await second.fetch(ground.job)
    assert mine != other
    assert mine.read_bytes() == other.read_bytes()


async def test_leftovers_go_when_they_are_old_and_nobody_holds_them(ground: Ground) -> None:
    held = ground.downloads()
    mine = await held.fetch(ground.job)
    old, young = mine.with_name("77_dead_1"), mine.with_name("78_dead_2")
    for path in (old, young):
        path.write_bytes(b"left")
    long_ago = time.time() - LEFTOVER_SECONDS - 60
    for path in (old, mine):
        os.utime(path, (long_ago, long_ago))
    ground.downloads().clear_leftovers()
    assert (old.exists(), young.exists(), mine.exists()) == (False, True, True)


@pytest.mark.spec("E5")
async def test_a_claim_that_is_lost_meanwhile_ends_the_download(
    ground: Ground, monkeypatch: pytest.MonkeyPatch
) -> None:
    stream = ground.link.stream

    @asynccontextmanager
    async def stream_and_lose(*words: Any, **more: Any) -> AsyncIterator[httpx.Response]:
        if ground.parts():  # not the first try
            await ground.served.run("update jobs set state = 'queued'")
        async with stream(*words, **more) as answer:
            yield answer

    monkeypatch.setattr(ground.link, "stream", stream_and_lose)
    ground.gate.break_after = MEGABYTE
    downloads = ground.downloads()
    with pytest.raises(ClaimLostError):
        await asyncio.wait_for(downloads.fetch(ground.job), 60)
    downloads.keep_only(set())
    assert ground.parts() == []


async def test_a_file_that_is_gone_is_a_failure_for_good(ground: Ground) -> None:
    ground.file.unlink()
    with pytest.raises(WordRefusedError) as refused:
        await ground.downloads().fetch(ground.job)
    assert refused.value.code == "input_missing"
    assert ground.parts() == []


@pytest.mark.spec("E23")
async def test_a_server_that_is_away_is_waited_for(ground: Ground) -> None:
    await ground.gate.shut()
    downloads = ground.downloads()
    fetching = asyncio.create_task(downloads.fetch(ground.job))
    await asyncio.sleep(0)
    await ground.gate.open()
    path = await asyncio.wait_for(fetching, 60)
    assert path.read_bytes() == ground.file.read_bytes()
