"""Assets over HTTP: all there is of one, its previews for ever, its source by range, another try."""

from __future__ import annotations

import asyncio
import http.client
import os
import threading
from collections.abc import AsyncIterator
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from mediamill.db.connection import Database
from mediamill.libraries.reach import Reach
from mediamill.staging.file_names import to_text
from tests.api.serving import SECRET, Served, serve
from tests.libraries.played import Ground, ground

__all__ = ["ground"]


@pytest.fixture
async def served(database: Database, tmp_path: Path) -> AsyncIterator[Served]:
    """A server with the data folder of the ground."""
    async with serve(database, tmp_path / "data") as served:
        yield served


async def put_source(ground: Ground, name: bytes, content: bytes) -> None:
    """The file of asset 1, in the folder of the library."""
    (ground.root / "Photos" / os.fsdecode(name)).write_bytes(content)
    await ground.run("update assets set rel_path = $1 where id = 1", to_text(name))


@pytest.mark.spec("L2", "L11")
async def test_an_asset_is_shown_with_its_tags_and_neighbours(served: Served, ground: Ground) -> None:
    await ground.library(images=2, videos=1)
    await ground.complete()
    await ground.run("update assets set shown_at = '2024-05-01'::timestamp + id * interval '1 day'")
    shown = (await served.client.get("/api/assets/2")).json()
    assert (shown["status"], shown["newer"], shown["older"]) == ("completed", 3, 1)
    assert shown["tags"] == [{"label": "harbour", "score": 0.9}]
    video = (await served.client.get("/api/assets/3")).json()
    assert [scene["number"] for scene in video["scenes"]] == [1, 2]
    for address in (
        shown["preview_url"],
        shown["thumbnail_url"],
        video["clip_url"],
        video["scenes"][0]["frame_url"],
    ):
        assert (await served.client.get(address)).status_code == 200, address


@pytest.mark.spec("L13")
async def test_previews_may_be_kept_for_ever_and_by_range(served: Served, ground: Ground) -> None:
    number = await ground.library(images=1)
    await ground.complete()
    (folder,) = await ground.outputs(number)
    address = (await served.client.get("/api/assets/1")).json()["preview_url"]
    answer = await served.client.get(address)
    assert answer.content == (folder / "preview.webp").read_bytes()
    assert answer.headers["content-type"] == "image/webp"
    assert answer.headers["cache-control"] == "private, max-age=31536000, immutable"
    assert answer.headers["x-content-type-options"] == "nosniff"
    known = await served.client.get(address, headers={"If-None-Match": answer.headers["etag"]})
    assert (known.status_code, known.content) == (304, b"")
    part = await served.client.get(address, headers={"Range": "bytes=2-4"})
    assert (part.status_code, part.content) == (206, answer.content[2:5])
    head = await served.client.head(address)
    assert (head.status_code, head.headers["content-length"]) == (200, str(len(answer.content)))


async def test_behind_a_login_only_the_one_who_asked_may_keep_a_preview(
    database: Database, ground: Ground, tmp_path: Path
) -> None:
    await ground.library(images=1)
    await ground.complete()
    output = await ground.one("select output from assets")
    async with serve(database, tmp_path / "data", host="0.0.0.0") as served:
        answer = await served.client.get(
            f"/api/assets/1/files/{output}/preview.webp", headers={"Authorization": f"Bearer {SECRET}"}
        )
    assert answer.headers["cache-control"] == "private, max-age=31536000, immutable"


@pytest.mark.parametrize(
    "path",
    [
        "1/files/1-0/stranger.jpg",
        "1/files/1-0/..%2F..%2Fsecret",
        "1/files/..%2F1-0/preview.webp",
        "1/files/9-9/preview.webp",
        "1/files/x/preview.webp",
        "2/files/1-0/preview.webp",
        "1/files/1-0/%2Fetc%2Fpasswd",
    ],
)
async def test_only_derivatives_that_are_there_are_served(served: Served, ground: Ground, path: str) -> None:
    await ground.library(images=1)
    folder = ground.make_folder(1, "1-0")
    (folder / "stranger.jpg").write_bytes(b"not ours")
    connection = http.client.HTTPConnection(urlsplit(served.url).netloc, timeout=30)
    connection.request("GET", f"/api/assets/{path}")  # as it is: other clients tidy paths up
    answer = await asyncio.to_thread(connection.getresponse)
    assert answer.status in (404, 422)


async def test_a_link_among_the_derivatives_leads_nowhere(served: Served, ground: Ground) -> None:
    await ground.library(images=1)
    folder = ground.make_folder(1, "1-0")
    (folder / "thumbnail.jpg").symlink_to("/etc/passwd")
    answer = await served.client.get("/api/assets/1/files/1-0/thumbnail.jpg")
    assert (answer.status_code, answer.json()["code"]) == (404, "no_such_file")


async def test_the_source_is_given_by_range_and_under_its_own_name(served: Served, ground: Ground) -> None:
    await ground.library(images=1)
    await put_source(ground, 'Été "1".JPG'.encode(), bytes(range(200)))
    answer = await served.client.get("/api/assets/1/source")
    assert (answer.content, answer.headers["content-type"]) == (bytes(range(200)), "image/jpeg")
    assert "filename*=UTF-8''%C3%89t%C3%A9%20%221%22.JPG" in answer.headers["content-disposition"]
    part = await served.client.get("/api/assets/1/source", headers={"Range": "bytes=100-"})
    assert (part.status_code, part.content) == (206, bytes(range(100, 200)))
    assert (await served.client.head("/api/assets/1/source")).headers["content-length"] == "200"


async def test_a_source_whose_name_is_no_text_is_given_too(served: Served, ground: Ground) -> None:
    await ground.library(images=1)
    await put_source(ground, b"caf\xe9\n.svg", b"<svg/>")
    answer = await served.client.get("/api/assets/1/source")
    assert (answer.status_code, answer.content) == (200, b"<svg/>")
    assert answer.headers["content-type"] == "application/octet-stream", "a browser would run it"
    assert answer.headers["content-disposition"].startswith("attachment")


async def test_sources_on_a_network_that_does_not_answer_do_not_stop_the_server(
    served: Served, ground: Ground, monkeypatch: pytest.MonkeyPatch
) -> None:
    """More requests than the server has threads hang over it; files of the server itself are given all the same."""
    await ground.library(images=1)
    answered, real, root = threading.Event(), Path.is_dir, ground.root / "Photos"

    def is_dir(path: Path) -> bool:
        return answered.wait(30) if path == root else real(path)

    monkeypatch.setattr(Path, "is_dir", is_dir)
    monkeypatch.setattr("mediamill.api.assets._reach", Reach(0.05))
    try:
        asking = [served.client.get("/api/assets/1/source") for _ in range(40)]
        told = {(answer.status_code, answer.json()["code"]) for answer in await asyncio.gather(*asking)}
        assert told == {(503, "library_away")}
        async with asyncio.timeout(10):
            await asyncio.to_thread(int)
    finally:
        answered.set()


async def test_a_source_that_is_gone_a_link_or_not_mounted_is_said_to_be(
    served: Served, ground: Ground, tmp_path: Path
) -> None:
    await ground.library(images=1)
    (ground.root / "Photos" / "other.jpg").write_bytes(
        b"x"
    )  # an empty folder would look like a mount that is away
    gone = await served.client.get("/api/assets/1/source")
    assert (gone.status_code, gone.json()["code"]) == (404, "no_such_file")
    await put_source(ground, b"link.jpg", b"x")
    (ground.root / "Photos" / "link.jpg").unlink()
    (ground.root / "Photos" / "link.jpg").symlink_to("/etc/passwd")
    assert (await served.client.get("/api/assets/1/source")).status_code == 404
    await ground.run("update libraries set absolute_path = $1", str(tmp_path / "unmounted"))
    away = await served.client.get("/api/assets/1/source")
    assert (away.status_code, away.json()["code"]) == (503, "library_away")


@pytest.mark.spec("L2")
async def test_only_what_failed_is_tried_again(served: Served, ground: Ground) -> None:
    await ground.library(images=1)
    refused = await served.client.post("/api/assets/1/retry")
    assert (refused.status_code, refused.json()["code"]) == (409, "nothing_to_retry")
    await ground.run("update assets set status = 'poisoned', retry_count = 6, error = 'no image'")
    again = (await served.client.post("/api/assets/1/retry")).json()
    assert (again["status"], again["retry_count"], again["error"]) == ("pending", 0, None)


@pytest.mark.spec("L23")
async def test_what_is_there_is_made_again(served: Served, ground: Ground) -> None:
    await ground.library(images=1, videos=1)
    await ground.complete()
    one = (await served.client.post("/api/assets/1/remake")).json()
    assert one["status"] == "pending"
    refused = await served.client.post("/api/assets/1/remake")
    assert (refused.status_code, refused.json()["code"]) == (409, "nothing_to_remake")
    some = (await served.client.post("/api/libraries/photos/remake?what=videos")).json()
    assert (some["remade"], some["after"]) == (1, 2)
    rest = await served.client.post("/api/libraries/photos/remake?what=videos&after=2")
    assert rest.json() == {"remade": 0, "after": None}


@pytest.mark.parametrize("path", ["", "/source", "/files/1-0/preview.webp"])
async def test_an_asset_that_is_not_there_is_not_found(served: Served, path: str) -> None:
    answer = await served.client.get(f"/api/assets/99{path}")
    assert (answer.status_code, answer.json()["code"]) == (404, "unknown_asset")
    assert (await served.client.get(f"/api/assets/0{path}")).status_code == 422
    assert (await served.client.get(f"/api/assets/{2**63}{path}")).status_code == 422
