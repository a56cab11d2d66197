"""Children are confined: a processor that was taken over tries every way out, and each is closed."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from mediamill.testing.escape_attempts import ATTEMPTS
from mediamill.worker import confine, seccomp
from mediamill.worker.confine import describe_confinement, find_gaps
from mediamill.worker.escape_check import try_escapes
from mediamill.worker.landlock import landlock_version
from mediamill.worker.sandbox import SandboxJob
from tests.worker.harness import as_user, do, everything_in, needs_root, opened

pytestmark = pytest.mark.skipif(
    landlock_version() < 6 or not seccomp.is_available(),
    reason="this kernel has no Landlock 6, or no seccomp",
)
BY_LANDLOCK_ALONE = {name for name, attempt in ATTEMPTS.items() if attempt.by == ("landlock",)}


@pytest.mark.spec("C26")
@pytest.mark.parametrize("thread", [False, True])
async def test_no_way_out_of_a_child_is_open(tmp_path: Path, thread: bool) -> None:
    outcomes = await try_escapes(tmp_path, thread=thread)
    assert [f"{one.what}: {one.said}" for one in outcomes if not one.refused] == []
    assert len(outcomes) == len(ATTEMPTS) > 100


@needs_root
def test_no_way_out_of_a_child_is_open_for_an_ordinary_user() -> None:
    with as_user() as (folder, options):
        found = sandbox_command(folder, **options)
    assert [f"{one['what']}: {one['said']}" for one in found["open"]] == []
    assert found["tried"] == len(ATTEMPTS)


def test_without_landlock_the_command_lists_what_is_open_then(tmp_path: Path) -> None:
    found = sandbox_command(tmp_path, landlock="false")
    opened = {one["name"] for one in found["open"]}
    assert opened <= BY_LANDLOCK_ALONE  # what seccomp should refuse, it refuses by itself
    assert {"read", "read_neighbour", "write", "environ", "list_folder"} <= opened
    assert "read and write all files of their user (switched off by setting)" in found["in_force"]


def sandbox_command(folder: Path, landlock: str = "true", **user: Any) -> dict[str, Any]:
    own = {"HOME": str(folder), "TMPDIR": str(folder), "MEDIAMILL_SANDBOX_LANDLOCK": landlock}
    environment = {"PATH": os.environ["PATH"], **own}
    command = [sys.executable, "-m", "mediamill", "sandbox", "--json"]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, cwd=folder, **user)
    assert done.stdout, done.stderr
    found = json.loads(done.stdout)
    assert done.returncode == (1 if found["open"] else 0)
    return dict(found)


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
import sys
from pathlib import Path
from mediamill.worker.confine import confine_files

confine_files(Path(sys.argv[1]), Path(sys.argv[1]))
print(flush=True)
sys.stdin.readline()
for name in ("maps", "status", "cgroup"):
    Path("/proc/self", name).read_bytes()
"""


@pytest.mark.skipif(os.getuid() != 0, reason="only root can make the kernel forget")
def test_a_child_reads_about_itself_after_the_kernel_forgot_its_files(tmp_path: Path) -> None:
    command = [sys.executable, "-c", KEPT, str(tmp_path)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as child:
        assert child.stdout is not None
        child.stdout.readline()
        Path("/proc/sys/vm/drop_caches").write_text("2")
        child.communicate(b"go\n")
    assert child.returncode == 0


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
