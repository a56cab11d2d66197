"""The data folder is closed to other users, whatever the umask was, and an open one is closed at the next start."""

from __future__ import annotations

import logging
import os
import signal
import stat
import struct
import subprocess
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from mediamill.db.embedded import EmbeddedServer
from mediamill.files import tighten
from tests.conftest import server_folder
from tests.crash.processes import Mill, in_thread

NOBODY = 65534
NO_ID = 2**32 - 1


@pytest.fixture
def umask_0() -> Iterator[None]:
    before = os.umask(0)
    yield
    os.umask(before)


@pytest.fixture
async def mill() -> AsyncIterator[Mill]:
    """On an embedded database, below a folder that everybody can pass."""
    with server_folder() as folder:
        folder.chmod(0o755)
        mill = Mill(folder)
        yield mill
        mill.close()
        use = await in_thread(EmbeddedServer(folder / "data").start)  # to stop it in order
        await in_thread(use.close)


def open_to_others(folder: Path) -> dict[str, str]:
    """What other users could read or write in it, were the folder itself open. PostgreSQL's user has an ACL entry."""
    found = {path: path.lstat().st_mode for path in folder.rglob("*") if not path.is_symlink()}
    return {
        str(path.relative_to(folder)): stat.filemode(mode)
        for path, mode in found.items()
        if mode & 0o066 and not stat.S_ISSOCK(mode)
    }


def may_enter(folder: Path) -> bool:
    command = ["/bin/sh", "-c", 'cd "$1" 2>/dev/null', "sh", str(folder)]
    done = subprocess.run(command, user=NOBODY, group=NOBODY, extra_groups=[])
    return done.returncode == 0


@pytest.mark.usefixtures("umask_0")
async def test_with_umask_0_nothing_in_the_data_folder_is_open_to_others(mill: Mill) -> None:
    note = mill.folder / "note.txt"
    note.write_text("a note\n")
    up = await mill.started("up")
    code, said = await mill.say("process", note)
    assert code == 0, said
    up.send(signal.SIGINT)
    assert await up.until_gone() == 0
    data = mill.folder / "data"
    assert (data / "logs" / "forensics").is_dir() or (data / "scratch").is_dir(), "nothing was written"
    assert stat.S_IMODE(data.stat().st_mode) & 0o067 == 0
    assert open_to_others(data) == {}


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root, to look as somebody else")
async def test_an_open_data_folder_is_closed_at_the_next_start_and_said_so(mill: Mill) -> None:
    data = mill.folder / "data"
    data.mkdir()
    data.chmod(0o755)
    assert may_enter(data)
    up = await mill.started("up", "--workers", 0)
    assert f"{data} was open to other users (mode 0755); its mode is now 0700" in up.said
    assert not may_enter(data)
    up.kill()
    again = await mill.started("up", "--workers", 0)
    assert "was open to other users" not in again.said


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root, for a folder of another user")
def test_a_folder_of_somebody_else_is_left_as_it_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """A volume of Kubernetes belongs to root, and its group lets the pod in."""
    folder = tmp_path / "volume"
    folder.mkdir()
    folder.chmod(0o775)
    monkeypatch.setattr(os, "geteuid", lambda: NOBODY)
    with caplog.at_level(logging.INFO):
        tighten(folder)
    assert stat.S_IMODE(folder.stat().st_mode) == 0o775
    assert "belongs to another user" in caplog.text


def test_named_users_of_an_access_control_list_keep_their_way(tmp_path: Path) -> None:
    folder = tmp_path / "listed"
    folder.mkdir()
    # user::rwx, user:nobody:--x, group::---, mask::--x, other::r-x
    entries = ((1, 7, NO_ID), (2, 1, NOBODY), (4, 0, NO_ID), (16, 1, NO_ID), (32, 5, NO_ID))
    acl = struct.pack("<I", 2) + b"".join(struct.pack("<HHI", *entry) for entry in entries)
    try:
        os.setxattr(folder, "system.posix_acl_access", acl)
    except OSError:
        pytest.skip("the file system has no access control lists")
    tighten(folder)
    assert stat.S_IMODE(folder.stat().st_mode) == 0o710
