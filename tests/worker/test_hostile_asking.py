"""A hostile processor that has a caller, because it asks model servers, gets no further than one without."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from mediamill.testing.model_server import ModelServer, Reply, Seen
from mediamill.worker import escape_check, seccomp
from mediamill.worker.landlock import landlock_version
from mediamill.worker.sandbox import SandboxJob
from tests.worker.harness import QUICK, add_plugin, opened

pytestmark = [
    pytest.mark.spec("C26"),
    pytest.mark.skipif(
        landlock_version() < 6 or not seccomp.is_available(), reason="needs Landlock 6 and seccomp"
    ),
]
NAME = "hostile-asking"
# Those that are aimed at a process.
AIMED = (
    *("read_by_worker", "environ", "memory", "maps", "descriptors", "ptrace", "read_memory", "write_memory"),
    *("pidfd", "kcmp", "kill", "sigqueue", "signal_by_file", "prlimit", "priority", "affinity"),
)


def _answer(_: Seen) -> Reply:
    return Reply.json({"token": "admin"})


@pytest.fixture
def server(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[ModelServer]:
    """The configured one; and the processor that may ask it."""
    plugin = add_plugin(tmp_path, f"{NAME} = mediamill.testing.hostile:AskingHostileProcessor")
    monkeypatch.syspath_prepend(str(plugin))
    monkeypatch.setenv("PYTHONPATH", str(plugin), prepend=os.pathsep)
    (tmp_path / "place").mkdir()
    with ModelServer(_answer) as server:
        monkeypatch.setenv("MEDIAMILL_OPENAI_URL", f"{server.url}/v1")
        monkeypatch.setenv("MEDIAMILL_OPENAI_KEY", "sk-very-secret-0123456789")
        yield server


async def test_no_way_out_is_open_beside_a_caller(server: ModelServer, tmp_path: Path) -> None:
    outcomes = await escape_check.try_escapes(tmp_path / "place", names=QUICK, processor=NAME)
    assert {one.name: one.said for one in outcomes if not one.refused} == {}
    assert server.seen == []


async def test_neither_the_caller_nor_what_it_may_not_call_can_be_reached(
    server: ModelServer, tmp_path: Path
) -> None:
    place = tmp_path / "place"
    async with opened(place / "scratch", processor=NAME, spare=0) as sandbox:
        with ModelServer(_answer) as ours:  # such as mediamill's own, on loopback
            urls = [f"{server.url}/v1/chat", f"{ours.url}/api/tokens", f"{server.url}/api/tokens"]
            told = (await sandbox.run(SandboxJob({"attempt": "ask", "urls": urls}))).result["told"]
        (child,) = sandbox._children
        assert child._caller is not None
        with escape_check._targets(place, child.plan.folder.parent) as targets:
            aimed = replace(targets, worker=child._caller.pid)
            outcomes = [await escape_check._try(sandbox, name, aimed, place, False) for name in AIMED]
        assert child._caller.poll() is None
    assert told == ["200", "forbidden", "forbidden"]
    assert ours.seen == []
    assert {one.name: one.said for one in outcomes if not one.refused} == {}
