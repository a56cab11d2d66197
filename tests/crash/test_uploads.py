"""The server is killed with -9 during an upload and at each step of its end: it goes on, and becomes one video."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from mediamill.client import AsyncClient, UploadedVideo
from tests.client.cutting import CuttingLine, cutting_line
from tests.conftest import wait_until
from tests.crash.doomed_server import STEPS
from tests.crash.processes import Mill, Process, mill
from tests.ports import free_port

__all__ = ["mill"]

MEGABYTE = 1 << 20
FILM = b"\0\0\0\x18ftypmp42\0\0\0\0mp42isom" + bytes(range(256)) * 40_000


@pytest.fixture
def film(tmp_path: Path) -> Path:
    path = tmp_path / "film.mp4"
    path.write_bytes(FILM)
    return path


@pytest.fixture
async def line(mill: Mill) -> AsyncIterator[CuttingLine]:
    """A line to the server of the mill, whichever process that is just now."""
    port = free_port()
    mill.settings["MEDIAMILL_PORT"] = str(port)
    async with cutting_line(f"http://127.0.0.1:{port}") as line:
        yield line


@pytest.fixture(autouse=True)
def owner(mill: Mill, monkeypatch: pytest.MonkeyPatch) -> None:
    """The client finds the key of the server in its data folder."""
    monkeypatch.setenv("MEDIAMILL_DATA", str(mill.folder / "data"))


class DoomedServer(Process):
    """A server that kills itself at one step of the end of an upload."""

    def __init__(self, mill: Mill, step: str) -> None:
        said = mill.folder / "said-doomed.txt"
        super().__init__((step,), mill.environment, said, module="tests.crash.doomed_server")


async def upload(line: CuttingLine, film: Path) -> UploadedVideo:
    async with AsyncClient(line.url, patience=300) as client:
        return await client.upload_video(film)


async def assert_one_video(mill: Mill, video_id: str) -> None:
    assert await mill.one("select array_agg(id::text) from videos") == [video_id]
    assert await mill.one("select array_agg(subject_id) from jobs") == [video_id]
    assert await mill.one("select count(*) from uploads where finished_at is null") == 0
    data = mill.folder / "data"
    assert (data / "videos" / video_id / "source").read_bytes() == FILM
    assert list((data / "uploads").iterdir()) == []
    mill.assert_no_traceback()


@pytest.mark.spec("V1", "E23")
async def test_a_server_that_is_killed_in_the_middle_goes_on_from_there(
    mill: Mill, film: Path, line: CuttingLine
) -> None:
    server = await mill.started("up", "--workers", "0")
    line.stops_at = 6 * MEGABYTE
    uploading = asyncio.create_task(upload(line, film))

    async def half_there() -> bool:
        assert not uploading.done()
        parts = list((mill.folder / "data" / "uploads").glob("*"))
        return bool(parts) and parts[0].stat().st_size >= 4 * MEGABYTE

    await wait_until(half_there)
    server.kill()
    line.stops_at = None
    line.go_on.set()
    await mill.started("up", "--workers", "0")
    async with asyncio.timeout(120):
        done = await uploading
    await assert_one_video(mill, done.video_id)
    assert line.passed < len(FILM) + 4 * MEGABYTE  # what was on the disk was not sent again


@pytest.mark.spec("V1", "E23")
@pytest.mark.parametrize("step", STEPS)
async def test_a_server_that_is_killed_at_a_step_of_the_end_makes_one_video(
    mill: Mill, film: Path, line: CuttingLine, step: str
) -> None:
    doomed = DoomedServer(mill, step)
    try:
        await doomed.until_said("is up: ")
        uploading = asyncio.create_task(upload(line, film))
        assert await doomed.until_gone() == -9
        there = await mill.one("select count(*) from videos")
        assert there == (1 if step == "before_the_answer" else 0)
    finally:
        doomed.kill()
    await mill.started("up", "--workers", "0")
    # By itself, whoever asks: the sender may never come back.
    await mill.until("select count(*) = 1 from videos")
    async with asyncio.timeout(120):
        done = await uploading
    await assert_one_video(mill, done.video_id)
