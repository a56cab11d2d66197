"""What cannot be seen is not deleted: roots and folders that are away, unreadable, unmounted."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from mediamill.db.connection import Database
from mediamill.libraries.scan_model import ScanFailedError, ScanRefusedError
from tests.libraries.scan_ground import Tree, counted


@pytest.fixture
async def tree(database: Database, tmp_path: Path) -> Tree:
    return await Tree.grow(database, tmp_path)


@contextmanager
def mounted(place: Path) -> Iterator[None]:
    """A file system of its own at that place."""
    words = ["mount", "-t", "tmpfs", "tmpfs", str(place)]
    if os.geteuid() != 0 or shutil.which("mount") is None:
        pytest.skip("mounting needs root")
    if subprocess.run(words, capture_output=True, check=False).returncode != 0:
        pytest.skip("mounting is not allowed here")
    try:
        yield
    finally:
        subprocess.run(["umount", str(place)], check=True)


def refuse(monkeypatch: pytest.MonkeyPatch, folder: Path) -> None:
    """The system refuses to open that folder; root would be let in otherwise."""
    real = os.open

    def refusing(path: Any, *given: Any, **more: Any) -> int:
        if str(path) == str(folder):
            raise PermissionError(13, "Permission denied", str(path))
        return real(path, *given, **more)

    monkeypatch.setattr(os, "open", refusing)


@pytest.mark.spec("L3")
async def test_a_root_that_is_not_there_marks_nothing(tree: Tree, tmp_path: Path) -> None:
    tree.write("a/one.jpg", "two.jpg")
    await tree.scan()
    before = await tree.versions()
    tree.root.rename(tmp_path / "aside")
    with pytest.raises(ScanFailedError, match="No such file") as caught:
        await tree.scan()
    assert caught.value.fix
    assert await tree.versions() == before
    library = await tree.library()
    assert library["scan_status"] == "idle"
    assert "No such file" in library["scan_error"]
    (tmp_path / "aside").rename(tree.root)
    assert counted(await tree.scan()) == {}
    assert (await tree.library())["scan_error"] is None


@pytest.mark.spec("L3")
async def test_a_root_that_became_a_file_or_is_forbidden_marks_nothing(
    tree: Tree, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tree.write("two.jpg")
    await tree.scan()
    before = await tree.versions()
    refuse(monkeypatch, tree.root)
    with pytest.raises(ScanFailedError, match="Permission denied"):
        await tree.scan()
    monkeypatch.undo()
    tree.root.rename(tmp_path / "aside")
    tree.root.write_bytes(b"")
    with pytest.raises(ScanFailedError, match="Not a directory"):
        await tree.scan()
    assert await tree.versions() == before


@pytest.mark.spec("L3")
async def test_an_empty_root_is_refused_unless_it_is_said_to_be_empty(tree: Tree) -> None:
    assert counted(await tree.scan()) == {}  # nothing known, nothing there
    tree.write("a/one.jpg", "two.jpg")
    await tree.scan()
    shutil.rmtree(tree.root)
    tree.root.mkdir()
    before = await tree.versions()
    with pytest.raises(ScanRefusedError) as caught:
        await tree.scan()
    assert "--accept-empty" in str(caught.value.fix)
    assert await tree.versions() == before
    assert counted(await tree.scan(accept_empty=True)) == {"vanished": 2}
    assert counted(await tree.scan()) == {}  # all of it is marked: nothing is left to be lost


@pytest.mark.spec("L3")
async def test_an_unmounted_root_marks_nothing_even_if_there_is_something_beneath(tree: Tree) -> None:
    tree.write("beneath.jpg")
    with mounted(tree.root):
        tree.write("a/one.jpg")
        await tree.scan()
        assert (await tree.folders())[""]["is_mount"]
        before = await tree.versions()
    with pytest.raises(ScanRefusedError, match="mount"):
        await tree.scan()
    assert await tree.versions() == before
    assert counted(await tree.scan(accept_empty=True)) == {"new": 1, "vanished": 1}
    assert counted(await tree.scan()) == {}


@pytest.mark.spec("L3")
async def test_an_unmounted_folder_is_left_alone_and_told(tree: Tree) -> None:
    tree.write("a.jpg", "z/last.jpg")
    (tree.root / "disk").mkdir()
    with mounted(tree.root / "disk"):
        tree.write("disk/one.jpg", "disk/b/two.jpg")
        assert counted(await tree.scan()) == {"new": 4}
        assert (await tree.folders())["disk"]["is_mount"]
        assert counted(await tree.scan()) == {}
    before = await tree.versions()
    counts = await tree.scan()
    assert counted(counts) == {}
    assert counts.left_alone == 1
    assert any("disk" in text and "mount" in text for text in counts.warnings)
    (tree.root / "disk").rmdir()  # as those do who mount on demand
    assert (await tree.scan()).left_alone == 1
    assert await tree.versions() == before
    assert counted(await tree.scan(accept_empty=True)) == {"vanished": 2}
    assert set(await tree.folders()) == {"", "z"}


@pytest.mark.spec("L3")
async def test_a_folder_that_cannot_be_read_is_left_alone_with_all_that_is_in_it(
    tree: Tree, monkeypatch: pytest.MonkeyPatch
) -> None:
    tree.write("a.jpg", "locked/one.jpg", "locked/in/two.jpg", "locked-not.jpg", "m/three.jpg")
    await tree.scan()
    before = await tree.known()
    refuse(monkeypatch, tree.root / "locked")
    tree.write("z/new.jpg")
    shutil.rmtree(tree.root / "m")
    counts = await tree.scan()
    assert counted(counts) == {"new": 1, "vanished": 1}
    assert counts.unreadable == 1
    assert counts.warnings == ["locked cannot be read: Permission denied"]
    assert set(await tree.known()) == {*before, "z/new.jpg"} - {"m/three.jpg"}
    assert {"locked", "locked/in"} <= set(await tree.folders())
    monkeypatch.undo()
    (tree.root / "locked/one.jpg").unlink()
    assert counted(await tree.scan()) == {"vanished": 1}
    assert await tree.known() == tree.there()


async def test_a_root_in_mediamills_own_data_folder_is_refused_by_whatever_name(
    tree: Tree, tmp_path: Path
) -> None:
    """Else previews would be made of previews, and previews of those."""
    own, link = tmp_path / "data" / "libraries", tmp_path / "link"
    own.mkdir(parents=True)
    (own / "preview.webp").write_bytes(b"x")
    link.symlink_to(own)
    for place in (tmp_path / "data", own, link):
        await tree.sql("update libraries set absolute_path = $1", str(place))
        with pytest.raises(ScanRefusedError, match="own data folder"):
            await tree.scan()
    assert await tree.assets() == {}


@pytest.mark.spec("L3")
@pytest.mark.parametrize(
    ("error", "told"), [(KeyError("a bug"), "KeyError: 'a bug'"), (KeyboardInterrupt(), None)]
)
async def test_a_scan_that_breaks_says_why_and_can_be_begun_again_at_once(
    database: Database, tmp_path: Path, error: BaseException, told: str | None
) -> None:
    tree = await Tree.grow(database, tmp_path)
    tree.write("a.jpg")

    def fail(_: object) -> None:
        raise error

    with pytest.raises(type(error)):
        await tree.scan(on_progress=fail)
    library = await tree.library()
    assert (library["scan_status"], library["scan_error"]) == ("idle", told)
    await tree.scan()
    assert (await tree.library())["scan_error"] is None
