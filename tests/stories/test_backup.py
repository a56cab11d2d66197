"""A server that works is backed up, destroyed, and restored elsewhere: everything is there, and it works on."""

from __future__ import annotations

import asyncio
import json
import shutil
import signal
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import pytest

from mediamill.db.embedded import EmbeddedServer, stop_immediately
from tests.crash.intake_order import kill_family
from tests.crash.processes import Mill, Process, in_thread
from tests.media.clips import encode
from tests.ports import free_port

JOBS = 400


def _mill(folder: Path) -> Mill:
    folder.mkdir()
    return Mill(folder, settings={"MEDIAMILL_PORT": str(free_port()), "MEDIAMILL_VIDEO_CAPTIONS": "false"})


@pytest.fixture
async def places(tmp_path: Path) -> AsyncIterator[tuple[Mill, Mill]]:
    """One that will be lost, and one that will take its place; each has its embedded database."""
    mills = _mill(tmp_path / "old"), _mill(tmp_path / "new")
    yield mills
    for mill in mills:
        mill.close()
        if (mill.folder / "data" / "postgres").exists():
            use = await in_thread(EmbeddedServer(mill.folder / "data").start)  # to stop it in order
            await in_thread(use.close)


async def told(mill: Mill, *words: object) -> Any:
    """What a command says, as data."""
    code, said = await mill.say(*words, "--json")
    assert code == 0, said
    return json.loads(said[min(place for place in (said.find("{"), said.find("[")) if place >= 0) :])


async def look_inside(mill: Mill) -> None:
    """The address of the embedded database, for the test's own questions; commands find it by themselves."""
    use = await in_thread(EmbeddedServer(mill.folder / "data").start)
    await in_thread(use.close)
    mill.url = use.url


async def destroy(mill: Mill, up: Process) -> None:
    """Every process, and every file."""
    await kill_family(up)
    await in_thread(stop_immediately, mill.folder / "data")
    shutil.rmtree(mill.folder / "data")


async def messages_of(mill: Mill) -> list[tuple[int, str]]:
    said = await told(mill, "bots", "messages", "demo", "chat", "Ann")
    return [(message["id"], message["content"]) for message in said]


async def test_a_lost_server_comes_back_from_its_backup_and_works_on(
    places: tuple[Mill, Mill], tmp_path: Path
) -> None:
    old, new = places
    up = await old.started("up")
    code, said = await old.say("chat", "hello", "--as", "Ann")
    assert code == 0, said
    clip = encode(tmp_path / "clip.mp4", (np.full((90, 160, 3), 5 * n, np.uint8) for n in range(30)))
    [sent] = await told(old, "videos", "upload", clip, "--wait")
    film = await told(old, "videos", "show", sent["video_id"])
    assert film["state"] == "ready"
    await look_inside(old)
    await old.enqueue("chaos.settled", range(1), seconds=600)  # it runs when the backup is made
    await old.enqueue("chaos.settled", range(1, JOBS), seconds=0.1)
    await old.until("select count(*) > 0 from chaos_deliveries")
    await old.until(
        "select exists (select from jobs where state = 'running' and payload ->> 'seconds' = '600')"
    )
    old.url = None

    made = await told(old, "backup", tmp_path / "backups")
    assert made["files"] >= 5
    before = await messages_of(old)
    assert [content for _, content in before] == ["hello", "You said: hello"]
    await destroy(old, up)

    code, said = await new.say("backup", "verify", tmp_path / "backups")
    assert (code, "all of it is as it was" in said) == (0, True), said
    code, said = await new.say("restore", tmp_path / "backups", "--yes")
    assert (code, "`mediamill up` goes on from there" in said) == (0, True), said
    use = await in_thread(EmbeddedServer(new.folder / "data").start)
    new.url = use.url
    assert 0 < await new.one("select count(*) from jobs") <= JOBS
    assert await new.one("select count(*) from jobs where state = 'running'") > 0
    await new.hurry()
    await in_thread(use.close)
    new.url = None
    up = await new.started("up")
    await look_inside(new)
    await new.until_all_once(JOBS)
    new.url = None
    assert await messages_of(new) == before
    code, said = await new.say("chat", "again", "--as", "Ann")
    assert (code, "You said: again" in said) == (0, True), said
    assert [content for _, content in await messages_of(new)][2:] == ["again", "You said: again"]
    await play(new, film["id"])
    up.send(signal.SIGINT)
    assert await up.until_gone() == 0
    new.assert_no_traceback()


async def play(mill: Mill, video_id: str) -> None:
    """Every file that the stream names."""
    base = f"http://127.0.0.1:{mill.settings['MEDIAMILL_PORT']}"
    async with httpx.AsyncClient(base_url=base, auth=mill.owner, trust_env=False, timeout=60) as client:
        video = (await client.get(f"/api/videos/{video_id}")).json()
        assert video["state"] == "ready"
        folder = mill.folder / "data" / "videos" / video_id
        [output] = [path for path in folder.iterdir() if path.is_dir()]
        for file in output.iterdir():
            got = await client.get(f"/api/videos/{video_id}/files/{output.name}/{file.name}")
            assert (got.status_code, len(got.content) > 0) == (200, True), file
        source = await client.get(f"/api/videos/{video_id}/source")
        assert source.content == await asyncio.to_thread((folder / "source").read_bytes)
