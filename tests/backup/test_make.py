"""Making backups: what is in them, what is taken over from the last one, what a kill leaves."""

from __future__ import annotations

import asyncio
import json
import os
import stat
from pathlib import Path

import pytest

from mediamill.backup import copying
from mediamill.backup.copying import Progress
from mediamill.backup.database import NothingToBackUpError
from mediamill.backup.make import make_backup
from mediamill.backup.model import read_manifest
from mediamill.backup.shelf import BackupAtWorkError, Shelf, open_shelf
from mediamill.backup.verify import verify_backup
from mediamill.db.migrate import newest_revision
from mediamill.errors import InvalidError
from mediamill.storage.deletions import deletions_wait
from tests.backup.ground import FILES, Ground, files_of, fill, hashes, names_in, restore
from tests.conftest import run_sql


async def test_a_backup_holds_every_file_but_those_of_the_machine_and_says_what_it_is(ground: Ground) -> None:
    made = await ground.back_up()
    assert files_of(made.folder / "files") == hashes(FILES)
    manifest = read_manifest(made.folder)
    assert manifest.schema_revision == newest_revision()
    assert manifest.files is not None
    assert (manifest.files.count, manifest.files.total_bytes) == (len(FILES), sum(map(len, FILES.values())))
    assert verify_backup(made.folder, Progress()).faults == []
    assert [each.name for each in ground.shelf.iterdir() if each.is_dir()] == [made.folder.name]


async def test_a_backup_is_for_the_eyes_of_its_user_only(ground: Ground) -> None:
    made = await ground.back_up()
    for path in made.folder.rglob("*"):
        assert stat.S_IMODE(path.stat().st_mode) == (0o700 if path.is_dir() else 0o600), path


async def test_what_did_not_change_takes_no_new_room_and_what_changed_is_new(ground: Ground) -> None:
    first = await ground.back_up()
    fill(ground.data, {"bridge_secret": b"other!", "pending_media/new": b"new"})
    os.utime(ground.data / "bridge_secret", (1_700_000_001, 1_700_000_001))
    (ground.data / "pending_media" / "a-guid").unlink()
    second = await ground.back_up()
    assert (second.copied_files, second.copied_bytes) == (2, 9)
    same = "videos/1/source"
    assert (first.folder / "files" / same).samefile(second.folder / "files" / same)
    expected = {**FILES, "bridge_secret": b"other!", "pending_media/new": b"new"}
    del expected["pending_media/a-guid"]
    assert files_of(second.folder / "files") == hashes(expected)
    assert files_of(first.folder / "files") == hashes(FILES)


async def test_a_file_that_has_just_changed_is_copied_again(
    ground: Ground, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(copying, "SETTLED_NS", 3600 * 10**9)  # however slow this machine is
    await ground.back_up()
    (ground.data / "bridge_secret").write_bytes(b"newest")
    again = await ground.back_up()
    assert again.copied_files == 2  # in both looks: its time does not tell yet whether it changes once more
    assert files_of(again.folder / "files")["bridge_secret"] == hashes({"x": b"newest"})["x"]


async def test_what_was_cut_off_is_no_backup_and_the_next_one_goes_on_from_it(ground: Ground) -> None:
    copied: list[int] = []

    def die(_what: str, far: Progress) -> None:
        copied.append(far.copied_files)
        if far.copied_files == 4:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        await make_backup(ground.url, ground.data, ground.shelf, show=die)
    shelf = Shelf(ground.shelf)
    assert (shelf.whole(), len(shelf.unfinished())) == ([], 1)
    with pytest.raises(InvalidError, match="never finished"):
        read_manifest(shelf.unfinished()[0])
    made = await ground.back_up()
    assert made.copied_files < len(FILES)
    assert files_of(made.folder / "files") == hashes(FILES)
    assert shelf.unfinished() == []


async def test_what_goes_or_changes_between_the_two_looks_is_in_it_as_it_is_at_last(ground: Ground) -> None:
    changed = False

    def change(what: str, far: Progress) -> None:
        nonlocal changed
        if what == "copying files" and far.files == len(FILES) - 1 and not changed:
            changed = True
            (ground.data / "bridge_secret").unlink()
            (ground.data / "bridge_secret").mkdir()
            fill(ground.data, {"bridge_secret/inside": b"a folder now", "kept/001/1/a.m4s": b"came since"})
            (ground.data / "libraries" / "001" / "1-2-3" / "preview.webp").unlink()
            (ground.data / "libraries" / "001" / "1-2-3").rmdir()
            fill(ground.data, {"libraries/001/1-2-3": b"a file now"})

    made = await make_backup(ground.url, ground.data, ground.shelf, show=change)
    assert changed
    expected = {**FILES, "bridge_secret/inside": b"a folder now", "kept/001/1/a.m4s": b"came since"}
    expected["libraries/001/1-2-3"] = b"a file now"
    for gone in ("bridge_secret", "libraries/001/1-2-3/preview.webp"):
        del expected[gone]
    assert files_of(made.folder / "files") == hashes(expected)
    assert verify_backup(made.folder, Progress()).faults == []


async def test_a_backup_cut_off_in_its_second_look_has_lost_nothing_of_the_first(ground: Ground) -> None:
    def die(what: str, far: Progress) -> None:
        if what == "copying what came since" and far.files == 2:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        await make_backup(ground.url, ground.data, ground.shelf, show=die)
    made = await ground.back_up()
    assert made.copied_files == 0
    assert files_of(made.folder / "files") == hashes(FILES)
    assert sorted(path.name for path in made.folder.iterdir()) == [
        "database.dump",
        "files",
        "files.jsonl",
        "manifest.json",
    ]


async def test_what_a_former_life_of_the_machine_left_is_not_trusted(ground: Ground) -> None:
    made = await ground.back_up()
    old = ground.shelf / "unfinished-00000000-000001"
    made.folder.rename(old)
    (old / "manifest.json").unlink()
    (old / "files" / "bridge_secret").write_bytes(b"??????")  # a loss of power
    os.utime(old / "files" / "bridge_secret", (1_700_000_000, 1_700_000_000))
    again = await ground.back_up()
    assert again.copied_files == len(FILES)
    assert files_of(again.folder / "files") == hashes(FILES)


async def test_deletions_are_held_while_the_last_look_is_taken_and_not_before(ground: Ground) -> None:
    held: dict[str, set[bool]] = {}

    def look(what: str, _far: Progress) -> None:
        held.setdefault(what, set()).add(deletions_wait(ground.data))

    await make_backup(ground.url, ground.data, ground.shelf, show=look)
    assert (held["copying files"], held["copying what came since"]) == ({False}, {True})
    assert not deletions_wait(ground.data)


async def test_links_are_not_followed_and_are_named(ground: Ground, tmp_path: Path) -> None:
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "elsewhere" / "private").write_text("no")
    (ground.data / "videos" / "link").symlink_to(tmp_path / "elsewhere")
    made = await ground.back_up()
    assert made.manifest.left_out == ["videos/link"]
    assert files_of(made.folder / "files") == hashes(FILES)


async def test_only_the_database_if_that_is_wanted(ground: Ground) -> None:
    made = await ground.back_up(files=False)
    assert (made.manifest.files, (made.folder / "files").exists()) == (None, False)
    assert verify_backup(made.folder, Progress()).faults == []


async def test_a_server_of_your_own_may_have_no_data_folder_yet(ground: Ground, tmp_path: Path) -> None:
    made = await make_backup(ground.url, tmp_path / "none", ground.shelf)
    assert made.manifest.files is not None
    assert made.manifest.files.count == 0


async def test_a_backup_into_the_data_folder_is_refused(ground: Ground) -> None:
    with pytest.raises(InvalidError, match="would hold itself"):
        await make_backup(ground.url, ground.data, ground.data / "backups")


async def test_two_backups_into_one_folder_are_not_made_at_once(ground: Ground) -> None:
    with open_shelf(ground.shelf, ground.data), pytest.raises(BackupAtWorkError):
        await ground.back_up()


async def test_an_empty_database_has_nothing_to_back_up(ground: Ground, empty: str) -> None:
    with pytest.raises(NothingToBackUpError):
        await make_backup(empty, ground.data, ground.shelf)


@pytest.mark.parametrize("name", ["database.dump", "files.jsonl", "files/bridge_secret"])
async def test_a_changed_byte_is_found(ground: Ground, name: str) -> None:
    made = await ground.back_up()
    path = made.folder / name
    content = bytearray(path.read_bytes())
    content[-2] ^= 1
    path.write_bytes(content)
    (fault,) = verify_backup(made.folder, Progress()).faults
    assert path.name in fault


async def test_a_changed_manifest_is_found(ground: Ground) -> None:
    made = await ground.back_up()
    path = made.folder / "manifest.json"
    said = json.loads(path.read_text())
    path.write_text(json.dumps({**said, "schema_revision": "0001"}))
    with pytest.raises(InvalidError, match="was changed"):
        read_manifest(made.folder)
    path.write_text(path.read_text()[:-20])
    with pytest.raises(InvalidError, match="cannot be read"):
        read_manifest(made.folder)
    path.write_text(json.dumps({**said, "format": 2}))
    with pytest.raises(InvalidError, match="newer mediamill") as refused:
        read_manifest(made.folder)
    assert refused.value.fix == "install the newer mediamill"


async def test_rows_of_one_moment_are_in_it(ground: Ground, empty: str, tmp_path: Path) -> None:
    """A row that comes while files are copied is in it; one that comes while the snapshot is open is not."""
    noted: set[str] = set()

    def write(what: str, _far: Progress) -> None:
        name = {"copying files": "row 2", "copying what came since": "row 3"}.get(what)
        if name and name not in noted:
            noted.add(name)
            asyncio.run(run_sql(ground.url, f"insert into configuration values ('{name}', '1')"))

    made = await make_backup(ground.url, ground.data, ground.shelf, show=write)
    assert noted == {"row 2", "row 3"}
    await restore(made.folder, empty, tmp_path / "other")
    assert await names_in(empty) == ["row 1", "row 2"]
