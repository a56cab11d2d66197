"""Files of videos over HTTP: the stream for players, the source for people; ranges, marks, caches; nothing else."""

from __future__ import annotations

import asyncio
import re
import socket
from pathlib import Path
from urllib.parse import unquote, urlsplit
from uuid import UUID, uuid4

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route
from starlette.testclient import TestClient

from mediamill.api.file_answer import answer_file
from mediamill.api.video_files import attachment
from mediamill.db.connection import Database
from mediamill.storage.folder import open_plain
from mediamill.videos.model import output_folder, source_name
from tests.api.serving import SECRET, Served, serve
from tests.conftest import wait_until
from tests.videos.played import Ground, play_worker, stream_of

BYTES = bytes(range(256)) * 5


@pytest.fixture
def ground(served: Served) -> Ground:
    """The worker's side of the same server."""
    deps = served.app.state.deps
    return Ground(deps.database, deps.settings, deps.engine, deps.enqueuer)


@pytest.fixture
async def sea(ground: Ground) -> tuple[UUID, int, str]:
    """A video that can be played: its id, its output, and where its files are."""
    video_id = await ground.add("Sea", source=BYTES)
    job = await play_worker(ground, video_id, ("720p", "360p"))
    return video_id, job.id, f"/api/videos/{video_id}/files/{job.id}"


@pytest.fixture(scope="module")
def plain(tmp_path_factory: pytest.TempPathFactory) -> TestClient:
    """Nothing but the answer with a file of 1280 bytes."""
    path = tmp_path_factory.mktemp("files") / "file"
    path.write_bytes(BYTES)

    async def answer(request: Request) -> Response:
        descriptor = open_plain(path)
        assert descriptor is not None
        return answer_file(request, descriptor, mark="mark")

    return TestClient(Starlette(routes=[Route("/", answer)]))


@pytest.mark.spec("V12")
@settings(max_examples=300)
@given(
    first=st.integers(0, 1400) | st.none(),
    last=st.integers(0, 1400) | st.none(),
    known=st.sampled_from([None, '"mark"', '"other"']),
)
def test_a_range_is_the_slice_of_the_bytes(
    plain: TestClient, first: int | None, last: int | None, known: str | None
) -> None:
    asked = f"bytes={'' if first is None else first}-{'' if last is None else last}"
    headers = {"Range": asked} | ({"If-Range": known} if known else {})
    answer = plain.get("/", headers=headers)
    begin, end = (first or 0, len(BYTES) if last is None else last + 1)
    if first is None:  # so many at the end
        begin, end = max(0, len(BYTES) - (last or 0)), len(BYTES)
    part, backwards = BYTES[begin:end], first is not None and last is not None and last < first
    if backwards or asked == "bytes=-" or known == '"other"':
        assert (answer.status_code, answer.content) == (200, BYTES)
    elif not part:
        assert (answer.status_code, answer.content) == (416, b"")
        assert answer.headers["content-range"] == f"bytes */{len(BYTES)}"
    else:
        assert (answer.status_code, answer.content) == (206, part)
        assert answer.headers["content-range"] == f"bytes {begin}-{begin + len(part) - 1}/{len(BYTES)}"
        assert answer.headers["content-length"] == str(len(part))


@pytest.mark.spec("V12")
@pytest.mark.parametrize(
    "asked", ["bytes=0-1,4-5", "lines=0-3", "bytes=a-b", "bytes=-", "bytes", "", "bytes=1-²"]
)
def test_a_range_that_is_not_understood_gets_the_whole_file(plain: TestClient, asked: str) -> None:
    answer = plain.get("/", headers={b"Range": asked.encode()})
    assert (answer.status_code, answer.content) == (200, BYTES)


@pytest.mark.spec("V12")
@pytest.mark.parametrize(
    ("known", "status"),
    [
        ('"mark"', 304),
        ('W/"mark"', 304),
        ('"a", "mark"', 304),
        ("*", 304),
        ('"other"', 200),
        ("mark", 200),
        ("", 200),
    ],
)
def test_what_is_known_is_not_sent_again(plain: TestClient, known: str, status: int) -> None:
    answer = plain.get("/", headers={"If-None-Match": known})
    assert (answer.status_code, answer.headers["etag"]) == (status, '"mark"')
    assert answer.content == (BYTES if status == 200 else b"")


@pytest.mark.spec("V12")
def test_head_tells_the_length_and_sends_nothing(plain: TestClient) -> None:
    answer = plain.head("/", headers={"Range": "bytes=0-9"})
    assert (answer.status_code, answer.content) == (200, b"")
    assert (answer.headers["content-length"], answer.headers["accept-ranges"]) == ("1280", "bytes")


@pytest.mark.spec("V12")
async def test_a_player_finds_every_file_from_the_master_on_by_relative_names(
    served: Served, sea: tuple[UUID, int, str]
) -> None:
    made, seen = stream_of(("720p", "360p")), set()
    waiting = ["master.m3u8", "poster.jpg", "thumbnail.jpg", "seek.vtt"]
    while waiting:
        name = waiting.pop()
        if name in seen:
            continue
        seen.add(name)
        answer = await served.client.get(f"{sea[2]}/{name}")
        assert (answer.status_code, answer.content) == (200, made[name][0]), name
        assert answer.headers["content-length"] == str(len(made[name][0]))
        if name.endswith((".m3u8", ".vtt")):
            assert "/" not in re.sub(r"mp4a?[./]", "", answer.text.replace("-->", ""))
            waiting += re.findall(r"[a-z0-9-]+\.(?:m3u8|mp4|m4s|jpg)", answer.text)
    assert seen == made.keys()


@pytest.mark.spec("V12")
@pytest.mark.parametrize(
    ("name", "media_type"),
    [
        ("master.m3u8", "application/vnd.apple.mpegurl"),
        ("720p.m3u8", "application/vnd.apple.mpegurl"),
        ("720p-init.mp4", "video/mp4"),
        ("720p-00001.m4s", "video/mp4"),
        ("audio-00001.m4s", "audio/mp4"),
        ("seek.vtt", "text/vtt; charset=utf-8"),
        ("poster.jpg", "image/jpeg"),
    ],
)
async def test_types_and_caches_are_right(
    served: Served, sea: tuple[UUID, int, str], name: str, media_type: str
) -> None:
    answer = await served.client.get(f"{sea[2]}/{name}")
    assert answer.headers["content-type"] == media_type
    assert answer.headers["x-content-type-options"] == "nosniff"
    playlist = name.endswith(".m3u8")
    assert answer.headers["cache-control"] == (
        "no-cache" if playlist else "private, max-age=31536000, immutable"
    )
    again = await served.client.get(f"{sea[2]}/{name}", headers={"If-None-Match": answer.headers["etag"]})
    assert (again.status_code, again.content) == (304, b"")
    head = await served.client.head(f"{sea[2]}/{name}")
    assert (head.status_code, head.content) == (200, b"")
    for same in ("content-type", "content-length", "etag", "cache-control"):
        assert head.headers[same] == answer.headers[same]


@pytest.mark.spec("V12")
async def test_behind_a_login_only_the_one_who_asked_may_keep_it(database: Database, tmp_path: Path) -> None:
    async with serve(database, tmp_path, host="0.0.0.0") as served:
        deps = served.app.state.deps
        ground = Ground(deps.database, deps.settings, deps.engine, deps.enqueuer)
        video_id = await ground.add()
        job = await play_worker(ground, video_id)
        answer = await served.client.get(
            f"/api/videos/{video_id}/files/{job.id}/poster.jpg", headers={"Authorization": f"Bearer {SECRET}"}
        )
    assert answer.headers["cache-control"] == "private, max-age=31536000, immutable"


@pytest.mark.spec("V12")
async def test_only_names_that_the_stream_has_are_served(
    served: Served, ground: Ground, sea: tuple[UUID, int, str]
) -> None:
    video_id, output, path = sea
    folder = ground.data / output_folder(video_id, output)
    (folder / "stranger.jpg").write_bytes(b"not of the stream")
    names = ("stranger.jpg", "../source", "..%2Fsource", "%2e%2e/source", "%2Fetc%2Fpasswd", ".", "x" * 101)
    for name in names:
        status = await _raw_status(served, f"{path}/{name}")
        assert status in (404, 422), name
    for wrong in (f"/api/videos/{video_id}/files/{output + 1}", f"/api/videos/{uuid4()}/files/{output}"):
        for name in ("master.m3u8", "poster.jpg"):
            answer = await served.client.get(f"{wrong}/{name}")
            assert (answer.status_code, answer.json()["code"]) == (404, "unknown_file")


@pytest.mark.spec("V12")
async def test_a_link_or_a_missing_file_is_not_served(
    served: Served, ground: Ground, sea: tuple[UUID, int, str], tmp_path: Path
) -> None:
    video_id, output, path = sea
    secret = tmp_path / "secret"
    secret.write_text("not yours")
    folder = ground.data / output_folder(video_id, output)
    for name in ("poster.jpg", "master.m3u8"):
        (folder / name).unlink()
        assert (await served.client.get(f"{path}/{name}")).json()["code"] == "unknown_file"
        (folder / name).symlink_to(secret)
        answer = await served.client.get(f"{path}/{name}")
        assert (answer.status_code, answer.json()["code"]) == (404, "unknown_file")
    (ground.data / source_name(video_id)).unlink()
    assert (await served.client.get(f"/api/videos/{video_id}/source")).status_code == 404


@pytest.mark.spec("V12", "V14")
async def test_of_a_video_in_the_trash_nothing_is_served(served: Served, sea: tuple[UUID, int, str]) -> None:
    video_id, _, path = sea
    await served.client.delete(f"/api/videos/{video_id}")
    for file in (f"{path}/master.m3u8", f"{path}/720p-00000.m4s", f"/api/videos/{video_id}/source"):
        assert (await served.client.get(file)).json()["code"] == "unknown_file"
    await served.client.post(f"/api/videos/{video_id}/restore")
    assert (await served.client.get(f"{path}/master.m3u8")).status_code == 200


@pytest.mark.spec("V10", "V12")
async def test_a_player_with_a_cached_playlist_plays_on_while_the_stream_is_made_anew_and_after_it(
    served: Served, ground: Ground, sea: tuple[UUID, int, str]
) -> None:
    video_id, output, path = sea
    whole = await served.client.get(f"{path}/master.m3u8")
    segment = await served.client.get(f"{path}/720p-00001.m4s")
    await served.client.post(f"/api/videos/{video_id}/retranscode", json={"qualities": ["720p"]})
    job = await play_worker(ground, video_id, ("720p",), salt="new")
    for number, same in ((output, True), (job.id, False)):
        files = f"/api/videos/{video_id}/files/{number}"
        assert (await served.client.get(f"{files}/master.m3u8")).text == whole.text
        answer = await served.client.get(f"{files}/720p-00001.m4s")
        assert (answer.status_code, answer.content == segment.content) == (200, same)


@pytest.mark.spec("V12", "V14")
async def test_the_source_is_a_download_by_range(served: Served, ground: Ground) -> None:
    video_id = await ground.add(source=BYTES, source_name='Größe "α".mp4')
    answer = await served.client.get(f"/api/videos/{video_id}/source")
    assert (answer.status_code, answer.content) == (200, BYTES)
    assert answer.headers["content-type"] == "video/mp4"
    said = answer.headers["content-disposition"]
    assert (
        said == f"attachment; filename=\"Gr__e ___.mp4\"; filename*=UTF-8''{said.partition('UTF-8')[2][2:]}"
    )
    assert unquote(said.rpartition("''")[2]) == 'Größe "α".mp4'
    rest = {"Range": "bytes=1000-", "If-Range": answer.headers["etag"]}
    answer = await served.client.get(f"/api/videos/{video_id}/source", headers=rest)
    assert (answer.status_code, answer.content) == (206, BYTES[1000:])


@settings(max_examples=200)
@given(st.text(max_size=200))
def test_no_name_breaks_out_of_its_header(name: str) -> None:
    said = attachment(name)
    match = re.fullmatch(r"attachment; filename=\"([ -~]+)\"; filename\*=UTF-8''([A-Za-z0-9%._~-]+)", said)
    assert match is not None, said
    assert not set(match[1]) & set('"\\/;')


@pytest.mark.spec("V12")
async def test_the_file_is_closed_when_whoever_asked_is_gone(served: Served, ground: Ground) -> None:
    video_id = await ground.add(source=b"x" * 50_000_000)
    address = urlsplit(served.url)

    def open_files() -> int:
        return sum(str(video_id) in _target(link) for link in Path("/proc/self/fd").iterdir())

    def begin() -> socket.socket:
        door = socket.create_connection((address.hostname or "", address.port or 0))
        door.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        door.sendall(f"GET /api/videos/{video_id}/source HTTP/1.1\r\nHost: localhost\r\n\r\n".encode())
        assert door.recv(100).startswith(b"HTTP/1.1 200")
        return door

    doors = [await asyncio.to_thread(begin) for _ in range(3)]
    assert open_files() == 3
    for door in doors:
        door.close()

    async def closed() -> bool:
        return open_files() == 0

    await wait_until(closed)
    assert (await served.client.head(f"/api/videos/{video_id}/source")).headers[
        "content-length"
    ] == "50000000"


def _target(link: Path) -> str:
    try:
        return str(link.readlink())
    except OSError:
        return ""


async def _raw_status(served: Served, path: str) -> int:
    """Clients tidy paths up before they send them; this one does not."""
    address = urlsplit(served.url)
    reader, writer = await asyncio.open_connection(address.hostname, address.port)
    writer.write(f"GET {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n".encode())
    line = await reader.readline()
    writer.close()
    return int(line.split()[1])
