"""A worker without a database does all that a local one does, over HTTP."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path

import pytest

from mediamill.db.connection import Database
from mediamill.engine.flight_dumps import pack
from mediamill.worker.away import RefusedError
from tests.api.remote_worker import register, shown
from tests.api.serving import Served, serve
from tests.conftest import wait_until
from tests.gate import gate_to
from tests.worker.remote_working import Far, far_worker, result_of, until


@pytest.fixture
async def served(database: Database, tmp_path: Path) -> AsyncIterator[Served]:
    """A server with a quick heartbeat, in a folder that no worker shares."""
    async with serve(database, tmp_path / "server", heartbeat_seconds=1) as served:
        yield served


async def running(served: Served, job_id: int, step: str = "hanging") -> None:
    await until(
        served, "select true from jobs where id = $1 and state = 'running' and step = $2", job_id, step
    )


async def tell(served: Served, worker_id: int, command: str) -> None:
    answer = await served.client.post(f"/api/workers/{worker_id}/command", json={"command": command})
    assert answer.status_code == 200


@pytest.mark.spec("E23", "V15")
async def test_a_remote_worker_is_woken_and_runs_what_a_local_one_would(
    served: Served, tmp_path: Path
) -> None:
    async with far_worker(served, tmp_path / "far") as far:
        await until(served, "select true from workers where state = 'idle'")
        job_id = await served.enqueue(payload={"do": "report", "result": {"text": "done"}, "about": True})
        result = await result_of(served, job_id)
    assert (result["text"], result["attempt"]) == ("done", 1)
    assert await served.one("select worker_id from finished_jobs") == far.id
    assert await served.one("select state from workers") == "offline"
    assert list((tmp_path / "far" / "scratch").glob("*-*/[0-9]*")) == []


@pytest.mark.spec("E23", "V8")
async def test_its_input_comes_down_and_what_it_made_goes_up(served: Served, tmp_path: Path) -> None:
    staged = tmp_path / "server" / "pending_media" / "guid-1"
    staged.parent.mkdir(parents=True)
    staged.write_bytes(b"the file")
    async with far_worker(served, tmp_path / "far") as far:
        payload = {"file": {"staged": "guid-1"}, "about": True, "files": {"a.txt": "alpha", "b.txt": "beta"}}
        job_id = await served.enqueue(payload=payload)
        result = await result_of(served, job_id)
        assert Path(result["file"]).parent == tmp_path / "far" / "remote_inputs"

        async def cleared() -> bool:
            return list((tmp_path / "far" / "remote_inputs").iterdir()) == []

        await wait_until(cleared)
    made = {
        name: (tmp_path / "server" / facts["path"]).read_text() for name, facts in result["files"].items()
    }
    assert made == {"a.txt": "alpha", "b.txt": "beta"}
    assert result["files"]["a.txt"]["bytes"] == 5
    assert far.worker.is_leaving


@pytest.mark.spec("V6", "V8", "E23")
async def test_what_an_attempt_kept_before_it_died_is_found_by_the_next(
    served: Served, tmp_path: Path
) -> None:
    payload = {"do": "keep", "times": 5, "die_after": 3, "gate": str(tmp_path)}
    async with far_worker(served, tmp_path / "far"):
        job_id = await served.enqueue("scripted.keep", pool="scripted", payload=payload)
        await until(served, "select count(*) = 3 from kept_files")
        (tmp_path / "die").touch()
        result = await result_of(served, job_id)
    names = [f"part-{index:03}.txt" for index in range(5)]
    assert result["found"] == names[:3]
    assert sorted(result["found"] + result["made"]) == names
    kept = tmp_path / "server" / "kept" / f"{job_id % 1000:03}" / str(job_id)
    assert {path.name: path.read_text() for path in kept.iterdir()} == {name: name for name in names}


@pytest.mark.spec("E7")
async def test_its_failures_are_told_with_their_traceback_and_permanence(
    served: Served, tmp_path: Path
) -> None:
    async with far_worker(served, tmp_path / "far"):
        again = await served.enqueue(payload={"do": "raise_text", "text": "not now"})
        never = await served.enqueue(payload={"do": "raise_permanent", "text": "not ever"})
        await until(served, "select true from dead_jobs where id = $1", never)
        await until(served, "select true from jobs where id = $1 and state = 'scheduled'", again)
    dead = (await served.client.get(f"/api/dead/{never}")).json()
    assert (dead["reason"], dead["error"]) == ("permanent", "not ever")
    assert "GiveUpError" in dead["traceback"]


@pytest.mark.spec("E22")
async def test_pause_resume_and_shutdown_reach_it_at_once(served: Served, tmp_path: Path) -> None:
    async with far_worker(served, tmp_path / "far") as far:
        await tell(served, far.id, "pause")
        await until(served, "select true from workers where state = 'paused'")
        job_id = await served.enqueue()
        await tell(served, far.id, "resume")
        await result_of(served, job_id)
        hanging = await served.enqueue(payload={"do": "sleep", "seconds": 1})
        await until(served, "select true from jobs where id = $1 and state = 'running'", hanging)
        await tell(served, far.id, "shutdown")
        await asyncio.wait_for(far.task, 120)
    await result_of(served, hanging)
    assert await served.one("select state from workers") == "offline"


@pytest.mark.spec("E22", "E24")
async def test_a_forensic_dump_is_written_on_its_own_machine_and_read_at_the_server(
    served: Served, tmp_path: Path
) -> None:
    async with far_worker(served, tmp_path / "far") as far:
        logger = logging.getLogger("mediamill")
        logger.addHandler(far.flight)
        try:
            logger.warning("a sign in the log of %s", "far")
            await tell(served, far.id, "forensic_dump")
            await until(served, "select true from flight_dumps where worker_id = $1", far.id)
        finally:
            logger.removeHandler(far.flight)
        (dump,) = (tmp_path / "far" / "logs" / "forensics").glob(f"{far.id}_*.log")
        (listed,) = (await served.client.get("/api/flight-dumps")).json()["dumps"]
        assert (listed["name"], listed["worker_name"]) == (dump.name, "far")
        answer = await served.client.get(f"/api/flight-dumps/{listed['id']}")
        assert answer.headers["content-type"] == "text/plain; charset=utf-8"
        assert answer.headers["content-disposition"] == f'attachment; filename="{dump.name}"'
        assert answer.text == dump.read_text()
        assert "a sign in the log of far" in answer.text


@pytest.mark.spec("E24")
async def test_a_flight_log_that_could_not_be_sent_is_brought_by_the_next_process(
    served: Served, tmp_path: Path
) -> None:
    remote = await register(served, "far")
    folder = tmp_path / "far" / "logs" / "forensics"
    folder.mkdir(parents=True)
    left = folder / f"{remote.id}_20261115T221730.210895Z.log"
    left.write_text("last words\n")
    (folder / "77777_20261115T221730.210895Z.log").write_text("of a worker of another server\n")
    (folder / "notes.log").write_text("of somebody else\n")
    async with far_worker(served, tmp_path / "far", remote=remote):
        await until(served, "select true from flight_dumps where name = $1", left.name)
    assert await served.one("select count(*) from flight_dumps") == 1


@pytest.mark.spec("E24")
async def test_a_worker_sends_its_own_flight_log_and_no_other(served: Served) -> None:
    remote = await register(served, "far")
    packed, key = pack(b"entries\n"), {"Authorization": f"Bearer {remote.key}"}

    async def send(name: str, body: bytes = packed) -> tuple[int, str | None]:
        answer = await served.client.put(f"/api/worker/dumps/{name}", content=body, headers=key)
        return answer.status_code, answer.json().get("code")

    name = f"{remote.id}_20261115T221730.210895Z.log"
    assert await send(name) == (200, None)
    assert await send(name) == (200, None)
    assert await send(f"{remote.id + 1}_20261115T221730.210895Z.log") == (422, "dump_invalid")
    assert await send("passwd") == (422, "dump_invalid")
    assert await send(name, b"not packed") == (422, "dump_invalid")
    assert await send(name, bytes(1_450_000)) == (413, "dump_too_large")
    assert (await served.client.put(f"/api/worker/dumps/{name}", content=packed)).status_code == 401
    assert await served.one("select count(*) from flight_dumps") == 1


@pytest.mark.spec("E22")
async def test_told_to_stop_twice_it_hands_back_what_runs(served: Served, tmp_path: Path) -> None:
    async with far_worker(served, tmp_path / "far") as far:
        job_id = await served.enqueue(payload={"do": "hang"})
        await running(served, job_id)
        far.worker.stop()
        far.worker.stop()
        await asyncio.wait_for(far.task, 120)
    row = (await served.client.get(f"/api/jobs/{job_id}")).json()
    assert (row["state"], row["attempts"]) == ("queued", 0)


@pytest.mark.spec("E10", "E23", "V6")
async def test_its_attempt_without_progress_is_released_and_resumed(served: Served, tmp_path: Path) -> None:
    async with far_worker(served, tmp_path / "far"):
        # The gate never opens: it hangs.
        payload = {"do": "keep", "times": 5, "die_after": 3, "gate": str(tmp_path)}
        job_id = await served.enqueue("scripted.keep", pool="scripted", payload=payload)
        await running(served, job_id, "dying")
        answer = await served.client.put("/api/pools/scripted", json={"no_progress_seconds": 2})
        assert answer.status_code == 200
        result = await result_of(served, job_id)
    assert result["found"] == ["part-000.txt", "part-001.txt", "part-002.txt"]
    assert await served.one("select sum(value) from counters where name = 'stalled'") >= 1
    assert await served.one("select sum(value) from counters where name = 'failures'") is None


@pytest.mark.spec("E5", "E21")
async def test_a_heartbeat_that_names_a_lost_claim_stops_its_job(served: Served, tmp_path: Path) -> None:
    async with far_worker(served, tmp_path / "far") as far:
        job_id = await served.enqueue(payload={"do": "hang"}, max_attempts=1)
        await running(served, job_id)
        await served.run("update jobs set state = 'held'")

        async def dropped() -> bool:
            return bool(await served.one("select (stats->>'claims_lost')::int = 1 from workers"))

        await wait_until(dropped)
        assert await served.one("select (stats->>'running')::int from workers") == 0
    assert far.worker.is_leaving
    assert (await served.client.get(f"/api/jobs/{job_id}")).json()["state"] == "held"


@pytest.mark.spec("E20", "E21")
async def test_a_disabled_worker_finishes_what_it_has_and_waits_until_it_is_enabled(
    served: Served, tmp_path: Path
) -> None:
    await served.run("update pools set concurrency = 1 where name = 'scripted'")
    async with far_worker(served, tmp_path / "far") as far:
        first = await served.enqueue(payload={"do": "report", "times": 1, "gate": str(tmp_path)})
        await running(served, first, "step 1")
        await served.client.post(f"/api/workers/{far.id}/disable")
        await wait_until(resting(far))
        second = await served.enqueue()
        (tmp_path / "1").touch()
        await result_of(served, first)
        assert await served.one("select attempts from finished_jobs where id = $1", first) == 1
        await until(served, "select current_job_id is null and state = 'disabled' from workers")
        assert (await served.client.get(f"/api/jobs/{second}")).json()["state"] == "queued"
        assert not far.task.done()
        await served.client.post(f"/api/workers/{far.id}/enable")
        await result_of(served, second)


def resting(far: Far) -> Callable[[], Awaitable[bool]]:
    async def rests() -> bool:
        return all(lane.paused for lane in far.worker._lanes.values())

    return rests


@pytest.mark.spec("E20", "E21")
async def test_a_worker_whose_key_is_revoked_ends_and_says_why(served: Served, tmp_path: Path) -> None:
    async with far_worker(served, tmp_path / "far") as far:
        job_id = await served.enqueue(payload={"do": "hang"})
        await running(served, job_id)
        await served.client.post(f"/api/workers/{far.id}/revoke")
        with pytest.raises(RefusedError) as ended:
            await asyncio.wait_for(far.task, 120)
    assert ended.value.code == "worker_key_revoked"
    assert ended.value.fix
    assert list((tmp_path / "far").rglob("forensics/*")) == []


@pytest.mark.spec("E20")
async def test_of_two_processes_with_one_key_the_later_goes_on(served: Served, tmp_path: Path) -> None:
    async with far_worker(served, tmp_path / "first") as first:
        job_id = await served.enqueue(payload={"do": "sleep", "seconds": 0.5})
        await until(served, "select true from jobs where id = $1 and state = 'running'", job_id)
        async with far_worker(served, tmp_path / "second", remote=first.remote):
            with pytest.raises(RefusedError) as ended:
                await asyncio.wait_for(first.task, 120)
            assert ended.value.code == "worker_replaced"
            await result_of(served, job_id)


@pytest.mark.spec("E8", "E9")
async def test_what_an_earlier_process_held_goes_back_as_the_next_one_starts(
    served: Served, tmp_path: Path
) -> None:
    remote = await register(served)
    job_id = await served.enqueue()
    [job] = await remote.claim()
    async with far_worker(served, tmp_path / "far", remote=remote):
        await result_of(served, job_id)
    assert await served.one("select attempts from finished_jobs") == 2
    assert (await remote.post("complete", **shown(job))).json()["code"] == "claim_lost"


@pytest.mark.spec("E23")
async def test_a_server_that_goes_away_is_waited_for_and_nothing_is_lost(
    database: Database, served: Served, tmp_path: Path
) -> None:
    await served.run(
        "update pools set concurrency = 1 where name = 'scripted'"
    )  # so that no claim is on its way
    async with gate_to(served.url) as gate, far_worker(served, tmp_path / "far", url=gate.url) as far:
        payload = {"do": "report", "times": 1, "gate": str(tmp_path), "result": {"n": 1}}
        first = await served.enqueue(payload=payload)
        await running(served, first, "step 1")
        await gate.shut()
        second = await served.enqueue(payload={"do": "succeed", "result": {"n": 2}})
        (tmp_path / "1").touch()
        await until_ended(far)
        async with serve(database, tmp_path / "server", heartbeat_seconds=1) as restarted:
            gate.target = restarted.url
            await gate.open()
            assert (await result_of(served, first))["n"] == 1
            assert (await result_of(served, second))["n"] == 2
            assert await served.one("select max(attempts) from finished_jobs") == 1
            await gate.shut()


async def until_ended(far: Far) -> None:
    """The job has ended, and its worker cannot say so."""

    async def untold() -> bool:
        return far.worker._lanes["scripted"].settler.waiting == 1

    await wait_until(untold)


@pytest.mark.spec("E9")
async def test_a_claim_whose_answer_was_lost_is_put_back_by_the_next_heartbeats(
    served: Served, tmp_path: Path
) -> None:
    async with far_worker(served, tmp_path / "far", pools=("nothing",)) as far:
        job_id = await served.enqueue()
        await served.client.post(f"/api/workers/{far.id}/command", json={"command": "resume"})
        await served.run(
            "update jobs set state = 'running', worker_id = $1, worker_name = 'far', token = 7, attempts = 1, "
            "claimed_at = now() - interval '2 minutes', lease_expires_at = now() + interval '1 hour'",
            far.id,
        )
        await until(served, "select attempts = 0 from jobs where id = $1 and state = 'queued'", job_id)
        await served.run(
            "update jobs set state = 'running', token = 8, attempts = 1, claimed_at = now() - interval '2 minutes', "
            "lease_expires_at = now() - interval '1 second'"
        )
        await until(served, "select attempts = 1 from jobs where id = $1 and state = 'queued'", job_id)


async def test_pools_whose_processor_is_not_installed_there_are_left_to_others(
    served: Served, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    await served.run("update pools set processor = 'from elsewhere' where name = 'scripted'")
    async with far_worker(served, tmp_path / "far") as far:
        assert "scripted" not in far.worker._lanes
    assert "from elsewhere is not installed here" in caplog.text
