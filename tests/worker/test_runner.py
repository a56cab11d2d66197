"""The sandboxes of a worker: one for each pool, kept while it is the same, and closed with it."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from mediamill.engine.kinds import Kinds
from mediamill.engine.pools import Pool
from mediamill.engine.rules import Engine
from mediamill.worker.run import Runner

POOL = Pool("one", processor="scripted", concurrency=2, timeout_seconds=7, memory_bytes=64 << 20)


def homes(folder: Path) -> int:
    return len(list((folder / "scratch").glob("*.lock")))


async def test_a_pool_has_a_sandbox_until_it_goes_or_gets_another_processor(tmp_path: Path) -> None:
    runner = Runner(Engine(Kinds([]), payload_limit_bytes=99), tmp_path, child_idle_seconds=3)
    await runner.prepare(POOL)
    sandbox = runner._sandboxes["one"]
    assert (sandbox.processor, sandbox.size, sandbox.mime_types) == ("scripted", 2, ())
    assert (sandbox.limits.timeout_seconds, sandbox.limits.memory_bytes) == (7, 64 << 20)
    assert sandbox.limits.output_bytes == 99
    await runner.prepare(replace(POOL, concurrency=5, timeout_seconds=8))
    assert runner._sandboxes["one"] is sandbox, "its children go on"
    assert (sandbox.size, sandbox.limits.timeout_seconds, homes(tmp_path)) == (5, 8, 1)
    await runner.prepare(replace(POOL, matches=("a/b",)))
    assert runner._sandboxes["one"] is not sandbox
    assert homes(tmp_path) == 1, "the one of before is closed"
    await runner.prepare(replace(POOL, name="two"))
    assert homes(tmp_path) == 2
    await runner.close_pool("two")
    await runner.close_pool("nobody's")
    assert (sorted(runner._sandboxes), homes(tmp_path)) == (["one"], 1)
    await runner.prepare(replace(POOL, processor="nowhere"))
    assert homes(tmp_path) == 0, "there is no such processor"
    await runner.prepare(replace(POOL, name="none", processor=None))
    await runner.prepare(POOL)
    await runner.close()
    assert (runner._sandboxes, homes(tmp_path)) == ({}, 0)
