"""Jobs whose input is several files (previews and frames to be tagged), on a worker that has only a URL and a key."""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import time
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from mediamill.db.connection import Database
from mediamill.engine.model import ClaimedJob
from mediamill.errors import ClaimLostError
from mediamill.libraries.jobs import library_kinds
from mediamill.settings import Settings
from mediamill.worker.download import LEFTOVER_SECONDS, Downloads
from mediamill.worker.server_link import ServerLink
from tests.api.remote_worker import Remote, register, told
from tests.api.serving import Served, serve
from tests.conftest import wait_until
from tests.gate import Gate, gate_to
from tests.libraries.played import TAGS
from tests.libraries.played import Ground as Library
from tests.libraries.tagged import asset, finds
from tests.worker.remote_working import far_worker, tree

pytestmark = pytest.mark.spec("E23")

CAT = Path(__file__).parents[1] / "media" / "cat.jpg"


class Ground:
    """A server with a library of one image, whose tag job waits."""

    def __init__(self, library: Library, served: Served, gate: Gate, folder: Path) -> None:
        self.library, self.served, self.gate, self.folder = library, served, gate, folder

    async def claim(self) -> tuple[Remote, dict[str, Any]]:
        worker = await register(self.served)
        [job] = await worker.claim(pools=[TAGS])
        return worker, job

    async def output(self) -> Path:
        [folder] = await self.library.outputs(1)
        return folder

    def links(self, worker: Remote, job: dict[str, Any]) -> tuple[ServerLink, ClaimedJob]:
        names = (
            "id",
            "token",
            "kind",
            "pool",
            "owner",
            "subject_id",
            "mime_type",
            "attempts",
            "max_attempts",
        )
        given = {name: job[name] for name in names}
        claimed = ClaimedJob(
            **given, worker_id=worker.id, payload_json=json.dumps(job["payload"]), checkpoint_json=None
        )
        return ServerLink(self.gate.url, worker.key), claimed


@pytest.fixture
async def ground(database: Database, tmp_path: Path) -> AsyncIterator[Ground]:
    library = Library.on(database, tmp_path / "server")
    await library.library(images=1)
    await library.feed()
    for job in await library.claim(pool="library_images"):
        await library.play_image(job)
    await library.feed()
    kinds = library_kinds(Settings(data=tmp_path / "server"))
    async with serve(database, tmp_path / "server", kinds) as served, gate_to(served.url) as gate:
        yield Ground(library, served, gate, tmp_path / "far")


async def test_each_file_is_sent_by_its_name_and_nothing_else_is(ground: Ground) -> None:
    worker, job = await ground.claim()
    assert job["payload"]["file"]["files"] == ["preview.webp"]
    sent = await worker.get(job, "input/preview.webp")
    assert sent.content == (await ground.output() / "preview.webp").read_bytes()
    part = await worker.get(job, "input/preview.webp", Range="bytes=3-")
    assert (part.status_code, part.content) == (206, sent.content[3:])
    assert told(await worker.get(job, "input/thumbnail.jpg")) == (
        404,
        "input_missing",
    )  # is there, not asked for
    assert told(await worker.get(job, "input/..%2fpreview.webp"))[0] in (401, 404, 422)
    (await ground.output() / "preview.webp").unlink()
    (await ground.output() / "preview.webp").symlink_to(CAT)
    assert told(await worker.get(job, "input/preview.webp")) == (404, "input_missing")
    other = await register(ground.served, "other")
    assert told(await other.get(job, "input/preview.webp")) == (409, "claim_lost")


async def test_a_connection_that_breaks_is_tried_again_and_a_missing_file_is_left_out(ground: Ground) -> None:
    big = os.urandom(3 << 20)
    (await ground.output() / "preview.webp").write_bytes(big)
    names = ["preview.webp", "scene-00001.jpg"]
    await ground.served.run(
        "update jobs set payload = jsonb_set(payload, '{file,files}', $1::jsonb)", json.dumps(names)
    )
    worker, job = await ground.claim()
    link, claimed = ground.links(worker, job)
    downloads = Downloads(ground.folder, link)
    ground.gate.break_after = 1 << 20
    fetching = asyncio.create_task(downloads.fetch_files(claimed, names))

    async def broken() -> bool:
        return ground.gate.broken >= 2

    await wait_until(broken)
    ground.gate.break_after = None
    folder = await fetching
    assert tree(folder) == {"preview.webp": big}
    downloads.drop(claimed.id)
    assert not folder.exists()
    await ground.served.run("update jobs set token = token + 1")
    with pytest.raises(ClaimLostError):
        await downloads.fetch_files(claimed, names)
    downloads.keep_only(())
    assert tree(ground.folder) == {"remote_inputs": b""}
    await link.close()


async def test_what_a_dead_worker_left_goes_and_what_a_living_one_holds_stays(ground: Ground) -> None:
    worker, job = await ground.claim()
    link, claimed = ground.links(worker, job)
    living, other = Downloads(ground.folder, link), Downloads(ground.folder, link)
    held = await living.fetch_files(claimed, ["preview.webp"])
    left = held.with_name("7-0.d")
    shutil.copytree(held, left)
    for folder in (held, left):
        os.utime(folder, (time.time() - 2 * LEFTOVER_SECONDS,) * 2)
    other.clear_leftovers()
    assert held.exists()
    assert not left.exists()
    living.close()
    assert not held.exists()
    await link.close()


@pytest.mark.spec("L10")
async def test_a_photo_is_tagged_far_away_by_real_models(ground: Ground) -> None:
    from PIL import Image

    Image.open(CAT).save(await ground.output() / "preview.webp")
    async with far_worker(ground.served, ground.folder, pools=(TAGS,)) as far:

        async def tagged() -> bool:
            found = await asset(ground.library)
            assert found["error"] is None, found["error"]
            return bool(found["status"] == "completed")

        await wait_until(tagged)
        assert await finds(ground.library, "cats") == [1]
        await wait_until_dropped(far.folder)
    assert await ground.library.one("select count(*) from search_vectors where asset_id = 1") == 2


async def wait_until_dropped(folder: Path) -> None:
    async def gone() -> bool:
        return not list((folder / "remote_inputs").glob("*"))

    await wait_until(gone)
