"""Two servers and a worker share nothing but a database and a bucket: what comes in by one goes out by another."""

from __future__ import annotations

import asyncio
import json
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from mediamill.client import AsyncClient
from tests.client.cutting import cutting_line
from tests.conftest import wait_until
from tests.crash.processes import told
from tests.storage.s3_server import S3Server, bucket, s3_server
from tests.stories.playing import whole_stream
from tests.stories.remote_workers import far
from tests.stories.town import ADMIN, Town, balance
from tests.ui.filming import make_clip

__all__ = ["bucket", "s3_server"]

SAMPLES = Path(__file__).parents[2] / "samples"
# What a data folder may have beside a bucket: nothing that lasts.
KEEPS = {"cache", "scratch", "logs", "deletions.lock", "local_key"}


@pytest.fixture
def town(new_url: str, tmp_path: Path, s3_server: S3Server, bucket: str) -> Iterator[Town]:
    town = Town.of(tmp_path, new_url, s3_server, bucket)
    yield town
    town.close()


@pytest.mark.timeout(600)
@pytest.mark.spec("V1", "V8", "V9", "V12", "E23")
async def test_a_video_uploaded_at_one_server_is_made_elsewhere_and_played_from_another(
    town: Town, tmp_path: Path
) -> None:
    clip = make_clip(tmp_path / "harbour.mp4", 640, 360, seconds=6)
    for name in ("north", "south"):
        await town.serve(name)
    await town.work("mill")
    async with AsyncClient(town.urls["north"], ADMIN) as client:
        uploaded = await client.upload_video(clip)
    async with AsyncClient(town.urls["south"], ADMIN) as client:
        await client.wait_ready(uploaded.video_id, timeout=300)
    async with town.client("south") as south, town.client("north") as north:
        video = (await south.get(f"/api/videos/{uploaded.video_id}")).json()
        stream = await whole_stream(south, video)
        assert stream == await whole_stream(north, video)
        assert any(name.endswith(".m4s") for name in stream)
        source = f"/api/videos/{uploaded.video_id}/source"
        assert (await south.get(source)).content == clip.read_bytes()
        part = await south.get(source, headers={"Range": "bytes=1000-1999"})
        assert (part.status_code, part.content) == (206, clip.read_bytes()[1000:2000])
        assert part.headers["content-range"] == f"bytes 1000-1999/{clip.stat().st_size}"
        known = await north.get(source, headers={"If-None-Match": part.headers["etag"]})
        assert known.status_code == 304, "both servers have the same mark for it"
        # Neither is waited for by whoever asks if it takes long.
        await wait_until(lambda: _is_well(south))
        await wait_until(lambda: _has_counted(south, len(stream) + 1))

        # Made once more, one quality of it: the rest is not encoded again, and whoever watches the old stream goes on.
        mill = town.machine("north")
        answer = await north.post(
            f"/api/videos/{uploaded.video_id}/retranscode", json={"qualities": ["360p"]}
        )
        assert answer.status_code < 300, answer.text
        await mill.until(f"select state = 'ready' and output <> {video['output']} from videos")
        again = (await south.get(f"/api/videos/{uploaded.video_id}")).json()
        assert (await whole_stream(south, again)).keys() == stream.keys()
        assert await whole_stream(south, video) == stream

        # Erased: no name is left, and the objects wait in the garbage.
        await north.delete(f"/api/videos/{uploaded.video_id}")
        await north.delete(f"/api/videos/{uploaded.video_id}", params={"forever": "true"})
    await mill.until("select not exists (select from videos)")
    assert await mill.one("select count(*) from stored_pieces where name like 'videos/%'") == 0
    assert await mill.one("select count(*) from stored_garbage") > len(stream)
    for name in town.machines:
        assert town.files_of(name) <= KEEPS, name
    town.assert_no_traceback()


async def _is_well(client: httpx.AsyncClient) -> bool:
    health = (await client.get("/health")).json()
    return (health["status"], health["bucket"]) == ("ok", "ok")


async def _has_counted(client: httpx.AsyncClient, files: int) -> bool:
    storage = (await client.get("/api/health")).json()["storage"]
    return bool(storage["bucket"]["files"] >= files)


@pytest.mark.timeout(600)
@pytest.mark.spec("V1", "E31", "E23")
async def test_behind_a_load_balancer_uploads_events_and_sessions_go_on_at_the_other_server(
    town: Town, tmp_path: Path
) -> None:
    for machine in ("north", "south"):
        town.machine(machine).settings["MEDIAMILL_HOST"] = "0.0.0.0"  # beyond loopback: everybody must log in
    clip = make_clip(tmp_path / "harbour.mp4", 1280, 720, seconds=16)
    one = await town.serve("north")
    await town.serve("south")
    async with balance(town.urls["north"], town.urls["south"]) as url:
        async with httpx.AsyncClient(base_url=url, timeout=60, trust_env=False) as browser:
            close = {"Connection": "close", "Origin": url}
            assert (await browser.get("/api/videos", headers=close)).status_code == 401
            answer = await browser.post("/login", data={"secret": ADMIN}, headers=close)
            assert answer.status_code in (200, 303), answer.text
            for _ in range(4):  # two at each
                assert (await browser.get("/api/videos", headers={"Connection": "close"})).status_code == 200
        async with cutting_line(url) as line:
            size = clip.stat().st_size
            line.cuts = [size // 3, size // 3]  # of three connections, which go to one server after the other
            async with AsyncClient(line.url, token=ADMIN, patience=300) as client:
                line.stops_at = size // 2
                uploading = asyncio.create_task(client.upload_video(clip))

                async def half_way() -> bool:
                    return line.passed >= size // 2

                await wait_until(half_way)
                one.kill()  # -9: what was not in the bucket yet is sent again, to the other
                line.go_on.set()
                uploaded = await uploading
        mill = town.machine("south")
        assert await mill.one("select array_agg(id::text) from videos") == [uploaded.video_id]
        async with town.client("south") as south:
            south.headers["Authorization"] = f"Bearer {ADMIN}"
            assert (await south.get(f"/api/videos/{uploaded.video_id}/source")).content == clip.read_bytes()

            # Events: told by one server, and gone on with at the other from the last id.
            await town.serve("north")
            async with town.client("north") as north:
                north.headers["Authorization"] = f"Bearer {ADMIN}"
                last = await _last_event(north, lambda: south.delete(f"/api/videos/{uploaded.video_id}"))
                await north.post(f"/api/videos/{uploaded.video_id}/restore")
            missed = await _last_event(south, None, {"Last-Event-ID": last["id"]})
            assert _number(missed) > _number(last)
            assert json.loads(missed["data"])["subject"] == uploaded.video_id
    assert "Traceback" not in mill.processes[-1].said


async def _last_event(
    client: httpx.AsyncClient, act: Any, headers: dict[str, str] | None = None
) -> dict[str, str]:
    """The next event of a video that the stream tells."""
    event: dict[str, str] = {}
    async with client.stream("GET", "/api/events", headers=headers or {}, timeout=60) as answer:
        assert answer.status_code == 200
        async for line in answer.aiter_lines():
            if act is not None and line.startswith(": connected"):
                await act()
            name, _, value = line.partition(": ")
            if name:
                event[name] = value
            elif event.get("event") == "video.changed":
                return event
            else:
                event = {}
    raise AssertionError("the stream ended")


def _number(event: dict[str, str]) -> int:
    """Behind it may stand those that are still on their way."""
    return int(event["id"].partition("~")[0])


@pytest.mark.timeout(600)
@pytest.mark.spec("L5", "L6", "P1", "P5", "C10", "E23")
async def test_pictures_of_libraries_files_of_projects_and_media_of_chats_go_by_the_bucket(
    town: Town, tmp_path: Path
) -> None:
    photos = tmp_path / "photos"
    photos.mkdir()
    shutil.copy(SAMPLES / "photo.jpg", photos / "cat.jpg")
    make_clip(photos / "film.mp4", 640, 360, seconds=6)
    await town.serve("north")
    mill = town.machine("north")
    async with town.client("north") as north:
        bot = {"id": "demo", "config": {"providers": {"chat": {}}, "reply": {"by": "echo"}}, "start": True}
        assert (await north.post("/api/bots", json=bot)).status_code == 201
        await wait_until(lambda: _takes_text(north))
        await town.serve("south")
        await town.work("mill")
        # In by the one server …
        await told(mill, "library", "add", "Photos", photos)
        project = {"name": "Papers", "fields": [{"name": "total", "type": "amount"}]}
        assert (await north.post("/api/projects", json=project)).status_code == 201
        scan = (SAMPLES / "scan.pdf").read_bytes()
        answer = await north.post("/api/projects/papers/files", params={"name": "scan.pdf"}, content=scan)
        assert answer.status_code == 201, answer.text
        file_id = answer.json()["id"]
        sent = await north.post(
            "/api/bots/demo/chat/ann/media",
            content=(SAMPLES / "sticker.webp").read_bytes(),
            headers={"Content-Type": "image/webp"},
        )
        assert sent.status_code == 201, sent.text
    # … made elsewhere …
    await mill.until("select count(*) = 2 and bool_and(status = 'completed') from assets", limit_seconds=300)
    await mill.until("select state = 'completed' from analyses", limit_seconds=300)
    await mill.until("select count(*) = 0 from jobs where kind = 'message.process'", limit_seconds=300)
    assert await mill.one("select count(*) from dead_jobs") == 0
    # … and out by the other.
    async with town.client("south") as south:
        rows = {row["type"]: row for row in json.loads(await mill.one("select jsonb_agg(a) from assets a"))}
        bases = {kind: f"/api/assets/{row['id']}/files/{row['output']}" for kind, row in rows.items()}
        for kind, base in bases.items():
            assert (await south.get(f"{base}/thumbnail.jpg")).content.startswith(b"\xff\xd8"), kind
        assert (await south.get(f"{bases['video']}/clip.mp4")).content[4:8] == b"ftyp"
        assert (await south.get(f"{bases['image']}/preview.webp")).content[8:12] == b"WEBP"
        assert (await south.get(f"/api/files/{file_id}/source")).content == scan
        assert (await south.get(f"/api/files/{file_id}/pages/1")).content[8:12] == b"WEBP"
        messages = (await south.get("/api/bots/demo/conversations/chat/ann/messages")).json()["messages"]
        assert [message["media"]["state"] for message in messages if message["media"]] == ["done"]
    # A worker drops a file when its job has ended, a moment later.
    await mill.until("select count(*) = 0 from stored_pieces where name like 'pending_media/%'")
    for name in town.machines:
        assert town.files_of(name) <= KEEPS, name
    town.assert_no_traceback()


async def _takes_text(client: httpx.AsyncClient) -> bool:
    answer = await client.post("/api/bots/demo/chat/ann/messages", json={"text": "hello"})
    return answer.status_code == 201


@pytest.mark.timeout(600)
@pytest.mark.spec("V8", "E23")
async def test_a_worker_by_http_needs_neither_bucket_nor_database(town: Town, tmp_path: Path) -> None:
    clip = make_clip(tmp_path / "harbour.mp4", 640, 360, seconds=4)
    town.settings["MEDIAMILL_VIDEO_CAPTIONS"] = "false"
    for name in ("north", "south"):
        await town.serve(name)
    mill = town.machine("north")
    await far(mill, "attic", town.urls["south"])
    async with AsyncClient(town.urls["north"], ADMIN) as client:
        uploaded = await client.upload_video(clip)
        await client.wait_ready(uploaded.video_id, timeout=300)
    assert await mill.one("select worker_name from finished_jobs where kind = 'video.transcode'") == "attic"
    async with town.client("north") as north:
        video = (await north.get(f"/api/videos/{uploaded.video_id}")).json()
        assert any(name.endswith(".m4s") for name in await whole_stream(north, video))
    for name in town.machines:
        left = {path for path in town.files_of(name) if path not in KEEPS}
        assert left == set(), name
    town.assert_no_traceback()
