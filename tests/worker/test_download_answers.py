"""Each answer of a server to a worker that fetches an input: what is gone on with, begun anew, or given up."""

from __future__ import annotations

import fcntl
import shutil
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from mediamill.engine.model import ClaimedJob
from mediamill.errors import GiveUpError, InvalidError, RetryLaterError
from mediamill.worker.away import RefusedError
from mediamill.worker.download import Downloads, InputChangedError, NoRoomError
from mediamill.worker.folder_download import InputTooLargeError
from mediamill.worker.server_link import ServerLink, WordRefusedError
from tests.worker.canned import Canned, canned

pytestmark = pytest.mark.spec("E23")

JOB = ClaimedJob(7, 3, 5, "test.k", "audio", "o", None, None, 1, 3, "{}", None)
DATA = b"0123456789"
REVOKED = (403, {"code": "revoked", "detail": "no"})
AWAY = (503, b"")


def whole(data: bytes = DATA, tag: str = "t-1", **more: str) -> tuple[Any, ...]:
    return 200, data, {"ETag": f'"{tag}"', **more}


def broken(size: int, tag: str = "t-1") -> tuple[Any, ...]:
    """The line is lost after so many bytes."""
    return whole(DATA[:size], tag, **{"Content-Length": "10"})


def rest(first: int, tag: str = "t-1", data: bytes | None = None, total: int = 10) -> tuple[Any, ...]:
    sent = DATA[first:] if data is None else data
    return 206, sent, {"ETag": f'"{tag}"', "Content-Range": f"bytes {first}-9/{total}"}


@asynccontextmanager
async def downloads(folder: Path, *answers: tuple[Any, ...]) -> AsyncIterator[tuple[Downloads, Canned]]:
    async with canned(*answers) as server:
        link = ServerLink(server.url, "key")
        found = Downloads(folder, link)
        yield found, server
        found.close()
        await link.close()


def ranges(server: Canned) -> list[tuple[str | None, str | None]]:
    return [(one.headers.get("range"), one.headers.get("if-range")) for one in server.asked]


def there(folder: Path) -> list[Path]:
    return sorted((folder / "remote_inputs").glob("*"))


@pytest.mark.parametrize(
    ("answers", "asked"),
    [
        ([whole()], [None]),
        ([whole(b"")], [None]),
        ([AWAY, AWAY, whole()], [None, None, None]),
        ([broken(4), rest(4)], [None, "bytes=4-"]),
        ([broken(4), AWAY, whole()], [None, "bytes=4-", "bytes=4-"]),
        ([broken(4), whole(tag="t-2")], [None, "bytes=4-"]),
        ([broken(4), rest(4, data=b"45"), rest(6)], [None, "bytes=4-", "bytes=6-"]),
    ],
)
async def test_a_file_is_fetched_from_where_it_broke_off(
    tmp_path: Path, answers: list[tuple[Any, ...]], asked: list[str | None]
) -> None:
    async with downloads(tmp_path, *answers) as (fetching, server):
        path = await fetching.fetch(JOB)
        assert path.read_bytes() == (b"" if answers[-1][1] == b"" else DATA)
        assert path.stat().st_mode & 0o777 == 0o600
        assert path.parent.stat().st_mode & 0o777 == 0o700
        assert there(tmp_path) == [path]
        fetching.drop(JOB.id)
        assert there(tmp_path) == []
    assert ranges(server) == [(one, None if one is None else '"t-1"') for one in asked]
    assert {one.path for one in server.asked} == {"/api/worker/jobs/7/input?token=3"}
    assert {one.headers["accept-encoding"] for one in server.asked} == {"identity"}


@pytest.mark.parametrize(
    ("answers", "error"),
    [
        ([broken(4), rest(4, tag="t-2")], InputChangedError),
        ([broken(4), rest(5)], InputChangedError),
        ([broken(4), (206, b"456789", {"ETag": '"t-1"'})], InputChangedError),
        ([broken(4), rest(4, data=b"456789!")], InputChangedError),
        ([whole(ETag="t-1")], WordRefusedError),
        ([(200, DATA)], WordRefusedError),
        ([broken(4), REVOKED], RefusedError),
        ([(404, {"code": "input_missing", "detail": "no"})], WordRefusedError),
    ],
)
async def test_what_is_not_the_file_that_was_begun_is_thrown_away(
    tmp_path: Path, answers: list[tuple[Any, ...]], error: type[Exception]
) -> None:
    async with downloads(tmp_path, *answers, whole()) as (fetching, _):
        with pytest.raises(error) as caught:
            await fetching.fetch(JOB)
        assert isinstance(caught.value, RetryLaterError) is (error is InputChangedError)
        fetching.keep_only({JOB.id})
        if error is not WordRefusedError:
            assert (await fetching.fetch(JOB)).read_bytes() == DATA, "the next try begins anew"
        fetching.keep_only(set())
        assert there(tmp_path) == []


async def test_a_file_for_which_the_disk_has_no_room_is_tried_later(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    usage = shutil.disk_usage(tmp_path)
    for free, fits in ((10, True), (9, False)):
        monkeypatch.setattr(shutil, "disk_usage", lambda _, free=free: usage._replace(free=free))
        async with downloads(tmp_path, whole()) as (fetching, _):
            if fits:
                assert (await fetching.fetch(JOB)).read_bytes() == DATA
            else:
                with pytest.raises(NoRoomError, match="has 10 bytes"):
                    await fetching.fetch(JOB)
            fetching.drop(JOB.id)
    monkeypatch.setattr(shutil, "disk_usage", lambda _: usage._replace(free=6))
    async with downloads(tmp_path, rest(4)) as (fetching, _):
        (tmp_path / "remote_inputs" / "7_t-1_dead").write_bytes(DATA[:4])
        assert (await fetching.fetch(JOB)).read_bytes() == DATA, "what is there needs no more room"


async def test_what_a_dead_worker_left_of_the_same_job_is_gone_on_with(tmp_path: Path) -> None:
    folder = tmp_path / "remote_inputs"
    folder.mkdir()
    (folder / "7_t-0_empty").touch()
    (folder / "77_t-1_other").write_bytes(b"another job's")
    (folder / "7_t-1_dead").write_bytes(DATA[:4])
    async with downloads(tmp_path, rest(4), whole()) as (fetching, server):
        assert await fetching.fetch(JOB) == folder / "7_t-1_dead"
        assert (folder / "7_t-1_dead").read_bytes() == DATA
        assert ranges(server) == [("bytes=4-", '"t-1"')]
        with (folder / "7_t-1_dead").open() as held, pytest.raises(BlockingIOError):
            fcntl.flock(held, fcntl.LOCK_EX | fcntl.LOCK_NB)
        with (folder / "7_t-0_empty").open() as left:
            fcntl.flock(left, fcntl.LOCK_EX | fcntl.LOCK_NB)  # of no use, and let go
        fetching.drop(JOB.id, delete=False)
        assert (folder / "7_t-1_dead").exists()
        with (folder / "7_t-1_dead").open() as held:
            fcntl.flock(held, fcntl.LOCK_EX | fcntl.LOCK_NB)  # of a worker that lives
            other = await fetching.fetch(JOB)
            assert (other != folder / "7_t-1_dead", other.read_bytes()) == (True, DATA)


async def test_a_whole_part_is_not_sent_again(tmp_path: Path) -> None:
    answer = (416, b"", {"ETag": '"t-1"', "Content-Range": "bytes */10"})
    async with downloads(tmp_path, answer) as (fetching, _):
        (tmp_path / "remote_inputs").mkdir(exist_ok=True)
        (tmp_path / "remote_inputs" / "7_t-1_dead").write_bytes(DATA)
        assert (await fetching.fetch(JOB)).read_bytes() == DATA


async def test_of_several_files_each_is_fetched_and_those_the_server_has_not_are_left_out(
    tmp_path: Path,
) -> None:
    answers = [
        *((200, b"one"), AWAY, broken(4), (200, DATA)),
        *((404, {"code": "input_missing", "detail": "no"}), REVOKED),
    ]
    async with downloads(tmp_path, *answers) as (fetching, server):
        folder = await fetching.fetch_files(JOB, ["a", "b", "c"])
        assert {path.name: path.read_bytes() for path in folder.iterdir()} == {"a": b"one", "b": DATA}
        assert folder.stat().st_mode & 0o777 == 0o700
        with pytest.raises(RefusedError):
            await fetching.fetch_files(JOB, ["a"])
        assert not folder.exists(), "a job has one folder"
        with pytest.raises(InvalidError):
            await fetching.fetch_files(JOB, ["../a"])
        server.answers = [(404, {"code": "other", "detail": "no"})]
        with pytest.raises(WordRefusedError):
            await fetching.fetch_files(JOB, ["a"])
        server.answers = [(200, b"", {"Content-Length": str((64 << 20) + 1)})]
        with pytest.raises(InputTooLargeError, match="limit is 67108864") as large:
            await fetching.fetch_files(JOB, ["a"])
        assert isinstance(large.value, GiveUpError)
        assert large.value.code == "input_too_large"
        fetching.drop(JOB.id)
        assert there(tmp_path) == []
    assert [one.path.rpartition("/")[2] for one in server.asked[:6]] == [
        f"{name}?token=3" for name in ("a", "b", "b", "b", "c", "a")
    ]
    assert {one.headers["accept-encoding"] for one in server.asked} == {"identity"}
