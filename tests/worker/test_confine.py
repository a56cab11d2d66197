"""Children are confined: a processor that was taken over tries every way out, and each is closed."""

from __future__ import annotations

import errno
import json
import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from mediamill.testing.escape_attempts import ATTEMPTS
from mediamill.worker import confine, seccomp
from mediamill.worker.confine import describe_confinement, find_gaps
from mediamill.worker.escape_check import try_escapes
from mediamill.worker.landlock import landlock_version
from mediamill.worker.sandbox import SandboxJob
from tests.worker.harness import QUICK, as_user, do, everything_in, needs_root, opened

needs_all = pytest.mark.skipif(
    landlock_version() < 6 or not seccomp.is_available(),
    reason="this kernel has no Landlock 6, or no seccomp",
)
needs_landlock = pytest.mark.skipif(not landlock_version(), reason="this kernel has no Landlock")
needs_seccomp = pytest.mark.skipif(not seccomp.is_available(), reason="no filter on system calls here")
# What this kernel refuses to a process like a child in any case: it leads its session, and has no such call.
ANYWAY, NO_CALL = {"setsid"}, os.strerror(errno.ENOSYS)


@pytest.mark.spec("C26")
@pytest.mark.parametrize("thread", [False, True])
async def test_no_way_out_of_a_child_is_open(tmp_path: Path, thread: bool) -> None:
    outcomes = await try_escapes(tmp_path, names=QUICK if thread else tuple(ATTEMPTS), thread=thread)
    version, filtered = landlock_version(), seccomp.is_available()
    closed = [one for one in outcomes if ATTEMPTS[one.name].is_refused_by(version, seccomp=filtered)]
    assert [f"{one.what}: {one.said}" for one in closed if not one.refused] == []
    assert len(ATTEMPTS) > 130


CELL = """
import asyncio, dataclasses, json, sys
from pathlib import Path
from mediamill.worker.escape_check import try_escapes

outcomes = asyncio.run(try_escapes(Path(sys.argv[1]), names=sys.argv[2:]))
print(json.dumps([dataclasses.asdict(one) for one in outcomes]))
"""


@pytest.mark.parametrize("filtered", [pytest.param(True, marks=needs_seccomp), False])
@pytest.mark.parametrize("landlocked", [pytest.param(True, marks=needs_landlock), False])
@pytest.mark.parametrize("user", [pytest.param(True, marks=needs_root), False])
def test_each_means_refuses_what_it_should_and_nothing_else_does(
    user: bool, landlocked: bool, filtered: bool
) -> None:
    """Root and a user, with and without each: with neither, the attempts get through, so they can fail."""
    switches = {
        "MEDIAMILL_SANDBOX_LANDLOCK": str(landlocked),
        "MEDIAMILL_SANDBOX_SECCOMP": str(filtered),
    }
    with as_user() as (folder, options):
        found = run_python(["-c", CELL, str(folder), *QUICK], folder, switches, **(options if user else {}))
    version = landlock_version() if landlocked else 0
    told = {one["name"]: one for one in json.loads(found.stdout)}
    refused = {name for name in QUICK if ATTEMPTS[name].is_refused_by(version, seccomp=filtered)}
    assert {name: told[name]["said"] for name in refused if not told[name]["refused"]} == {}
    passed = {name for name in QUICK if not told[name]["refused"] or NO_CALL in told[name]["said"]}
    if user:  # an ordinary user may do less, whoever asks
        assert {"list_folder", "read", "write"} & passed == (
            set() if version else {"list_folder", "read", "write"}
        )
        assert {"chmod", "fork", "tcp6", "udp"} & passed == (
            set() if filtered else {"chmod", "fork", "tcp6", "udp"}
        )
    else:
        assert set(QUICK) - refused - passed - ANYWAY == set()


def test_without_landlock_the_command_lists_what_is_open_then(tmp_path: Path) -> None:
    found = run_python(
        ["-m", "mediamill", "sandbox", "--json"], tmp_path, {"MEDIAMILL_SANDBOX_LANDLOCK": "0"}
    )
    said = json.loads(found.stdout)
    assert found.returncode == 1
    assert said["tried"] == len(ATTEMPTS)
    assert {"read", "read_neighbour", "write", "environ"} <= {one["name"] for one in said["open"]}
    why = "switched off by setting" if landlock_version() else "this kernel has no Landlock"
    assert f"read and write all files of their user ({why})" in said["in_force"]


def run_python(
    words: Sequence[str], folder: Path, switches: Mapping[str, str], **options: Any
) -> subprocess.CompletedProcess[str]:
    own = {"PATH": os.environ["PATH"], "HOME": str(folder), "TMPDIR": str(folder), **switches}
    command = [sys.executable, *words]
    done = subprocess.run(command, env=own, capture_output=True, text=True, cwd=folder, **options)
    assert done.stdout, done.stderr
    return done


DEVICES = """
import errno, fcntl
from mediamill.worker import seccomp

seccomp.filter_calls(devices=True)
for request in (0x5412, 0x541C, 0x5452, 0x8902, 0x8901, 0xC00464B2, 0x541B):
    try:
        fcntl.ioctl(0, request, bytes(64))
    except OSError as error:
        print(error.errno)
"""


@needs_seccomp
def test_beside_a_graphics_card_terminals_and_sockets_take_no_orders(tmp_path: Path) -> None:
    said = run_python(["-c", DEVICES], tmp_path, {}, stdin=subprocess.DEVNULL).stdout.split()
    assert said == [
        *[str(errno.EPERM)] * 5,
        *[str(errno.ENOTTY)] * 2,
    ]  # the last are for a card, and harmless


@pytest.mark.spec("C26")
async def test_a_processor_reads_its_own_file_and_writes_in_its_own_folder(tmp_path: Path) -> None:
    source = tmp_path / "source.txt"
    source.write_text("source")
    async with opened(tmp_path / "scratch") as sandbox:
        job = SandboxJob({"do": "read_input", "files": {"made.txt": "x"}}, file=source)
        assert (await sandbox.run(job)).result["text"] == "source"
        assert (await do(sandbox, "temporary_file"))["folder"].startswith(str(tmp_path / "scratch"))
    assert source.read_text() == "source"
    assert everything_in(tmp_path / "scratch") == []


KEPT = """
import os, subprocess, sys
from pathlib import Path
from mediamill.worker.confine import confine_files

def child():
    confine_files(Path(sys.argv[1]), Path(sys.argv[1]))
    before = os.stat("/proc/self/io").st_ino  # which nobody holds open
    os.write(told, b"confined")
    os.read(go, 1)
    assert os.stat("/proc/self/io").st_ino != before, "the kernel forgot nothing"
    for name in ("maps", "status", "cgroup"):
        Path("/proc/self", name).read_bytes()
    print("read")

(tell, told), (go, send) = os.pipe(), os.pipe()
if pid := os.fork():
    os.close(told)
    os.read(tell, 8)
    subprocess.run(["mount", "-o", "remount", "/proc"], check=True)  # makes it forget the files of this mount
    os.write(send, b"x")
    os.waitpid(pid, 0)
else:
    child()
"""


@needs_landlock
def test_a_child_reads_about_itself_after_the_kernel_forgot_its_files(tmp_path: Path) -> None:
    """With a /proc of its own, so that the kernel forgets nothing of other processes."""
    user = ["--user", "--map-root-user"] if os.getuid() else []
    apart = ["unshare", *user, "--pid", "--fork", "--mount-proc"]
    if subprocess.run([*apart, "true"], stderr=subprocess.DEVNULL).returncode:
        pytest.skip("this machine lets nobody have a /proc of their own")
    command = [*apart, sys.executable, "-c", KEPT, str(tmp_path)]
    assert subprocess.run(command, stdout=subprocess.PIPE).stdout == b"read\n"


@needs_all
def test_what_is_in_force_is_described_in_words() -> None:
    assert (
        describe_confinement() == f"confined to their own file, by Landlock {landlock_version()} and seccomp"
    )
    assert find_gaps() == []


def test_what_the_kernel_lacks_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(confine, "landlock_version", lambda: 0)
    monkeypatch.setattr(seccomp, "is_available", lambda: False)
    files, calls = find_gaps()
    assert "all files of their user (this kernel has no Landlock)" in files
    assert "every system call, the network too" in calls
    monkeypatch.setattr(confine, "landlock_version", lambda: 3)
    assert "Landlock 3" in find_gaps()[0]
