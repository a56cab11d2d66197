"""Scratch folders: whose they are, what is in them, and how they go."""

from __future__ import annotations

import errno
import fcntl
import os
import secrets
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from mediamill.worker import scratch
from mediamill.worker.failures import InvalidOutputError
from mediamill.worker.process_tree import MARK
from mediamill.worker.scratch import (
    Home,
    clear_leftovers,
    empty_folder,
    has_more_files,
    remove_folder,
    take_files,
)
from tests.worker.harness import as_user, needs_root


def fill(folder: Path, *names: str) -> Path:
    for name in names:
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(name.encode())
    return folder


def test_a_home_is_locked_while_it_lives_and_goes_with_all_that_is_in_it(tmp_path: Path) -> None:
    folder = tmp_path / "a" / "scratch"
    home, other = Home(folder), Home(folder)
    lock = folder / f"{home.name}.lock"
    assert home.path.parent == folder
    assert home.name.split("-")[0] == str(os.getpid())
    assert home.name != other.name
    assert home.path.stat().st_mode & 0o777 == folder.stat().st_mode & 0o777 == 0o700
    assert lock.stat().st_mode & 0o777 == 0o600
    with lock.open() as file, pytest.raises(BlockingIOError):
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    fill(home.path, "1/made", "2/deep/er/made")
    clear_leftovers(folder)
    assert home.path.exists(), "it lives"
    home.remove()
    assert sorted(path.name for path in folder.iterdir()) == sorted([other.name, f"{other.name}.lock"])
    other.remove()


def test_homes_of_dead_workers_are_cleared_and_nothing_else(tmp_path: Path) -> None:
    fill(tmp_path, "1-dead/1/made", "1-dead.lock", "2-bare.lock", "somebody/else", "notes.txt")
    clear_leftovers(tmp_path)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["notes.txt", "somebody"]


def test_a_folder_is_emptied_whatever_its_modes_and_depth_are(tmp_path: Path) -> None:
    folder = fill(tmp_path / "folder", "a", "b/c", "b/d/e", "b/d/f/g", "closed/x/y")
    (folder / "link").symlink_to(tmp_path)
    (folder / "b" / "d" / "closed").mkdir(mode=0)
    (folder / "closed").chmod(0)
    (folder / "deep").mkdir()
    at = os.open(folder / "deep", os.O_RDONLY)
    for _ in range(200):  # deeper than a path can say
        os.mkdir("x" * 40, dir_fd=at)
        below = os.open("x" * 40, os.O_RDONLY, dir_fd=at)
        os.close(at)
        at = below
    os.close(at)
    assert has_more_files(folder, 10_000), "too deep to be counted"
    assert empty_folder(folder)
    assert list(folder.iterdir()) == []
    remove_folder(folder)
    assert not folder.exists()
    remove_folder(folder)
    assert list(tmp_path.iterdir()) == []


def test_files_and_folders_are_counted_and_links_not_followed(tmp_path: Path) -> None:
    folder = fill(tmp_path / "folder", "a", "b/c", "b/d")
    fill(tmp_path / "outside", *map(str, range(20)))
    (folder / "link").symlink_to(tmp_path / "outside")
    assert [has_more_files(folder, most) for most in (3, 4, 5)] == [True, True, False]
    assert not has_more_files(tmp_path / "nowhere", 0)


def test_what_is_taken_lies_under_its_path_and_is_gone_from_its_maker(tmp_path: Path) -> None:
    made, target = fill(tmp_path / "made", "a", "b/c/d"), tmp_path / "taken"
    with (made / "a").open("ab"):  # somebody may still write to it
        take_files(made, {"one": "a", "two": "b/c/d", "three": "./a"[2:]}, target)
    assert (target / "a").read_bytes() == b"a"
    assert (target / "b" / "c" / "d").read_bytes() == b"b/c/d"
    assert not (made / "a").exists()
    assert sorted(path.name for path in target.iterdir()) == ["a", "b"]
    assert target.stat().st_mode & 0o777 == (target / "b" / "c").stat().st_mode & 0o777 == 0o700


@pytest.mark.parametrize(
    ("name", "path", "says"),
    [
        ("a", "/etc/passwd", "not a path inside"),
        ("a", "../a", "not a path inside"),
        ("a", "b/../../a", "not a path inside"),
        ("a", "", "not a path inside"),
        ("a", "a\0", "not a path inside"),
        ("../a", "a", "not a path inside"),
        ("a", "missing", "No such file"),
        ("a", "folder", "is not a file"),
        ("a", "pipe", "is not a file"),
        ("a", "link", "is a link"),
        ("a", "twin", "is a link"),
        ("a", "way/file", "a link is in the way"),
        ("a", "a/file", "a link is in the way"),
    ],
)
def test_what_is_no_plain_file_of_the_folder_is_refused(
    tmp_path: Path, name: str, path: str, says: str
) -> None:
    made = fill(tmp_path / "made", "a", "folder/file", "twin", "other/file")
    os.mkfifo(made / "pipe")
    (made / "link").symlink_to("a")
    (made / "way").symlink_to("other")
    (tmp_path / "second name").hardlink_to(made / "twin")
    with pytest.raises(InvalidOutputError, match=says) as refused:
        take_files(made, {name: path}, tmp_path / "taken")
    assert f"derivative {name!r}" in str(refused.value)


CLOSED = """
import os, sys
from pathlib import Path
from mediamill.worker.scratch import empty_folder, remove_folder

top = Path(sys.argv[1], "top")
for name in ("a", "b/c/d", "b/e"):
    (top / name).mkdir(parents=True)
(top / "b" / "c" / "file").touch()
for name, mode in (("b/c/d", 0), ("b/c", 0o100), ("b/e", 0), ("b", 0o500), ("a", 0)):
    (top / name).chmod(mode)
before = len(os.listdir("/proc/self/fd"))
print(empty_folder(top), os.listdir(top), len(os.listdir("/proc/self/fd")) - before)
remove_folder(top)
print(top.exists())
"""


@needs_root
def test_folders_that_an_ordinary_user_closed_are_opened_and_removed() -> None:
    with as_user() as (folder, options):
        own = {"PATH": os.environ["PATH"], "HOME": str(folder)}
        command = [sys.executable, "-c", CLOSED, str(folder)]
        done = subprocess.run(command, env=own, cwd=folder, capture_output=True, text=True, **options)
    assert done.stdout == "True [] 0\nFalse\n", done.stderr


def test_what_still_runs_of_a_dead_worker_is_killed_with_its_home(tmp_path: Path) -> None:
    name = f"{os.getpid()}-{secrets.token_hex(6)}"
    fill(tmp_path, f"{name}/1/made", f"{name}.lock")
    environment = {"PATH": os.environ["PATH"], MARK: f"{name}.1."}
    with subprocess.Popen(["sleep", "600"], env=environment) as left:
        held = Home(tmp_path)  # of a worker that lives
        alive = {**environment, MARK: f"{held.name}.1."}
        with subprocess.Popen(["sleep", "600"], env=alive) as other:
            before = len(os.listdir("/proc/self/fd"))  # noqa: PTH208 - names only
            clear_leftovers(tmp_path)
            assert left.wait(60) == -signal.SIGKILL
            assert other.poll() is None
            assert len(os.listdir("/proc/self/fd")) == before  # noqa: PTH208
            other.kill()
        held.remove()
    assert list(tmp_path.iterdir()) == []


def test_a_lock_that_was_taken_for_a_leftover_before_it_was_held_is_made_anew(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lock = fcntl.flock
    taken: list[str] = []

    def lock_late(descriptor: int, how: int) -> None:
        if not taken:
            (found,) = tmp_path.glob("*.lock")
            found.unlink()
            taken.append(found.name)
        lock(descriptor, how)

    monkeypatch.setattr(fcntl, "flock", lock_late)
    before = len(os.listdir("/proc/self/fd"))  # noqa: PTH208 - names only
    home = Home(tmp_path)
    assert taken != [f"{home.name}.lock"]
    assert (tmp_path / f"{home.name}.lock").exists()
    assert len(os.listdir("/proc/self/fd")) == before + 1  # noqa: PTH208
    home.remove()
    assert len(os.listdir("/proc/self/fd")) == before  # noqa: PTH208


def test_a_folder_that_cannot_be_emptied_in_time_is_left(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = fill(tmp_path / "folder", "a/b")
    before = len(os.listdir("/proc/self/fd"))  # noqa: PTH208 - names only
    monkeypatch.setattr(scratch, "EMPTY_SECONDS", -1)
    assert not empty_folder(folder)
    monkeypatch.undo()
    assert len(os.listdir("/proc/self/fd")) == before  # noqa: PTH208
    assert empty_folder(folder)
    assert len(os.listdir("/proc/self/fd")) == before  # noqa: PTH208
    with pytest.raises(NotADirectoryError):
        empty_folder(fill(tmp_path, "file") / "file")


def test_taking_files_leaves_nothing_open_and_a_machine_that_is_out_of_means_is_not_blamed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = fill(tmp_path / "made", "a/b/c", "d")
    before = len(os.listdir("/proc/self/fd"))  # noqa: PTH208 - names only
    with (made / "d").open("ab"):
        take_files(made, {"one": "a/b/c", "two": "d"}, tmp_path / "taken")
    for path in ("a/b/missing", "a/x/y"):
        with pytest.raises(InvalidOutputError):
            take_files(made, {"one": path}, tmp_path / "taken")
    assert len(os.listdir("/proc/self/fd")) == before  # noqa: PTH208
    for number in (
        errno.ENOSPC,
        errno.EDQUOT,
        errno.EROFS,
        errno.EIO,
        errno.ENOMEM,
        errno.EMFILE,
        errno.ENFILE,
    ):

        def refuse(*_: object, code: int = number, **__: object) -> None:
            raise OSError(code, "no")

        monkeypatch.setattr(scratch, "_move_out", refuse)
        with pytest.raises(OSError, match="no") as caught:
            take_files(made, {"one": "d"}, tmp_path / "taken")
        assert caught.value.errno == number
