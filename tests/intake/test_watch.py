"""Watched folders: what stays as it is is taken in once; odd names, links, loops and growing files do no harm."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path
from typing import Any

import pytest

from mediamill.intake import folder as folders
from mediamill.intake.again import delete_file
from mediamill.intake.folder import open_below, read_folder
from mediamill.intake.look import list_files
from mediamill.intake.projects import edit_project, show_project
from mediamill.intake.receive import UnreadableFileError
from mediamill.intake.watch import look_at_folders, watch_folders_forever
from tests.conftest import wait_until
from tests.failing_database import failing
from tests.intake.played import INVOICE, Ground

pytestmark = pytest.mark.spec("P1")


@pytest.fixture
async def inbox(ground: Ground, tmp_path: Path) -> Path:
    """The watched folder of the project."""
    inbox = tmp_path / "inbox"
    inbox.mkdir()
    await ground.project(watch_path=str(inbox))
    return inbox


async def look(ground: Ground, times: int = 1) -> int:
    return sum(
        [await look_at_folders(ground.database, ground.enqueuer, ground.settings) for _ in range(times)]
    )


async def names(ground: Ground) -> list[str]:
    async with ground.database.connection() as connection:
        return [
            file["name"] for file in (await list_files(connection, ground.settings, "invoices"))["files"]
        ][::-1]


async def project(ground: Ground) -> dict[str, Any]:
    async with ground.database.connection() as connection:
        return await show_project(connection, "invoices")


def move(folder: Path, name: str) -> Path:
    return folder.rename(folder.with_name(name))


def everything_in(folder: Path) -> list[tuple[Path, int, int]]:
    return [(path, path.stat().st_mtime_ns, path.stat().st_mode) for path in sorted(folder.rglob("*"))]


async def test_a_file_is_taken_when_it_did_not_change_from_one_look_to_the_next(
    ground: Ground, inbox: Path
) -> None:
    (inbox / "a.txt").write_bytes(INVOICE)
    (inbox / "2024" / "may").mkdir(parents=True)
    (inbox / "2024" / "may" / "b.txt").write_text("b")
    assert await look(ground) == 0
    assert await look(ground) == 2
    assert await look(ground, 3) == 0
    assert await names(ground) == ["2024/may/b.txt", "a.txt"]
    assert await ground.one("select array_agg(distinct source) from project_files") == ["watch"]
    shown = await project(ground)
    assert (shown["watch_error"], shown["counts"]["queued"]) == (None, 2)
    assert shown["watched_at"] is not None


async def test_a_growing_file_is_not_taken_before_it_is_whole(ground: Ground, inbox: Path) -> None:
    growing = inbox / "scan.pdf"
    for size in range(1, 5):
        with growing.open("ab") as file:
            file.write(b"x" * size)
        assert await look(ground) == 0
    assert await look(ground) == 1


async def test_a_file_that_changes_while_it_is_read_is_left_for_the_next_look(
    ground: Ground, inbox: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = inbox / "a.txt"
    file.write_text("first")
    await look(ground)

    def open_late(path: str, rel_path: bytes) -> int:
        descriptor = open_below(path, rel_path)
        file.write_text("first and more")
        return descriptor

    monkeypatch.setattr("mediamill.intake.watch.open_below", open_late)
    assert await look(ground) == 0
    monkeypatch.undo()
    assert await look(ground, 2) == 1
    assert list((ground.data / "intake" / "parts").iterdir()) == []
    assert await ground.one("select bytes from analyses") == len("first and more")


async def test_the_same_path_with_other_content_is_a_new_file_and_touching_it_is_not(
    ground: Ground, inbox: Path
) -> None:
    (inbox / "a.txt").write_text("first")
    assert await look(ground, 2) == 1
    (inbox / "a.txt").write_text("second")
    assert await look(ground, 2) == 1
    os.utime(inbox / "a.txt", (1, 1))
    assert await look(ground, 3) == 0
    assert await names(ground) == ["a.txt", "a.txt"]


async def test_a_twin_in_a_watched_folder_is_a_twin(ground: Ground, inbox: Path) -> None:
    first = await ground.done()
    (inbox / "copy.txt").write_bytes(INVOICE)
    assert await look(ground, 2) == 1
    async with ground.database.connection() as connection:
        newest = (await list_files(connection, ground.settings, "invoices"))["files"][0]
    assert (newest["state"], newest["twin_of"]) == ("completed", first)


async def test_a_file_that_somebody_deleted_from_the_project_does_not_come_back(
    ground: Ground, inbox: Path
) -> None:
    (inbox / "a.txt").write_text("a")
    await look(ground, 2)
    async with ground.database.transaction() as connection:
        await delete_file(connection, await ground.one("select id from project_files"))
    assert await look(ground, 3) == 0


async def test_hidden_and_unfinished_files_links_and_pipes_are_not_taken(ground: Ground, inbox: Path) -> None:
    for name in (".hidden", "a.part", "b.PART", "~lock.txt", "c.txt~", "d.crdownload", "e.tmp"):
        (inbox / name).write_text("x")
    (inbox / ".git").mkdir()
    (inbox / ".git" / "config").write_text("x")
    secret = inbox.parent / "secret.txt"
    secret.write_text("secret")
    (inbox / "link.txt").symlink_to(secret)
    (inbox / "folder").symlink_to(inbox.parent)
    (inbox / "loop").symlink_to(inbox)
    os.mkfifo(inbox / "pipe")
    assert await look(ground, 3) == 0
    assert (await project(ground))["watch_error"] is None


async def test_a_link_that_takes_the_place_of_a_file_or_folder_leads_nowhere(inbox: Path) -> None:
    (inbox.parent / "secret.txt").write_text("secret")
    (inbox / "a.txt").symlink_to(inbox.parent / "secret.txt")
    (inbox / "folder").symlink_to(inbox.parent)
    for path in (b"a.txt", b"folder/secret.txt", b"nothing", b"no/thing"):
        with pytest.raises(UnreadableFileError):
            open_below(str(inbox), path)


async def test_names_that_are_no_text_are_taken_and_shown_in_one_line(ground: Ground, inbox: Path) -> None:
    for number, name in enumerate(
        (b"caf\xe9.txt", b"two\nlines.txt", "\u202etxt.exe".encode(), b"%s'\";.txt")
    ):
        (inbox / os.fsdecode(name)).write_bytes(bytes([number + 65]))
    assert await look(ground, 2) == 4
    assert await look(ground, 2) == 0
    assert set(await names(ground)) == {
        "caf\N{REPLACEMENT CHARACTER}.txt",
        "two\\nlines.txt",
        "\\u202etxt.exe",
        "%s'\";.txt",
    }


async def test_a_folder_that_vanishes_is_told_and_nothing_is_forgotten(ground: Ground, inbox: Path) -> None:
    (inbox / "a.txt").write_text("a")
    await look(ground, 2)
    aside = move(inbox, "aside")
    assert await look(ground, 2) == 0
    error = (await project(ground))["watch_error"]
    assert str(inbox) in error
    assert "No such file" in error
    assert await names(ground) == ["a.txt"]
    aside.with_name("inbox").mkdir()  # the place where nothing is mounted
    assert await look(ground, 2) == 0
    move(inbox, "empty")
    move(aside, "inbox")
    assert await look(ground, 2) == 0, "it was taken before"
    assert (await project(ground))["watch_error"] is None


async def test_a_file_that_cannot_be_taken_is_told_and_tried_again(ground: Ground, inbox: Path) -> None:
    small = Ground.on(ground.database, ground.data, upload_limit_bytes=3)
    (inbox / "large.txt").write_text("large")
    (inbox / "ok.txt").write_text("ok")
    assert await look(small, 2) == 1
    assert "large.txt: a file may have 3 bytes" in (await project(ground))["watch_error"]
    assert await look(ground) == 1
    assert (await project(ground))["watch_error"] is None


async def test_the_folder_is_never_written(ground: Ground, inbox: Path) -> None:
    (inbox / "sub").mkdir()
    (inbox / "sub" / "a.txt").write_text("a")
    before = everything_in(inbox)
    await look(ground, 3)
    assert everything_in(inbox) == before


async def test_our_own_folder_is_not_watched_nor_looked_into(ground: Ground, tmp_path: Path) -> None:
    await ground.project()
    await ground.add()
    async with ground.database.transaction() as connection:
        await edit_project(connection, "invoices", watch_path=str(ground.data / "intake"))
    assert await look(ground, 3) == 0
    assert "mediamill's own" in (await project(ground))["watch_error"]
    async with ground.database.transaction() as connection:
        await edit_project(connection, "invoices", watch_path=str(tmp_path))
    assert await look(ground, 3) == 0
    assert await names(ground) == ["invoice.txt"]


async def test_there_are_bounds_of_depth_and_number(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    deep = tmp_path / "deep"
    (deep / "/".join(["d"] * 40)).mkdir(parents=True)
    (deep / "/".join(["d"] * 40) / "far.txt").write_text("x")
    for number in range(12):
        (deep / f"{number:02}.txt").write_text("x")
    monkeypatch.setattr(folders, "MOST_FILES", 10)
    listing = read_folder(str(deep), str(tmp_path / "data"))
    assert [seen.rel_path for seen in listing.files] == [b"%02d.txt" % number for number in range(10)]
    assert any("deep" in trouble for trouble in listing.trouble)
    assert any("more than 10 files" in trouble for trouble in listing.trouble)


async def test_another_folder_is_looked_at_afresh(ground: Ground, inbox: Path, tmp_path: Path) -> None:
    (inbox / "a.txt").write_text("a")
    await look(ground, 2)
    other = tmp_path / "other"
    other.mkdir()
    (other / "a.txt").write_text("other")
    async with ground.database.transaction() as connection:
        await edit_project(connection, "invoices", watch_path=str(other))
    assert await look(ground, 2) == 1
    async with ground.database.transaction() as connection:
        await edit_project(connection, "invoices", watch_path="")
    (other / "b.txt").write_text("b")
    assert await look(ground, 3) == 0


async def test_two_servers_that_look_at_once_take_each_file_once(ground: Ground, inbox: Path) -> None:
    for number in range(10):
        (inbox / f"{number}.txt").write_text(str(number))
    await look(ground)
    assert sum(await asyncio.gather(look(ground), look(ground), look(ground))) == 10
    assert len(await names(ground)) == 10


async def test_the_server_watches_all_the_time(ground: Ground, inbox: Path) -> None:
    quick = Ground.on(ground.database, ground.data, intake_watch_seconds=0.02)
    watching = asyncio.create_task(watch_folders_forever(quick.database, quick.enqueuer, quick.settings))
    try:
        (inbox / "a.txt").write_text("a")
        await wait_until(lambda: names(ground))
    finally:
        watching.cancel()
        await asyncio.gather(watching, return_exceptions=True)
    assert await names(ground) == ["a.txt"]


async def test_the_server_watches_on_whatever_goes_wrong(ground: Ground, inbox: Path) -> None:
    (inbox / "a.txt").write_text("a")
    await look(ground)
    quick = Ground.on(ground.database, ground.data, intake_watch_seconds=0.02)
    watching = asyncio.create_task(
        watch_folders_forever(failing(ground.database), quick.enqueuer, quick.settings)
    )

    async def is_taken() -> bool:
        return watching.done() or bool(await names(ground))

    try:
        await wait_until(is_taken)
        assert not watching.done()
    finally:
        watching.cancel()
        await asyncio.gather(watching, return_exceptions=True)


async def test_another_folder_is_looked_at_afresh_though_all_in_it_looks_the_same(
    ground: Ground, inbox: Path, tmp_path: Path
) -> None:
    (tmp_path / "other").mkdir()
    for folder, content in ((inbox, "one"), (tmp_path / "other", "two")):
        (folder / "a.txt").write_text(content)
        os.utime(folder / "a.txt", (1, 1))
    assert await look(ground, 2) == 1
    async with ground.database.transaction() as connection:
        await edit_project(connection, "invoices", name="Bills", watch_path=str(inbox))
    assert await look(ground, 2) == 0, "it is the same folder"
    async with ground.database.transaction() as connection:
        await edit_project(connection, "invoices", watch_path=str(tmp_path / "other"))
    assert await look(ground) == 0
    assert await look(ground) == 1


async def test_of_one_folder_so_many_are_taken_in_a_round_and_the_others_in_the_next(
    ground: Ground, inbox: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("mediamill.intake.watch.MOST_TAKEN", 2)
    for name in "abc":
        (inbox / name).write_text(name)
    assert [await look(ground) for _ in range(4)] == [0, 2, 1, 0]


async def test_five_troubles_are_told_each_once_and_short(ground: Ground, inbox: Path) -> None:
    small = Ground.on(ground.database, ground.data, upload_limit_bytes=1)
    for name in ("a\udcff" + "a" * 100, *("bcdefg")):
        (inbox / name).write_text("xx")
    assert await look(small, 2) == 0
    error = (await project(ground))["watch_error"]
    assert [part.partition(": ")[2] for part in error.split("; ")] == ["a file may have 1 bytes"] * 5
    assert error.startswith("a\N{REPLACEMENT CHARACTER}aaa")
    assert "e: a file" in error
    assert "f: a file" not in error
    for name in "bcde":
        (inbox / name).rename(inbox / (name * 200))
    assert await look(small, 2) == 0
    assert len((await project(ground))["watch_error"]) == 500
