"""What downloads leave behind: nothing that is open, and of dead workers nothing that is old."""

from __future__ import annotations

import fcntl
import os
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from mediamill.engine.model import ClaimedJob
from mediamill.worker.away import RefusedError
from mediamill.worker.download import LEFTOVER_SECONDS, Downloads
from mediamill.worker.server_link import ServerLink, WordRefusedError
from tests.worker.canned import canned
from tests.worker.harness import opened_now

pytestmark = pytest.mark.spec("E23")
JOB = ClaimedJob(7, 3, 5, "test.k", "audio", "o", None, None, 1, 3, "{}", None)
WHOLE = (200, b"data", {"ETag": '"t-1"'})


@asynccontextmanager
async def downloads(folder: Path, *answers: tuple[Any, ...]) -> AsyncIterator[Downloads]:
    async with canned(*answers) as server:
        link = ServerLink(server.url, "key")
        found = Downloads(folder, link)
        yield found
        found.close()
        await link.close()
    assert [name for name in opened_now() if "remote_inputs" in name] == [], "all is let go"


def there(folder: Path) -> list[str]:
    return sorted(path.name for path in (folder / "remote_inputs").iterdir())


def leave(folder: Path, *names: str, seconds: float) -> None:
    """So long ago."""
    at = time.time() - seconds
    for name in names:
        path = folder / "remote_inputs" / name
        path.parent.mkdir(exist_ok=True)
        if name.endswith(".d"):
            path.mkdir()
            (path / "part").touch()
        else:
            path.touch()
        os.utime(path, (at, at))


@pytest.mark.parametrize("several", [False, True])
async def test_what_dead_workers_left_goes_when_it_is_old_and_nobody_holds_it(
    tmp_path: Path, several: bool
) -> None:
    leave(tmp_path, "1_t_old", "2_t_held", "1-old.d", "2-held.d", seconds=LEFTOVER_SECONDS + 60)
    leave(tmp_path, "3_t_young", "3-young.d", seconds=LEFTOVER_SECONDS - 600)
    held = [os.open(tmp_path / "remote_inputs" / name, os.O_RDONLY) for name in ("2_t_held", "2-held.d")]
    for each in held:
        fcntl.flock(each, fcntl.LOCK_EX)
    async with downloads(tmp_path, WHOLE) as fetching:
        await (fetching.fetch_files(JOB, ["a"]) if several else fetching.fetch(JOB))
        fetching.drop(JOB.id)
        assert there(tmp_path) == ["2-held.d", "2_t_held", "3-young.d", "3_t_young"]
        for each in held:
            os.close(each)
        assert [name for name in opened_now() if "remote_inputs" in name] == []


async def test_a_job_that_has_ended_leaves_nothing_and_one_that_may_come_back_its_file(
    tmp_path: Path,
) -> None:
    async with downloads(tmp_path, WHOLE, WHOLE, WHOLE) as fetching:
        await fetching.fetch(JOB)
        await fetching.fetch_files(JOB, ["a"])
        assert len(there(tmp_path)) == 2
        fetching.drop(JOB.id)
        assert there(tmp_path) == []
        await fetching.fetch(JOB)
        fetching.drop(JOB.id, delete=False)
        assert len(there(tmp_path)) == 1
        fetching.drop(JOB.id)
        assert len(there(tmp_path)) == 1, "it is not in hand"


async def test_only_what_is_in_hand_is_kept(tmp_path: Path) -> None:
    async with downloads(tmp_path, WHOLE, WHOLE) as fetching:
        file, folder = await fetching.fetch(JOB), await fetching.fetch_files(JOB, ["a"])
        fetching.keep_only({JOB.id})
        assert (file.exists(), folder.exists()) == (True, True)
        fetching.keep_only(())
        assert (file.exists(), folder.exists()) == (False, False)


@pytest.mark.parametrize(
    ("answer", "error"),
    [
        ((403, {"code": "revoked", "detail": "no"}), RefusedError),
        ((200, b"data"), WordRefusedError),
        ((404, {"code": "input_missing", "detail": "no"}), WordRefusedError),
    ],
)
async def test_a_file_that_is_refused_leaves_nothing(
    tmp_path: Path, answer: tuple[Any, ...], error: type[Exception]
) -> None:
    begun = (200, b"da", {"ETag": '"t-1"', "Content-Length": "4"})
    async with downloads(tmp_path, begun, answer) as fetching:
        with pytest.raises(error):
            await fetching.fetch(JOB)
        fetching.drop(JOB.id)
        assert there(tmp_path) == []
        assert [name for name in opened_now() if "remote_inputs" in name] == []
