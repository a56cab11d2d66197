"""Uploads over HTTP, as the tus protocol has it."""

from __future__ import annotations

import asyncio
import base64
import errno
import hashlib
import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx
import psutil
import pytest

from mediamill.api import uploads as uploads_module
from mediamill.db.connection import Database
from mediamill.videos import upload as upload_module
from tests.api.serving import SECRET, Served, serve
from tests.conftest import wait_until

FILM = b"\0\0\0\x18ftypmp42\0\0\0\0mp42isom" + bytes(range(256)) * 800
LONG_FILM = FILM + bytes(range(256)) * 20_000  # of which a thread reads the most
TUS = {"Tus-Resumable": "1.0.0"}
CHUNK = {**TUS, "Content-Type": "application/offset+octet-stream"}


def metadata(**said: str) -> str:
    return ",".join(f"{key} {base64.b64encode(value.encode()).decode()}" for key, value in said.items())


async def begin(served: Served, length: int = len(FILM), **said: str) -> str:
    headers = {**TUS, "Upload-Length": str(length), "Upload-Metadata": metadata(**said)}
    answer = await served.client.post("/api/uploads", headers=headers)
    assert answer.status_code == 201, answer.text
    return answer.headers["location"]


async def send(served: Served, place: str, content: Any, offset: int = 0, **more: str) -> httpx.Response:
    headers = {**CHUNK, "Upload-Offset": str(offset), **more}
    return await served.client.patch(place, headers=headers, content=content)


async def offset_of(served: Served, place: str) -> int:
    answer = await served.client.head(place, headers=TUS)
    assert answer.status_code == 200
    return int(answer.headers["upload-offset"])


def code_of(answer: httpx.Response) -> tuple[int, str]:
    assert answer.headers["content-type"] == "application/problem+json"
    assert answer.headers["tus-resumable"] == "1.0.0"
    return answer.status_code, answer.json()["code"]


async def assert_one_video(served: Served, place: str) -> None:
    upload_id = place.rpartition("/")[2]
    assert await served.one("select array_agg(id::text) from videos") == [upload_id]
    assert await served.one("select array_agg(subject_id) from jobs") == [upload_id]


@pytest.mark.spec("V1")
async def test_the_server_tells_what_it_can(served: Served) -> None:
    for path in ("/api/uploads", "/api/uploads/0dbbc1b4-7a0b-4a41-a9a0-0b7a1ed9a8de"):
        answer = await served.client.options(path)
        assert answer.status_code == 204
        assert answer.headers["tus-version"] == "1.0.0"
        assert set(answer.headers["tus-extension"].split(",")) == {
            "creation",
            "creation-with-upload",
            "expiration",
            "termination",
            "checksum",
        }
        assert answer.headers["tus-max-size"] == str(100 * 1024**3)
        assert answer.headers["tus-checksum-algorithm"] == "sha256,sha1"


@pytest.mark.spec("V1")
async def test_a_file_comes_in_pieces_and_becomes_a_video(served: Served) -> None:
    place = await begin(served, filename="Été.mp4", title="Summer", description="long ago", category="trips")
    first = await send(served, place, FILM[:5000])
    assert (first.status_code, first.headers["upload-offset"]) == (204, "5000")
    assert "GMT" in first.headers["upload-expires"]
    assert "video-id" not in first.headers
    shown = await served.client.head(place, headers=TUS)
    assert (shown.headers["upload-offset"], shown.headers["upload-length"]) == ("5000", str(len(FILM)))
    assert shown.headers["cache-control"] == "no-store"
    assert metadata(filename="Été.mp4") in shown.headers["upload-metadata"]
    last = await send(served, place, FILM[5000:], 5000)
    upload_id = place.rpartition("/")[2]
    assert last.headers["video-id"] == upload_id
    assert (await served.client.head(place, headers=TUS)).headers["video-id"] == upload_id
    await assert_one_video(served, place)
    assert await served.one("select title || description || category from videos") == "Summerlong agotrips"


async def test_a_new_upload_may_bring_its_first_bytes(served: Served) -> None:
    headers = {**CHUNK, "Upload-Length": str(len(FILM)), "Upload-Metadata": metadata(fingerprint="f")}
    half = await served.client.post("/api/uploads", headers=headers, content=FILM[:3000])
    assert (half.status_code, half.headers["upload-offset"]) == (201, "3000")
    again = await served.client.post("/api/uploads", headers=headers, content=FILM[:3000])
    assert (again.headers["location"], again.headers["upload-offset"]) == (half.headers["location"], "3000")
    await send(served, half.headers["location"], FILM[3000:], 3000)
    whole = await served.client.post("/api/uploads", headers={**headers, "Upload-Metadata": ""}, content=FILM)
    assert whole.headers["video-id"] == whole.headers["location"].rpartition("/")[2]
    assert await served.one("select count(*) from videos") == 2


@pytest.mark.spec("V1")
async def test_an_unfinished_upload_is_found_again_by_its_fingerprint(served: Served) -> None:
    headers = {**TUS, "Upload-Length": str(len(FILM)), "Upload-Metadata": metadata(fingerprint="mine")}
    begun = await asyncio.gather(*(served.client.post("/api/uploads", headers=headers) for _ in range(5)))
    assert len({answer.headers["location"] for answer in begun}) == 1
    await send(served, begun[0].headers["location"], FILM[:777])
    again = await served.client.post("/api/uploads", headers=headers)
    assert (again.status_code, again.headers["upload-offset"]) == (201, "777")


@pytest.mark.parametrize(
    ("headers", "status", "code"),
    [
        ({"Tus-Resumable": ""}, 412, "tus_version"),
        ({"Tus-Resumable": "0.2.2"}, 412, "tus_version"),
        ({"Upload-Length": "x"}, 422, "upload_header_invalid"),
        ({"Upload-Length": "-1"}, 422, "upload_header_invalid"),
        ({"Upload-Length": "9" * 19}, 422, "upload_header_invalid"),
        ({"Upload-Length": "0"}, 422, "empty_upload"),
        ({"Upload-Length": str(100 * 1024**3 + 1)}, 413, "upload_too_large"),
        ({"Upload-Defer-Length": "1"}, 422, "length_deferred"),
        ({"Upload-Concat": "partial"}, 422, "concatenation_unsupported"),
        ({"Upload-Metadata": "title !!!"}, 422, "upload_header_invalid"),
        ({"Upload-Metadata": "title /w=="}, 422, "upload_header_invalid"),
        ({"Upload-Metadata": "title YQ==,title YQ=="}, 422, "upload_header_invalid"),
        ({"Upload-Metadata": metadata(title="x" * 300)}, 422, "bad_video_facts"),
        ({"Upload-Metadata": metadata(priority="now")}, 422, "unknown_priority"),
    ],
)
async def test_what_cannot_begin_says_why(
    served: Served, headers: dict[str, str], status: int, code: str
) -> None:
    answer = await served.client.post("/api/uploads", headers={**TUS, "Upload-Length": "5", **headers})
    assert code_of(answer) == (status, code)
    assert answer.headers["tus-version"] == "1.0.0"
    assert await served.one("select count(*) from uploads") == 0


async def test_keys_that_nobody_knows_and_empty_ones_do_no_harm(served: Served) -> None:
    headers = {**TUS, "Upload-Length": "5", "Upload-Metadata": "relativePath bnVsbA==, is_secret,title"}
    assert (await served.client.post("/api/uploads", headers=headers)).status_code == 201


@pytest.mark.spec("V1")
async def test_chunks_that_do_not_fit_are_refused_and_change_nothing(served: Served) -> None:
    place = await begin(served)
    await send(served, place, FILM[:100])
    wrong = hashlib.sha256(b"else").digest()
    checksum = f"sha256 {base64.b64encode(wrong).decode()}"
    for content, headers, expected in (
        (b"x", {"Upload-Offset": "99"}, (409, "offset_mismatch")),
        (b"x", {"Upload-Offset": "101"}, (409, "offset_mismatch")),
        (b"x", {"Upload-Offset": "-1"}, (422, "upload_header_invalid")),
        (b"x", {"Upload-Offset": ""}, (422, "upload_header_invalid")),
        (b"x", {"Content-Type": "video/mp4"}, (415, "media_type_unsupported")),
        (b"x", {"Content-Encoding": "gzip"}, (415, "media_type_unsupported")),
        (b"x", {"Tus-Resumable": "2.0.0"}, (412, "tus_version")),
        (FILM, {}, (413, "beyond_length")),
        (b"x", {"Upload-Checksum": checksum}, (460, "checksum_mismatch")),
        (b"x", {"Upload-Checksum": "md5 abc="}, (400, "checksum_unsupported")),
        (b"x", {"Upload-Checksum": "sha256 abc="}, (400, "checksum_unsupported")),
        (b"x", {"Upload-Checksum": checksum.replace("sha256", "sha1")}, (400, "checksum_unsupported")),
    ):
        assert code_of(await send(served, place, content, 100, **headers)) == expected
        assert await offset_of(served, place) == 100

    async def too_much() -> AsyncIterator[bytes]:
        for _ in range(30):
            yield b"x" * 100_000

    assert code_of(await send(served, place, too_much(), 100)) == (413, "beyond_length")  # of no told length
    assert await offset_of(served, place) == 100
    digest = base64.b64encode(hashlib.sha256(FILM[100:]).digest()).decode()
    answer = await send(served, place, FILM[100:], 100, **{"Upload-Checksum": f"sha256 {digest}"})
    assert answer.status_code == 204
    await assert_one_video(served, place)


@pytest.mark.spec("V1")
async def test_what_is_no_video_is_refused_with_its_reason(served: Served) -> None:
    place = await begin(served, 9)
    answer = await send(served, place, b"%PDF-1.7 ")
    assert code_of(answer) == (415, "not_a_video")
    assert "application/pdf" in answer.json()["detail"]
    assert (await served.client.head(place, headers=TUS)).status_code == 404


async def test_an_upload_can_be_ended(served: Served, tmp_path: Path) -> None:
    place = await begin(served)
    await send(served, place, FILM[:100])
    assert (await served.client.delete(place, headers=TUS)).status_code == 204
    assert list((tmp_path / "uploads").iterdir()) == []
    assert code_of(await send(served, place, b"x", 100)) == (404, "unknown_upload")
    assert code_of(await served.client.delete(place, headers=TUS)) == (404, "unknown_upload")


@pytest.mark.spec("V1")
async def test_a_finished_upload_is_found_again_until_its_sender_says_that_it_heard(served: Served) -> None:
    first = await begin(served, fingerprint="mine")
    await send(served, first, FILM)
    headers = {**CHUNK, "Upload-Length": str(len(FILM)), "Upload-Metadata": metadata(fingerprint="mine")}
    for content in (b"", FILM):  # a first chunk is not needed
        again = await served.client.post("/api/uploads", headers=headers, content=content)
        assert (again.status_code, again.headers["location"]) == (201, first)
        assert again.headers["upload-offset"] == str(len(FILM))
        assert again.headers["video-id"] == first.rpartition("/")[2]
    await assert_one_video(served, first)
    for _ in range(2):  # whoever did not hear this answer says it again
        heard = await served.client.delete(first, headers=TUS)
        assert (heard.status_code, heard.headers["video-id"]) == (204, first.rpartition("/")[2])
    await assert_one_video(served, first)
    second = await begin(served, fingerprint="mine")
    assert second != first
    assert await offset_of(served, second) == 0


async def test_where_only_post_passes_the_method_is_in_a_header(served: Served) -> None:
    place = await begin(served)
    patch = {**CHUNK, "Upload-Offset": "0", "X-HTTP-Method-Override": "PATCH"}
    assert (await served.client.post(place, headers=patch, content=FILM[:10])).status_code == 204
    head = await served.client.post(place, headers={**TUS, "X-HTTP-Method-Override": "HEAD"})
    assert head.headers["upload-offset"] == "10"
    refused = await served.client.post(place, headers=TUS)
    assert (refused.status_code, refused.headers["allow"]) == (405, "DELETE, HEAD, OPTIONS, PATCH, POST")
    delete = await served.client.post(place, headers={**TUS, "X-HTTP-Method-Override": "DELETE"})
    assert delete.status_code == 204
    # A method in a header is no way around the guard: reading stays reading.
    assert (await served.client.get(place, headers=patch)).status_code == 405


@pytest.mark.parametrize("name", ["x", "..", "%2e%2e%2fvideos", "0dbbc1b4-7a0b-4a41-a9a0-0b7a1ed9a8de"])
async def test_an_id_that_is_none_of_ours_leads_nowhere(served: Served, name: str) -> None:
    answer = await send(served, f"/api/uploads/{name}", FILM)
    assert answer.status_code in (404, 405, 422)
    answer = await served.client.delete(f"/api/uploads/{name}", headers=TUS)
    assert answer.status_code in (404, 405, 422)


async def test_strangers_and_pages_of_others_are_kept_out(database: Database, tmp_path: Path) -> None:
    async with serve(database, tmp_path, host="0.0.0.0") as served:
        headers = {**TUS, "Upload-Length": "5"}
        assert (await served.client.post("/api/uploads", headers=headers)).status_code == 401
        headers["Authorization"] = f"Bearer {SECRET}"
        assert (await served.client.post("/api/uploads", headers=headers)).status_code == 201
        headers["Origin"] = "https://evil.example"
        assert (await served.client.post("/api/uploads", headers=headers)).status_code == 403


# Lines that break, and two at once.


@asynccontextmanager
async def line(served: Served, place: str, offset: int, length: int) -> AsyncIterator[asyncio.StreamWriter]:
    """A connection on which a chunk was begun."""
    host, port = served.url.removeprefix("http://").split(":")
    _, writer = await asyncio.open_connection(host, int(port))
    lines = [f"PATCH {place} HTTP/1.1", f"Host: {host}", f"Content-Length: {length}"]
    lines += [f"{name}: {value}" for name, value in {**CHUNK, "Upload-Offset": str(offset)}.items()]
    writer.write(("\r\n".join(lines) + "\r\n\r\n").encode())
    try:
        yield writer
    finally:
        writer.close()


async def until_locked(served: Served, place: str) -> None:
    """Somebody sends it."""

    async def locked() -> bool:
        return bool(served.app.state.upload_desk._sending)

    await wait_until(locked)


@pytest.mark.spec("V1")
async def test_what_came_before_the_line_broke_is_kept(served: Served) -> None:
    film = LONG_FILM
    place = await begin(served, len(film))
    async with line(served, place, 0, len(film)) as writer:
        writer.write(film[:3_000_000])
        await writer.drain()

        async def on_its_way() -> bool:
            return await offset_of(served, place) >= 1 << 20

        await wait_until(on_its_way)

    async def let_go() -> bool:
        return not served.app.state.upload_desk._sending

    await wait_until(let_go)
    offset = await offset_of(served, place)
    assert offset == 3_000_000
    assert (await send(served, place, film[offset:], offset)).status_code == 204
    await assert_one_video(served, place)
    source = Path(served.app.state.deps.settings.data_folder) / "videos" / place.rpartition("/")[2] / "source"
    assert source.read_bytes() == film


@pytest.mark.spec("V1")
@pytest.mark.parametrize("film", [FILM, LONG_FILM], ids=["short", "long"])
async def test_a_second_sender_is_told_that_somebody_sends(
    served: Served, monkeypatch: pytest.MonkeyPatch, film: bytes
) -> None:
    monkeypatch.setattr(uploads_module, "SILENT_SECONDS", 1e9)
    monkeypatch.setattr(upload_module, "LOCK_TRIES", 2)
    place = await begin(served, len(film))
    async with line(served, place, 0, len(film)) as writer:
        writer.write(film[:10])
        await writer.drain()
        await until_locked(served, place)
        assert code_of(await send(served, place, film)) == (423, "upload_locked")
        assert code_of(await served.client.delete(place, headers=TUS)) == (423, "upload_locked")
        writer.write(film[10:])
        await writer.drain()

        async def finished() -> bool:
            return "video-id" in (await served.client.head(place, headers=TUS)).headers

        await wait_until(finished)
    await assert_one_video(served, place)


@pytest.mark.spec("V1")
@pytest.mark.parametrize("film", [FILM, LONG_FILM], ids=["short", "long"])
async def test_a_line_that_broke_unnoticed_makes_way_for_the_next(
    served: Served, monkeypatch: pytest.MonkeyPatch, film: bytes
) -> None:
    monkeypatch.setattr(uploads_module, "SILENT_SECONDS", 0.0)
    place = await begin(served, len(film))
    async with line(served, place, 0, len(film)) as writer:
        writer.write(film[:10])
        await writer.drain()
        await until_locked(served, place)

        async def made_way() -> (
            bool
        ):  # asking where to go on ends the silent line, which writes down what came
            await offset_of(served, place)
            return not served.app.state.upload_desk._sending

        await wait_until(made_way)
        offset = await offset_of(served, place)
        assert (await send(served, place, film[offset:], offset)).status_code == 204
    await assert_one_video(served, place)


@pytest.mark.spec("V1")
async def test_a_disk_that_gets_full_in_the_middle_is_told_to_a_sender_who_still_sends(
    served: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    place, really_write, taken = await begin(served, len(LONG_FILM)), os.write, 0

    def write(descriptor: int, piece: Any) -> int:
        nonlocal taken
        if taken >= 1 << 20:
            raise OSError(errno.ENOSPC, "No space left on device")
        taken += len(piece)
        return really_write(descriptor, piece)

    monkeypatch.setattr(os, "write", write)
    assert code_of(await send(served, place, LONG_FILM)) == (507, "storage_full")
    monkeypatch.undo()
    offset = await offset_of(served, place)
    assert offset >= taken
    assert (await send(served, place, LONG_FILM[offset:], offset)).status_code == 204
    source = Path(served.app.state.deps.settings.data_folder) / "videos" / place.rpartition("/")[2] / "source"
    assert source.read_bytes() == LONG_FILM


@pytest.mark.spec("V1")
async def test_a_long_chunk_is_held_to_its_checksum(served: Served) -> None:
    place = await begin(served, len(LONG_FILM))
    for said, expected in ((b"else", 460), (LONG_FILM, 204)):
        digest = base64.b64encode(hashlib.sha256(said).digest()).decode()
        answer = await send(served, place, LONG_FILM, 0, **{"Upload-Checksum": f"sha256 {digest}"})
        assert answer.status_code == expected
    await assert_one_video(served, place)


async def test_two_chunks_at_once_one_is_taken(served: Served) -> None:
    place = await begin(served)
    answers = await asyncio.gather(*(send(served, place, FILM) for _ in range(4)))
    statuses = sorted(answer.status_code for answer in answers)
    assert statuses[0] == 204
    assert set(statuses[1:]) <= {409, 423}
    await assert_one_video(served, place)


async def test_large_chunks_leave_memory_flat(database: Database, tmp_path: Path) -> None:
    """Read through the whole server, in this process; the sender is in it too, with a piece at a time."""
    length, piece = 300 << 20, bytes(1 << 20)

    async def pieces() -> AsyncIterator[bytes]:
        yield FILM + bytes(len(piece) - len(FILM))
        for _ in range(length // len(piece) - 1):
            yield piece

    async with serve(database, tmp_path) as served:
        place = await begin(served, length)
        await send(served, await begin(served), FILM)  # what is needed once
        before = psutil.Process().memory_info().rss
        seen = 0

        async def watched() -> AsyncIterator[bytes]:
            nonlocal seen
            async for each in pieces():
                seen = max(seen, psutil.Process().memory_info().rss)
                yield each

        answer = await send(served, place, watched(), 0, **{"Content-Length": str(length)})
        assert answer.headers["video-id"]
        assert seen - before < 40 << 20
