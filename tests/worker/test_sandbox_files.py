"""Scratch folders: derivatives are handed over or gone, and nothing outlives a worker."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from pathlib import Path

import psutil
import pytest

from mediamill.processors.contract import ProcessorOutput
from mediamill.worker.messages import KeptFile
from mediamill.worker.sandbox import InvalidOutputError, ProcessorCrashedError, SandboxJob, Take
from tests.worker.harness import (
    do,
    everything_in,
    folders,
    homes,
    is_running,
    opened,
    programs_of,
    wait_until,
)


async def test_derivatives_can_be_kept_and_nothing_else_stays(tmp_path: Path) -> None:
    scratch, kept = tmp_path / "scratch", tmp_path / "kept.txt"

    async def keep(folder: Path, output: ProcessorOutput) -> None:
        (folder / output.files["thumb.txt"]).rename(kept)

    async with opened(scratch) as sandbox:
        given = SandboxJob(payload={"files": {"thumb.txt": "small", "other.txt": "left"}})
        output = await sandbox.run(given, keep=keep)
        assert output.files == {"thumb.txt": "thumb.txt", "other.txt": "other.txt"}
        assert folders(scratch) == []
    assert kept.read_text() == "small"
    assert everything_in(scratch) == []


async def test_an_attempt_that_fails_abandons_what_it_had_given_away(tmp_path: Path) -> None:
    given: list[Take] = []
    async with opened(tmp_path) as sandbox:
        job = SandboxJob({"do": "keep", "times": 2, "die_after": 1, "gate": str(tmp_path)})
        running = asyncio.create_task(sandbox.run(job, on_kept=lambda _, take: given.append(take)))
        await wait_until(lambda: bool(given), "a file is given away")
        assert not given[0].abandoned
        for child in sandbox._children:
            psutil.Process(child.pid).kill()
        with pytest.raises(ProcessorCrashedError):
            await running
    assert given[0].abandoned


async def test_a_failure_to_keep_derivatives_still_removes_them(tmp_path: Path) -> None:
    async def fail(folder: Path, output: ProcessorOutput) -> None:
        raise OSError("disk full")

    async with opened(tmp_path) as sandbox:
        with pytest.raises(OSError, match="disk full"):
            await sandbox.run(SandboxJob(payload={"files": {"a.txt": "a"}}), keep=fail)
        assert folders(tmp_path) == []
        assert await do(sandbox, result={"n": 1}) == {"n": 1}


@pytest.mark.parametrize(
    ("files", "why"),
    [
        ({"x": "../secret.txt"}, "not a path inside"),
        ({"x": "/etc/hostname"}, "not a path inside"),
        ({"x": "a.txt/../../secret.txt"}, "not a path inside"),
        ({"../x": "a.txt"}, "not a path inside"),
        ({"x": ""}, "not a path inside"),
        ({"x": "missing.txt"}, "No such file"),
        ({"x": "."}, "not a path inside"),
    ],
)
async def test_derivatives_outside_the_folder_are_refused(
    tmp_path: Path, files: dict[str, str], why: str
) -> None:
    async def keep(folder: Path, output: ProcessorOutput) -> None:
        raise AssertionError("refused files must not be handed over")

    async with opened(tmp_path) as sandbox:
        with pytest.raises(InvalidOutputError, match=why):
            await sandbox.run(SandboxJob(payload={"files": {"a.txt": "a"}, "claim_files": files}), keep=keep)
        assert folders(tmp_path) == []


@pytest.mark.parametrize("kind", ["file", "folder"])
async def test_derivatives_that_are_links_are_refused(tmp_path: Path, kind: str) -> None:
    (tmp_path / "secrets").mkdir()
    (tmp_path / "secrets" / "key.txt").write_text("secret")
    links = {
        "file": {"key.txt": str(tmp_path / "secrets" / "key.txt")},
        "folder": {"secrets": str(tmp_path / "secrets")},
    }
    claimed = "secrets/key.txt" if kind == "folder" else "key.txt"
    async with opened(tmp_path / "scratch") as sandbox:
        payload = {"links": links[kind], "files": {"own.txt": "x"}, "claim_files": {"x": claimed}}
        with pytest.raises(InvalidOutputError, match="a link"):
            await sandbox.run(SandboxJob(payload=payload))
    assert (tmp_path / "secrets" / "key.txt").read_text() == "secret"


async def test_files_that_were_taken_do_not_change_any_more(tmp_path: Path) -> None:
    """A child goes on writing to what it gave away, by descriptors, by mapped memory and by opening it again."""
    seen: dict[str, list[bytes]] = {}
    kept: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    def look(path: Path) -> None:
        seen.setdefault(path.name, []).append(path.read_bytes())

    async def keep(folder: Path, output: ProcessorOutput) -> None:
        (child,) = sandbox._children
        process = psutil.Process(child.pid)
        for _ in range(20):
            for name in ("kept", *output.files):
                look(folder / name)
            enough = process.io_counters().write_count + 3
            await wait_until(lambda n=enough: process.io_counters().write_count > n, "it writes")  # type: ignore[misc]

    def on_kept(file: KeptFile, take: Take) -> None:
        look(take({file.name: file.path}) / file.path)
        kept.set_result(None)

    async with opened(tmp_path, processor="hostile", spare=0) as sandbox:
        await sandbox.run(SandboxJob({"attempt": "hold"}), keep=keep, on_kept=on_kept)
    assert kept.done()
    assert {name: len(set(contents)) for name, contents in seen.items()} == {
        "kept": 1,
        "written": 1,
        "mapped": 1,
    }


PARENT = """
import asyncio, sys
from pathlib import Path
from mediamill.worker.sandbox import Limits, Sandbox, SandboxJob

async def main():
    sandbox = Sandbox("scripted-programs", size=2, limits=Limits(600, 1 << 30), scratch=Path(sys.argv[1]))
    await sandbox.start()
    job = SandboxJob(payload={"do": "spawn_and_hang", "new_session": True, "files": {"half.bin": "x"}})
    await sandbox.run(job, lambda report: print(report.parts.get("grandchild", ""), flush=True))

asyncio.run(main())
"""


def start_parent(scratch: Path) -> subprocess.Popen[bytes]:
    return subprocess.Popen([sys.executable, "-c", PARENT, scratch], stdout=subprocess.PIPE)


async def test_after_kill_9_of_the_worker_no_child_lives_and_the_next_one_clears_up(tmp_path: Path) -> None:
    with start_parent(tmp_path) as parent:
        assert parent.stdout is not None
        parent.stdout.readline()
        children = [child.pid for child in psutil.Process(parent.pid).children()]
        (grandchild,) = programs_of(children[0])
        assert len(children) == 1
        await wait_until(lambda: len(folders(tmp_path)) == 1, "the job has its folder")
        async with opened(tmp_path):  # a second worker on the same folder leaves the living one alone
            assert all(map(is_running, [*children, grandchild]))
            assert len(homes(tmp_path)) == 2
        parent.kill()
    await wait_until(lambda: not any(map(is_running, children)), "the children die with it")
    assert len(homes(tmp_path)) == 1
    async with opened(tmp_path):
        assert len(homes(tmp_path)) == 1  # its own
        await wait_until(lambda: not is_running(grandchild), "what it had started is dead")
    assert everything_in(tmp_path) == []
