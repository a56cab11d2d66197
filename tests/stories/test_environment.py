"""What the processes of `mediamill up` show to others of the same user: no secret, but for the first process itself."""

from __future__ import annotations

import asyncio
import base64
from collections.abc import AsyncIterator
from pathlib import Path

import psutil
import pytest

from mediamill.db.embedded import EmbeddedServer, postmaster_pid
from mediamill.worker.handover import SECRETS
from tests.conftest import wait_until
from tests.crash.processes import Mill, Process, in_thread
from tests.ports import free_port

CHILD = "mediamill.worker.child"
NOT_SET = {"database_url", "database_direct_url"}  # the database is the embedded one
MARKERS = {name: f"marker-of-{name.replace('_', '-')}" for name in SECRETS - NOT_SET}
OTHERS = {"GITHUB_TOKEN": "marker-of-somebody-else", "AWS_SECRET_ACCESS_KEY": "marker-of-aws"}


def settings() -> dict[str, str]:
    """Every secret there is, in the form that it has."""
    nowhere = f"127.0.0.1:{free_port()}"
    formed = {
        **MARKERS,
        "redis_url": f"redis://mill:{MARKERS['redis_url']}@{nowhere}/0",
        "alert_webhook_url": f"http://{nowhere}/{MARKERS['alert_webhook_url']}",
        "alert_webhook_secret": "whsec_"
        + base64.b64encode(MARKERS["alert_webhook_secret"].encode()).decode(),
    }
    MARKERS["alert_webhook_secret"] = formed["alert_webhook_secret"]
    return OTHERS | {f"MEDIAMILL_{name.upper()}": value for name, value in formed.items()}


@pytest.fixture
async def mill(tmp_path: Path) -> AsyncIterator[Mill]:
    mill = Mill(tmp_path, settings={**settings(), "MEDIAMILL_QUEUE_MODE": "hybrid"}, cold=True)
    mill.settings["MEDIAMILL_WORKER_PROCESSES"] = "2"
    yield mill
    mill.close()
    use = await in_thread(EmbeddedServer(tmp_path / "data").start)  # to stop it in order
    await in_thread(use.close)


def shown_by(process: psutil.Process) -> tuple[str, str] | None:
    """Its command line, and that with its environment; None if it has just ended."""
    try:
        command = " ".join(process.cmdline())
        return command, f"{command} {process.environ()}"
    except (psutil.Error, OSError):
        return None


async def watch(up: Process, seen: dict[str, set[str]]) -> None:
    """Look at everything below the first process, again and again."""
    own = " ".join(psutil.Process(up.pid).cmdline())
    while True:
        for found in filter(None, map(shown_by, up.children())):
            command, text = found
            if command == own:  # forked just now, and not another program yet
                continue
            leaks = {name for name, marker in (MARKERS | OTHERS).items() if marker in text}
            seen.setdefault(command, set()).update(leaks)
        await asyncio.sleep(0.05)  # starting any Python takes longer than that


async def test_no_process_below_up_shows_a_secret(mill: Mill, tmp_path: Path) -> None:
    up = mill.start("up")
    seen: dict[str, set[str]] = {}
    watching = asyncio.create_task(watch(up, seen))
    await up.until_said("is up: ")
    await up.until_said(
        "is ready, pools: "
    )  # else the command works for itself, in a child that is not below `up`
    note = tmp_path / "note.txt"
    note.write_text("a note\n")
    code, said = await mill.say("process", note)
    assert code == 0, said

    async def all_met() -> bool:
        assert not watching.done(), watching.exception()
        commands = " ".join(seen)
        return CHILD in commands and sum(each.endswith("mediamill worker") for each in seen) > 0

    await wait_until(all_met)
    watching.cancel()
    server = postmaster_pid(tmp_path / "data")
    assert server is not None
    for process in (psutil.Process(server), *psutil.Process(server).children()):
        found = shown_by(process)
        assert found is not None
        assert "marker-of" not in found[1]
    for command, leaks in seen.items():
        assert leaks == set(), command
    (first,) = filter(None, [shown_by(psutil.Process(up.pid))])
    assert MARKERS["admin_secret"] in first[1], "the search would find nothing"
