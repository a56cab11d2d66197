"""Both clients upload to a real server, over lines that break."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from mediamill.client import AsyncClient, Client, NoServerError, ProblemError, VideoChangedError
from mediamill.client import upload as upload_module
from mediamill.db.connection import Database
from mediamill.errors import InvalidError
from tests.api.serving import SECRET, Served, serve
from tests.client.cutting import CuttingLine, cutting_line
from tests.conftest import wait_until

FILM = b"\0\0\0\x18ftypmp42\0\0\0\0mp42isom" + bytes(range(256)) * 12_000


@pytest.fixture
async def served(database: Database, tmp_path: Path) -> AsyncIterator[Served]:
    async with serve(database, tmp_path / "data") as served:
        yield served


@pytest.fixture
async def line(served: Served) -> AsyncIterator[CuttingLine]:
    async with cutting_line(served.url) as line:
        yield line


@pytest.fixture
def film(tmp_path: Path) -> Path:
    path = tmp_path / "Film_é.mp4"
    path.write_bytes(FILM)
    return path


class Uploader:
    """One of the two clients, made anew for each upload, as by a program that was started again."""

    def __init__(self, kind: type[Client] | type[AsyncClient], url: str) -> None:
        self._kind, self._url = kind, url

    async def __call__(self, path: Path, *, patience: float = 20, **more: Any) -> Any:
        if issubclass(self._kind, AsyncClient):
            async with AsyncClient(self._url, SECRET, patience=patience) as client:
                return await client.upload_video(path, **more)
        return await asyncio.to_thread(self._block, path, patience, more)

    def _block(self, path: Path, patience: float, more: dict[str, Any]) -> Any:
        with Client(self._url, SECRET, patience=patience) as client:
            return client.upload_video(path, **more)


@pytest.fixture(params=[Client, AsyncClient])
def upload(request: pytest.FixtureRequest, line: CuttingLine) -> Uploader:
    return Uploader(request.param, line.url)


async def assert_one_video(served: Served, video_id: str) -> None:
    assert await served.one("select array_agg(id::text) from videos") == [video_id]
    assert await served.one("select count(*) from jobs") == 1
    data = served.app.state.deps.settings.data_folder
    assert (data / "videos" / video_id / "source").read_bytes() == FILM


@pytest.mark.spec("V1")
async def test_a_video_is_uploaded_and_its_progress_told(
    served: Served, upload: Uploader, film: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(upload_module, "CHUNK_BYTES", 1_000_000)
    told: list[tuple[int, int]] = []
    done = await upload(
        film, title="Süß", description="a b", category="c", progress=lambda *so: told.append(so)
    )
    assert (done.byte_size, done.resumed_from) == (len(FILM), 0)
    assert told[0] == (0, len(FILM))
    assert told[-1] == (len(FILM), len(FILM))
    assert told == sorted(told)
    await assert_one_video(served, done.video_id)
    assert await served.one("select title || description || category from videos") == "Süßa bc"
    assert await served.one("select source_name from videos") == "Film_é.mp4"


@pytest.mark.spec("V1")
async def test_a_line_that_breaks_again_and_again_is_gone_on_from_where_it_was(
    served: Served, upload: Uploader, film: Path, line: CuttingLine
) -> None:
    line.cuts = [1_000_000, 2_000, 200, 700_000, 1, 1_000_000]
    done = await upload(film)
    await assert_one_video(served, done.video_id)
    assert line.cuts == []
    assert line.passed < 1.5 * len(FILM)  # what had arrived was not sent again


@pytest.mark.spec("V1")
async def test_the_same_file_goes_on_after_a_restart_of_the_client(
    served: Served, upload: Uploader, film: Path, line: CuttingLine, tmp_path: Path
) -> None:
    line.cuts = [1_500_000] + [0] * 50
    with pytest.raises(NoServerError):
        await upload(film, patience=1)
    line.cuts.clear()
    os.rename(film, tmp_path / "renamed.mp4")  # noqa: PTH104
    done = await upload(tmp_path / "renamed.mp4")
    assert done.resumed_from > 1_000_000
    await assert_one_video(served, done.video_id)


@pytest.mark.spec("V1")
async def test_an_answer_that_is_lost_makes_no_second_video(
    served: Served, upload: Uploader, film: Path, line: CuttingLine
) -> None:
    sent = False

    def mute_at_the_end(so_far: int, total: int) -> None:
        nonlocal sent
        line.mute = so_far == total and not sent
        sent = sent or so_far == total

    uploading = asyncio.create_task(upload(film, progress=mute_at_the_end))

    async def there() -> bool:
        return bool(await served.one("select count(*) from videos"))

    await wait_until(there)
    line.mute = False
    await assert_one_video(served, (await uploading).video_id)


async def until_there(served: Served, videos: int) -> None:
    async def there() -> bool:
        return bool(await served.one("select count(*) = $1 from videos", videos))

    await wait_until(there)


@pytest.mark.spec("V1")
async def test_a_client_that_never_heard_the_end_is_given_the_video_when_it_begins_again(
    served: Served, upload: Uploader, film: Path, line: CuttingLine
) -> None:
    line.mute_after = len(FILM) - 100_000
    with pytest.raises(NoServerError):
        await upload(film, patience=1)
    await until_there(served, 1)
    line.mute_after, line.passed = None, 0
    done = await upload(film)
    assert done.resumed_from == len(FILM)
    assert line.passed < 10_000, "it was sent again"
    await assert_one_video(served, done.video_id)


@pytest.mark.spec("V1")
async def test_the_same_file_sent_again_after_the_end_was_heard_is_another_video(
    served: Served, upload: Uploader, film: Path
) -> None:
    first, second = await upload(film), await upload(film)
    assert first.video_id != second.video_id
    assert second.resumed_from == 0
    assert await served.one("select count(*) from videos") == 2


async def test_a_server_that_is_not_told_that_the_end_was_heard_does_no_harm(
    served: Served, upload: Uploader, film: Path, line: CuttingLine
) -> None:
    line.refuses = b"DELETE "
    done = await upload(film)
    await assert_one_video(served, done.video_id)
    assert (await upload(film)).video_id == done.video_id
    line.refuses = None
    assert (await upload(film)).video_id == done.video_id  # it is heard now
    assert (await upload(film)).video_id != done.video_id


async def test_an_upload_that_was_dropped_meanwhile_is_begun_anew(
    served: Served, upload: Uploader, film: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(upload_module, "CHUNK_BYTES", 500_000)
    dropped, loop = False, asyncio.get_running_loop()

    def drop(sent: int, _total: int) -> None:
        nonlocal dropped
        if sent >= 1_000_000 and not dropped:
            dropped = True
            asyncio.run_coroutine_threadsafe(served.run("delete from uploads"), loop).result(30)

    done = await upload(film, progress=drop)
    assert dropped
    await assert_one_video(served, done.video_id)


@pytest.mark.spec("V1")
async def test_what_is_refused_says_why_and_is_not_tried_again(
    served: Served, upload: Uploader, tmp_path: Path, line: CuttingLine
) -> None:
    note = tmp_path / "note.mp4"
    note.write_bytes(b"Dear diary, no film today.\n" * 50_000)
    with pytest.raises(ProblemError, match="text/plain") as caught:
        await upload(note)
    assert (caught.value.code, caught.value.status) == ("not_a_video", 415)
    note.write_bytes(FILM)
    with pytest.raises(ProblemError) as caught:
        await upload(note, title="x" * 500)
    assert caught.value.code == "bad_video_facts"
    assert await served.one("select count(*) from uploads") == 0


async def test_an_empty_file_and_one_that_is_none_are_told_before_anything_is_sent(
    upload: Uploader, tmp_path: Path, line: CuttingLine
) -> None:
    (tmp_path / "empty.mp4").touch()
    os.mkfifo(tmp_path / "pipe.mp4")
    with pytest.raises(InvalidError, match="empty"):
        await upload(tmp_path / "empty.mp4")
    with pytest.raises(OSError, match="not a regular file"):
        await upload(tmp_path / "pipe.mp4")
    with pytest.raises(FileNotFoundError):
        await upload(tmp_path / "nothing.mp4")
    assert line.connections == 0


async def test_a_file_that_changes_meanwhile_is_not_mixed_up(
    served: Served, upload: Uploader, film: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(upload_module, "CHUNK_BYTES", 1_000_000)

    def change(sent: int, _total: int) -> None:
        if sent == 1_000_000:
            film.write_bytes(FILM[::-1])

    with pytest.raises(VideoChangedError):
        await upload(film, progress=change)
    assert await served.one("select count(*) from videos") == 0


async def test_a_file_that_changes_while_its_only_chunk_is_sent_is_not_taken(
    served: Served, upload: Uploader, film: Path
) -> None:
    changed = False

    def change(sent: int, _total: int) -> None:
        nonlocal changed
        if sent and not changed:
            changed = True
            with film.open("r+b") as file:
                file.seek(len(FILM) - 9)
                file.write(b"otherwise")
            os.utime(film, (1, 1))

    with pytest.raises(VideoChangedError):
        await upload(film, progress=change)
    assert await served.one("select count(*) from videos") == 0


async def test_where_no_server_is_patience_has_an_end(film: Path) -> None:
    with pytest.raises(NoServerError, match="no mediamill runs"):
        await Uploader(Client, "http://127.0.0.1:9")(film, patience=0.1)
