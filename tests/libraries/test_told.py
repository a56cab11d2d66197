"""Whoever watches a library hears of each change to it; and what is refused has its code."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from mediamill.db.connection import Connection
from mediamill.errors import MediamillError
from mediamill.libraries.add import add_library, check_mode, check_name, check_path
from mediamill.libraries.assets import show_asset
from mediamill.libraries.edit import edit_library, pause_library, resume_library
from mediamill.libraries.erase import empty_trash, mark_for_erasing
from mediamill.libraries.look import find_library
from mediamill.libraries.retag import set_tagger
from mediamill.libraries.scan_job import request_scan
from mediamill.libraries.scan_model import ScanBusyError, ScanFailedError, ScanLostError, ScanRefusedError
from mediamill.libraries.scan_state import begin_scan, finish_scan, hold_scan, stop_scan
from mediamill.libraries.trash import remove_library, restore_library
from tests.intake.played import Ground as Whole
from tests.libraries.played import Ground, ground

__all__ = ["ground"]


async def told(ground: Ground) -> int:
    """How many changes so far."""
    return int(
        await ground.one("select count(*) from events where topic = 'library.changed' and subject = 'photos'")
    )


@pytest.mark.spec("L1", "L14")
async def test_each_change_is_told_once(ground: Ground) -> None:
    whole = Whole.on(ground.database, ground.data)
    await ground.library(images=1)
    assert await told(ground) == 1
    heard = {}
    changes: dict[str, Callable[[Connection], Awaitable[Any]]] = {
        "edited": lambda c: edit_library(c, "photos", name="Pictures"),
        "paused": lambda c: pause_library(c, "photos"),
        "resumed": lambda c: resume_library(c, "photos"),
        "tagged by another": lambda c: set_tagger(c, ground.settings, "photos", "openai", "other"),
        "to be scanned": lambda c: request_scan(c, whole.enqueuer, "photos"),
        "to be scanned already": lambda c: request_scan(c, whole.enqueuer, "photos"),
        "removed": lambda c: remove_library(c, "photos"),
        "restored": lambda c: restore_library(c, "photos"),
        "removed again": lambda c: remove_library(c, "photos"),
        "to be erased": lambda c: mark_for_erasing(c, "photos"),
    }
    for name, change in changes.items():
        before = await told(ground)
        async with ground.database.transaction() as connection:
            await change(connection)
        heard[name] = await told(ground) - before
    assert heard == {name: int(name != "to be scanned already") for name in changes}
    before = await told(ground)
    await empty_trash(ground.database)
    gone = "select data ->> 'gone' from events where topic = 'library.changed' order by id desc limit 1"
    assert (await told(ground) > before, await ground.one(gone)) == (True, "true")


@pytest.mark.spec("L3")
async def test_a_scan_is_told_when_it_begins_and_however_it_ends(ground: Ground) -> None:
    await ground.library()
    for end in ("finished", "stopped"):
        before = await told(ground)
        claim = await begin_scan(ground.database, "photos")
        assert await told(ground) == before + 1
        with pytest.raises(ScanBusyError) as busy:
            await begin_scan(ground.database, "photos")
        assert (busy.value.code, "after 60 s" in (busy.value.fix or "")) == ("scan_busy", True)
        if end == "finished":
            await finish_scan(ground.database, claim, claim.counts)
        else:
            await stop_scan(ground.database, claim, "x" * 600)
            assert await ground.one("select scan_error from libraries") == "x" * 500
        assert await told(ground) == before + 2
        await ground.run("update libraries set scan_token = scan_token + 1")  # by another scan
        await stop_scan(ground.database, claim, "too late")
        assert await told(ground) == before + 2
        async with ground.database.transaction() as connection:
            with pytest.raises(ScanLostError) as lost:
                await hold_scan(connection, claim)
        assert lost.value.code == "scan_lost"


@pytest.mark.spec("L1", "L14")
async def test_what_is_refused_has_its_code_and_says_what_is_wrong(ground: Ground) -> None:
    whole = Whole.on(ground.database, ground.data)
    await ground.library()
    await ground.library("Trashed")
    await ground.library("Paused")
    folder = str(ground.root / "Photos")
    async with ground.database.transaction() as connection:
        await pause_library(connection, "paused")
        await remove_library(connection, "trashed")

    def add(name: str, path: str) -> Callable[[Connection], Awaitable[Any]]:
        return lambda c: add_library(c, name, path)

    async def check(verb: Callable[[str], Any], given: str) -> None:
        verb(given)

    refused: dict[str, tuple[Callable[[Connection], Awaitable[Any]], str, str]] = {
        "a library": (lambda c: find_library(c, "none"), "unknown_library", "'none'"),
        "one in the trash": (lambda c: find_library(c, "trashed"), "unknown_library", "'trashed'"),
        "an asset": (lambda c: show_asset(c, 10**9), "unknown_asset", "1000000000"),
        "a name that is taken": (add("photos!", str(ground.root)), "library_exists", "another name"),
        "a folder that is taken": (add("Same", folder), "library_exists", "the library photos"),
        "a folder in the trash": (
            add("Same", str(ground.root / "Trashed")),
            "library_exists",
            "`mediamill library restore trashed`",
        ),
        "a name in the trash": (add("Trashed", str(ground.root)), "library_in_trash", "restore trashed"),
        "a relative path": (lambda _: check_path("photos"), "bad_library", "no absolute path"),
        "a path with NUL": (lambda _: check_path("/a\0"), "bad_library", "no absolute path"),
        "a path that is no text": (lambda _: check_path("/\ud800"), "bad_library", "must be UTF-8"),
        "a path of nothing": (lambda _: check_path("/none/at/all"), "bad_library", "is it mounted?"),
        "a name too long": (lambda _: check(check_name, "n" * 201), "bad_library", "1 to 200"),
        "a way to sample": (lambda _: check(check_mode, "x"), "bad_library", "scenes or windows"),
        "a scan while it is paused": (
            lambda c: request_scan(c, whole.enqueuer, "paused"),
            "library_paused",
            "mediamill library resume paused",
        ),
        "to restore what is there": (
            lambda c: restore_library(c, "photos"),
            "not_in_trash",
            "not in the trash",
        ),
        "to erase what is there": (
            lambda c: mark_for_erasing(c, "photos"),
            "not_in_trash",
            "library remove photos",
        ),
        "to remove what is gone": (
            lambda c: remove_library(c, "trashed"),
            "in_trash",
            "library restore trashed",
        ),
    }
    found = {}
    for name, (call, _, words) in refused.items():
        async with ground.database.connection() as connection:
            with pytest.raises(MediamillError) as error:
                await call(connection)
        said = f"{error.value.message}: {error.value.fix}"
        found[name] = (error.value.code, words if words in said else said)
    assert found == {name: (code, words) for name, (_, code, words) in refused.items()}
    assert check_name("n" * 200) == "n" * 200
    assert [ScanFailedError.code, ScanRefusedError.code] == ["scan_failed", "scan_refused"]
