"""`mediamill library`: add, list, show, edit, pause, remove; by the command as it is typed."""

from __future__ import annotations

from pathlib import Path

import pytest

from mediamill.cli.library_screen import read_span
from mediamill.db.connection import Database
from mediamill.errors import InvalidError
from tests.cli.conftest import Mediamill
from tests.libraries.played import Ground


@pytest.fixture
def ground(database: Database, tmp_path: Path) -> Ground:
    """The worker's side of the same database and data folder."""
    return Ground.on(database, tmp_path / "data")


@pytest.mark.spec("L1", "L17")
async def test_a_library_is_added_listed_and_shown(mediamill: Mediamill, ground: Ground) -> None:
    assert "mediamill library add NAME PATH" in (await mediamill("library", "list")).out
    added = await mediamill(
        "library",
        "add",
        "My Photos",
        ground.root,
        "--rescan-every",
        "15m",
        "--sampling",
        "windows",
        "--no-scan",
    )
    assert (added.code, "library my-photos is added" in added.out) == (0, True), added.err
    assert "mediamill scan my-photos" in added.out
    listed = (await mediamill("library", "list")).out
    assert all(word in listed for word in ("my-photos", "My Photos", "idle", "never", str(ground.root)))
    shown = (await mediamill("library", "show", "my-photos")).out
    assert all(word in shown for word in ("every 15 min", "windows, at most 100", "by their own previews"))
    told = (await mediamill("library", "show", "my-photos", "--json")).json
    assert (told["rescan_seconds"], told["sampling_policy"]) == (900, {"mode": "windows"})


@pytest.mark.spec("L17")
async def test_a_scan_is_asked_for_with_it(mediamill: Mediamill, ground: Ground) -> None:
    added = (await mediamill("library", "add", "Photos", ground.root, "--json")).json
    assert added["scan_status"] == "scan_req"
    assert await ground.counts("jobs where kind = 'library.scan'") == [1]


async def test_a_path_may_be_said_from_here(
    mediamill: Mediamill, ground: Ground, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(ground.root)
    added = (await mediamill("library", "add", "Photos", ".", "--no-scan", "--json")).json
    assert added["absolute_path"] == str(ground.root)


@pytest.mark.spec("P11")
async def test_a_path_may_begin_with_the_home_folder(
    mediamill: Mediamill, ground: Ground, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(ground.root.parent))
    typed = f"~/{ground.root.name}"
    added = (await mediamill("library", "add", "Photos", typed, "--no-scan", "--json")).json
    assert added["absolute_path"] == str(ground.root)
    made = (await mediamill("intake", "create", "Scans", "--watch", typed, "--json")).json
    assert made["watch_path"] == str(ground.root)
    (ground.root / "note.txt").write_text("Hello")
    told = (await mediamill("intake", "add", "scans", f"{typed}/note.txt", "--json")).json
    assert told[0]["id"]
    assert (await mediamill("library", "add", "Others", "~nobody-of-that-name/x", "--no-scan")).code == 1


@pytest.mark.spec("L14", "L17")
async def test_a_library_is_removed_and_restored(mediamill: Mediamill, ground: Ground) -> None:
    await ground.library(images=2)
    removed = await mediamill("library", "remove", "photos")
    assert "mediamill library restore photos" in removed.out
    assert "mediamill trash empty photos" in removed.out
    assert (await mediamill("library", "list", "--json")).json == []
    refused = await mediamill("library", "add", "Photos", ground.root)
    assert refused.code == 1
    assert "mediamill library restore photos" in refused.err
    assert "another name" in refused.err
    assert "photos is back" in (await mediamill("library", "restore", "photos")).out
    assert (await mediamill("library", "show", "photos", "--json")).json["assets"] == 2
    twice = await mediamill("library", "restore", "photos")
    assert (twice.code, "not in the trash" in twice.err) == (1, True)


@pytest.mark.spec("L17")
async def test_a_library_is_paused_and_goes_on(mediamill: Mediamill, ground: Ground) -> None:
    await ground.library()
    assert "photos is paused" in (await mediamill("library", "pause", "photos")).out
    assert "paused" in (await mediamill("library", "list")).out
    assert (await mediamill("library", "resume", "photos", "--json")).json["is_active"] is True


@pytest.mark.spec("L1", "L17")
async def test_a_library_is_changed(mediamill: Mediamill, ground: Ground) -> None:
    await ground.library()
    changed = await mediamill(
        "library",
        "edit",
        "photos",
        "--name",
        "Pictures",
        "--rescan-every",
        "6h",
        "--ignore-previews",
        "--json",
    )
    told = changed.json
    assert (told["name"], told["rescan_seconds"], told["ignore_previews"]) == ("Pictures", 21600, True)
    never = (await mediamill("library", "edit", "photos", "--rescan-every", "never", "--json")).json
    assert never["rescan_seconds"] is None
    nothing = await mediamill("library", "edit", "photos")
    assert (nothing.code, "nothing is to be changed" in nothing.err) == (1, True)


@pytest.mark.spec("L11", "L17")
async def test_a_tagger_is_chosen(mediamill: Mediamill, ground: Ground) -> None:
    await ground.library()
    chosen = await mediamill("library", "tagger", "photos", "--engine", "openai", "--model", "gpt-9")
    assert "is tagged by openai:gpt-9 from now on" in chosen.out, chosen.err
    assert "openai:gpt-9" in (await mediamill("library", "show", "photos")).out
    back = await mediamill("library", "tagger", "photos", "--default")
    assert "the tagger of the settings" in back.out
    for words in ((), ("--default", "--engine", "openai"), ("--default", "--model", "x")):
        wrong = await mediamill("library", "tagger", "photos", *words)
        assert (wrong.code, "name one tagger" in wrong.err) == (1, True), words


@pytest.mark.parametrize("verb", ["show", "pause", "resume", "remove", "restore"])
async def test_a_library_that_is_not_there_is_said_not_to_be(mediamill: Mediamill, verb: str) -> None:
    said = await mediamill("library", verb, "nothing")
    assert (said.code, "there is no library 'nothing'" in said.err) == (1, True)


async def test_a_folder_that_is_not_there_is_said_not_to_be(mediamill: Mediamill) -> None:
    said = await mediamill("library", "add", "Photos", "/nowhere/at/all")
    assert (said.code, "is it mounted?" in said.err) == (1, True)


@pytest.mark.parametrize(
    ("text", "seconds"),
    [(None, None), ("never", 0), ("30s", 30), ("15m", 900), ("15min", 900), ("6h", 21600), ("1d", 86400)],
)
def test_lengths_of_time_are_read(text: str | None, seconds: int | None) -> None:
    assert read_span(text) == seconds


@pytest.mark.parametrize("text", ["", "15", "m", "-1m", "0s", "1.5h", "400d", "٣m"])
def test_what_is_no_length_of_time_is_refused(text: str) -> None:
    with pytest.raises(InvalidError):
        read_span(text)
