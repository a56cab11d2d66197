"""`mediamill videos upload`, as a call, as a process and in a terminal, against a real server."""

from __future__ import annotations

import asyncio
import json
import os
import signal
from collections.abc import AsyncIterator, Callable, Coroutine
from pathlib import Path

import pytest

from mediamill.access.model import HERE, Scope
from mediamill.access.tokens import create_token
from mediamill.cli.command import run
from mediamill.db.connection import Database
from tests.api.serving import Served, serve
from tests.cli.conftest import Said, finish_process, start_process
from tests.client.cutting import CuttingLine, cutting_line
from tests.conftest import wait_until
from tests.stories.terminals import Terminal

FILM = b"\0\0\0\x18ftypmp42\0\0\0\0mp42isom" + bytes(range(256)) * 12_000
Call = Callable[..., Coroutine[None, None, Said]]


@pytest.fixture
async def served(database: Database, tmp_path: Path) -> AsyncIterator[Served]:
    async with serve(database, tmp_path / "data") as served:
        yield served


@pytest.fixture
async def line(served: Served, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[CuttingLine]:
    """The command finds the server at its end."""
    async with cutting_line(served.url) as line:
        monkeypatch.setenv("MEDIAMILL_PORT", line.url.rpartition(":")[2])
        yield line


@pytest.fixture
def call(line: CuttingLine, capsys: pytest.CaptureFixture[str]) -> Call:
    async def call(*words: object) -> Said:
        code = await asyncio.to_thread(run, ["videos", "upload", *map(str, words)])
        out, err = capsys.readouterr()
        assert "Traceback" not in err
        return Said(code, out, err)

    return call


@pytest.fixture
def film(tmp_path: Path) -> Path:
    path = tmp_path / "My film.mp4"
    path.write_bytes(FILM)
    return path


@pytest.mark.spec("V1")
async def test_a_file_is_uploaded_with_what_is_said_of_it(served: Served, call: Call, film: Path) -> None:
    said = await call(
        film, "--title", "Sea", "--description", "waves", "--category", "trips", "--priority", "high"
    )
    video_id = await served.one("select id::text from videos")
    assert (said.code, said.err) == (0, "")
    assert said.out == f"My film.mp4 is uploaded (3.1 MB): video {video_id}\n"
    assert await served.one("select title || description || category from videos") == "Seawavestrips"
    assert await served.one("select array_agg(priority) from jobs") == [0]


@pytest.mark.spec("V1")
async def test_a_token_that_may_only_bring_things_in_uploads_and_one_that_may_only_look_is_refused(
    database: Database,
    tmp_path: Path,
    film: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    async with database.connection() as connection:
        camera, screen = [
            (await create_token(connection, scope, [scope], days=None, made_by=HERE)).token
            for scope in (Scope.INGEST, Scope.READ)
        ]
    async with serve(database, tmp_path / "data", login="always") as closed:
        monkeypatch.setenv("MEDIAMILL_PORT", closed.url.rpartition(":")[2])
        monkeypatch.setenv("MEDIAMILL_TOKEN", screen)
        assert await asyncio.to_thread(run, ["videos", "upload", str(film)]) == 1
        assert "needs the scope ingest" in capsys.readouterr().err
        monkeypatch.setenv("MEDIAMILL_TOKEN", camera)
        assert await asyncio.to_thread(run, ["videos", "upload", str(film)]) == 0
        assert await closed.one("select count(*) from videos") == 1
        assert await closed.one("select count(*) from audit where action = 'scope.missing'") == 1


async def test_several_files_and_json(served: Served, call: Call, film: Path, tmp_path: Path) -> None:
    other = tmp_path / "other.mp4"
    other.write_bytes(FILM + b"more")
    said = await call(film, other, "--json")
    told = said.json
    assert [(each["file"], each["bytes"], each["state"]) for each in told] == [
        (str(film), len(FILM), "pending"),
        (str(other), len(FILM) + 4, "pending"),
    ]
    assert await served.one("select count(*) from videos") == 2
    refused = await call(film, other, "--title", "one for both")
    assert (refused.code, "one title does not do" in refused.err) == (1, True)


async def test_what_the_server_would_refuse_is_told_before_anything_is_sent(
    served: Served, call: Call, film: Path, tmp_path: Path, line: CuttingLine
) -> None:
    note = tmp_path / "note.mp4"
    note.write_text("Dear diary")
    for path, complaint in ((note, "text/plain"), (tmp_path / "none.mp4", "No such file")):
        said = await call(film, path)
        assert said.code == 1
        assert complaint in said.err
    assert line.connections == 0


async def test_one_that_is_refused_does_not_keep_the_others_from_it(
    served: Served, call: Call, film: Path, tmp_path: Path
) -> None:
    damaged = tmp_path / "bad.mp4"
    damaged.write_bytes(b"\0\0\0\x18ftypmp42" + bytes(3000))
    os.truncate(film, 2_000_000)
    served.app.state.upload_desk.uploads.settings.__dict__["video_upload_limit_bytes"] = 5000
    said = await call(film, damaged, "--json")
    told = json.loads(said.out)
    assert said.code == 1
    assert "a video may have 5000 bytes" in said.err
    assert [each["error"] is None for each in told] == [False, True]


async def test_without_a_server_it_says_how_to_start_one(
    film: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("MEDIAMILL_PORT", "9")
    assert await asyncio.to_thread(run, ["videos", "upload", str(film)]) == 1
    assert "start it: mediamill up" in capsys.readouterr().err


@pytest.mark.spec("V1")
async def test_ctrl_c_says_how_to_go_on_and_the_same_command_does(
    served: Served, call: Call, film: Path, line: CuttingLine
) -> None:
    line.stops_at = 2_000_000
    process = start_process("videos", "upload", film)

    async def on_its_way() -> bool:
        return line.passed >= 2_000_000

    await wait_until(on_its_way)
    process.send_signal(signal.SIGINT)
    stopped = await asyncio.to_thread(finish_process, process)
    assert stopped.code == 130
    assert "the same command goes on" in stopped.err
    assert "of 3.1 MB are there" in stopped.err
    assert "Traceback" not in stopped.err
    line.stops_at = None  # the line of before stays as it is: to the server somebody still sends
    said = await call(film, "--json")
    assert said.json[0]["resumed_from"] > 1_000_000
    assert await served.one("select array_agg(id::text) from videos") == [said.json[0]["video_id"]]
    line.go_on.set()


@pytest.mark.spec("V1")
async def test_killed_before_it_heard_the_end_the_same_command_finds_the_video(
    served: Served, call: Call, film: Path, line: CuttingLine
) -> None:
    line.mute_after = len(FILM) - 100_000
    process = start_process("videos", "upload", film)

    async def there() -> bool:
        return bool(await served.one("select count(*) from videos"))

    await wait_until(there)
    process.kill()
    await asyncio.to_thread(finish_process, process)
    line.mute_after, line.passed = None, 0
    said = await call(film, "--json")
    assert (said.code, said.json[0]["resumed_from"]) == (0, len(FILM))
    assert line.passed < 10_000, "it was sent again"
    assert await served.one("select array_agg(id::text) from videos") == [said.json[0]["video_id"]]
    assert (await call(film, "--json")).json[0]["video_id"] != said.json[0]["video_id"]  # heard: another one


@pytest.mark.spec("V1")
async def test_somebody_who_looks_sees_how_far_it_is(served: Served, film: Path, line: CuttingLine) -> None:
    line.stops_at = 2_000_000
    terminal = Terminal("videos", "upload", str(film), environment=dict(os.environ))
    await asyncio.to_thread(terminal.until, "/3.1 MB")
    line.go_on.set()
    await asyncio.to_thread(terminal.until, "is uploaded (3.1 MB)")
    assert await asyncio.to_thread(terminal.until_gone) == 0
    assert "My film.mp4" in terminal.shown
    terminal.close()


@pytest.mark.parametrize("end", ["ready", "failed"])
async def test_it_can_wait_until_the_video_is_made(served: Served, call: Call, film: Path, end: str) -> None:
    waiting = asyncio.create_task(call(film, "--wait", "--json"))

    async def there() -> bool:
        return bool(await served.one("select count(*) from videos"))

    await wait_until(there)
    assert not waiting.done()
    # A worker would do this.
    await served.run("delete from jobs")
    await served.run("update videos set state = $1, error = case $1 when 'failed' then 'no luck' end", end)
    said = await waiting
    [told] = json.loads(said.out)
    if end == "ready":
        assert (said.code, told["state"], told["slug"]) == (0, "ready", "my-film")
    else:
        assert (said.code, "no luck" in told["error"]) == (1, True)
