"""Races of workers that are known by their word alone, over HTTP: late words change nothing, a restart harms nobody."""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from mediamill.db.connection import Database
from mediamill.engine.recovery.silent_workers import mark_silent
from mediamill.engine.recovery.sweep import SWEEP, note_server_start, run_chores
from tests.api.remote_worker import Remote, register, shown, told
from tests.api.serving import Served, serve
from tests.conftest import wait_until

ROUNDS = 20
KEPT = "scripted.keep"


@pytest.fixture
async def served(database: Database, tmp_path: Path) -> AsyncIterator[Served]:
    """A server that has run for long enough: no grace is left."""
    async with serve(database, tmp_path, startup_grace_seconds=0) as served:
        yield served


async def enqueue(served: Served) -> int:
    return await served.enqueue(KEPT, pool="scripted", max_attempts=1_000)


async def expire(served: Served) -> None:
    """The lease is long over, whatever the worker says."""
    await served.run("update jobs set lease_expires_at = now() - interval '1 day' where state = 'running'")


def kept_files(folder: Path, job: dict[str, Any]) -> dict[str, bytes]:
    home = folder / "kept" / f"{job['id'] % 1000:03}" / str(job["id"])
    return {path.name: path.read_bytes() for path in home.iterdir()} if home.exists() else {}


async def taken_over(served: Served, to: Remote) -> dict[str, Any]:
    """The job is released and claimed by another."""
    await expire(served)
    await run_chores(served.database, served.engine, SWEEP)
    [job] = await to.claim()
    return job


@pytest.mark.spec("E2", "V7")
async def test_of_many_claims_at_once_exactly_one_gets_the_job_every_time(served: Served) -> None:
    workers = [await register(served, f"w{number}") for number in range(6)]
    for _ in range(ROUNDS):
        id_ = await enqueue(served)
        claims = await asyncio.gather(*(worker.claim() for worker in workers))
        [(holder, job)] = [(worker, jobs[0]) for worker, jobs in zip(workers, claims, strict=True) if jobs]
        assert job["id"] == id_
        assert (await holder.post("complete", **shown(job))).json()["outcome"] == "completed"
    assert await served.one("select count(*) from finished_jobs where attempts = 1") == ROUNDS


@pytest.mark.spec("E5", "V8")
async def test_completion_after_expiry_gets_409_and_leaves_the_new_holders_files_alone(
    served: Served, tmp_path: Path
) -> None:
    old, new = await register(served, "old"), await register(served, "new")
    await enqueue(served)
    [late] = await old.claim()
    assert (await old.put(late, "kept/first", b"of the old")).status_code == 204
    assert (await old.put(late, "files/a.txt", b"of the old")).status_code == 200
    job = await taken_over(served, new)
    assert (await new.put(job, "kept/second", b"of the new")).status_code == 204
    derivative = (await new.put(job, "files/a.txt", b"of the new")).json()
    for answer in (
        await old.post("complete", **shown(late), result={"files": {}}),
        await old.post("fail", **shown(late), error="late", permanent=True),
        await old.post("progress", **shown(late), percent=99),
        await old.post("reroute", **shown(late), mime_type="image/png"),
        await old.put(late, "kept/second", b"of the old"),
        await old.put(late, "kept/third", b"of the old"),
        await old.put(late, "files/a.txt", b"of the old"),
    ):
        assert told(answer) == (409, "claim_lost")
    assert kept_files(tmp_path, job) == {"first": b"of the old", "second": b"of the new"}
    assert (tmp_path / derivative["path"]).read_bytes() == b"of the new"
    result = {"files": {"a": derivative}}
    assert (await new.post("complete", **shown(job), result=result)).json()["outcome"] == "completed"


@pytest.mark.spec("E5", "E8")
async def test_of_a_completion_and_a_takeover_at_once_exactly_one_wins(served: Served) -> None:
    old, new = await register(served, "old"), await register(served, "new")
    for _ in range(ROUNDS):
        id_ = await enqueue(served)
        [job] = await old.claim()

        async def take() -> list[dict[str, Any]]:
            await expire(served)
            await run_chores(served.database, served.engine, SWEEP)
            return await new.claim()

        done, taken = await asyncio.gather(old.post("complete", **shown(job), result={"by": "old"}), take())
        if done.status_code == 200:
            assert taken == []
        else:
            assert told(done) == (409, "claim_lost")
            [again] = taken or await new.claim()
            assert (await new.post("complete", **shown(again), result={"by": "new"})).status_code == 200
        by = await served.one("select result->>'by' from finished_jobs where id = $1", id_)
        assert by == ("old" if done.status_code == 200 else "new")
        assert await served.one("select count(*) from jobs") == 0


@pytest.mark.spec("E5")
async def test_a_stale_release_does_not_take_the_job_from_its_new_holder(served: Served) -> None:
    old, new = await register(served, "old"), await register(served, "new")
    await enqueue(served)
    [late] = await old.claim()
    job = await taken_over(served, new)
    await old.post("release", claims=[shown(late)])
    beat = await old.post("heartbeat", state="idle", claims=[shown(late)], all_claims=True)
    assert beat.json()["lost"] == [late["id"]]
    assert (await old.post("leave")).json() == {"released": 0}
    assert await served.one("select worker_id from jobs where state = 'running'") == new.id
    assert (await new.post("complete", **shown(job))).status_code == 200


@pytest.mark.spec("E5", "V8")
async def test_a_claim_that_is_taken_over_while_a_file_is_being_sent_keeps_nothing_of_it(
    served: Served, tmp_path: Path
) -> None:
    old, new = await register(served, "old"), await register(served, "new")
    await enqueue(served)
    [late] = await old.claim()
    for where in ("kept/same", "files/same"):
        go_on = asyncio.Event()

        async def body() -> AsyncIterator[bytes]:
            yield b"the first half, "
            await go_on.wait()  # noqa: B023
            yield b"the second"

        sha = hashlib.sha256(b"the first half, the second").hexdigest()
        sending = asyncio.create_task(old.put(late, where, body(), **{"X-Content-SHA256": sha}))

        async def arrives() -> bool:
            return any(name.startswith(".part-") for name in kept_files(tmp_path, late))  # noqa: B023

        await wait_until(arrives)
        job = await taken_over(served, new)
        if where.startswith("kept"):
            assert (await new.put(job, where, b"of the new holder")).status_code == 204
        go_on.set()
        assert told(await sending) == (409, "claim_lost")
        assert kept_files(tmp_path, job) == {"same": b"of the new holder"}
        old, new, late = new, old, job
    assert not (tmp_path / "derivatives").exists()


@pytest.mark.spec("E9", "E21")
async def test_after_a_restart_of_the_server_no_worker_is_stale_within_the_grace_period(
    database: Database, tmp_path: Path
) -> None:
    """Everybody was silent while the server was away, for longer than the limit and than the lease."""
    async with serve(database, tmp_path) as served:
        worker = await register(served)
        await worker.post("heartbeat", state="busy")
        await enqueue(served)
        [job] = await worker.claim()
    async with serve(database, tmp_path) as restarted:
        await note_server_start(database)
        await restarted.run("update workers set heartbeat_at = now() - interval '1 hour'")
        await expire(restarted)
        await run_chores(database, restarted.engine, SWEEP)
        assert await restarted.one("select state from workers") == "busy"
        assert await restarted.one("select worker_id from jobs where state = 'running'") == worker.id
        back = Remote(restarted, worker.id, worker.key)
        assert (await back.post("heartbeat", state="busy")).status_code == 200
        # With no grace left, the same silence and the same lease end both.
        await restarted.run("delete from counters where name = 'server_started_at'")
        await restarted.run("update workers set heartbeat_at = now() - interval '1 hour'")
        await run_chores(database, restarted.engine, SWEEP)
        assert await restarted.one("select state from workers") == "offline"
        assert await restarted.one("select state from jobs") == "queued"
        assert told(await back.post("complete", **shown(job))) == (409, "claim_lost")


@pytest.mark.spec("E21")
async def test_a_heartbeat_inside_the_offline_check_always_leaves_the_worker_known(served: Served) -> None:
    worker = await register(served)
    await worker.post("heartbeat", state="idle")

    async def check() -> None:
        async with served.database.transaction() as connection:
            await mark_silent(connection, served.engine)

    for _ in range(ROUNDS):
        await served.run("update workers set heartbeat_at = now() - interval '1 hour'")
        _, beat, _ = await asyncio.gather(check(), worker.post("heartbeat", state="busy"), check())
        assert beat.json()["state"] == "busy"
        assert await served.one("select state from workers") == "busy"


@pytest.mark.spec("E3", "E20")
async def test_a_claim_that_was_on_its_way_when_another_process_took_the_key_is_not_its_own(
    served: Served,
) -> None:
    worker = await register(served)
    old, new = "aa" * 16, "bb" * 16
    for _ in range(ROUNDS):
        assert (await worker.post("hello", instance=old)).status_code == 200
        id_ = await enqueue(served)
        claim = served.client.post(
            "/api/worker/claim",
            json={},
            headers={"Authorization": f"Bearer {worker.key}", "X-Worker-Instance": old},
        )
        answer, hello = await asyncio.gather(claim, worker.post("hello", instance=new))
        assert hello.status_code == 200
        if answer.status_code == 200 and answer.json()["jobs"]:
            late = answer.json()["jobs"][0]
            assert told(await worker.post("complete", **shown(late))) == (409, "claim_lost")
        else:
            assert answer.status_code == 403 or answer.json()["jobs"] == []
        [job] = await worker.claim()
        assert job["id"] == id_
        assert (await worker.post("complete", **shown(job))).status_code == 200
