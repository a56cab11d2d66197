from __future__ import annotations

import hashlib
from typing import Any

import pytest

from mediamill.db.connection import Connection, Database
from mediamill.engine.kinds import JobKind
from tests.api.remote_worker import Remote, register, shown, told
from tests.api.serving import SECRET, Served, serve


@pytest.mark.spec("E20")
async def test_registration_needs_the_secret_and_shows_the_key_once(served: Served) -> None:
    for headers in ({"X-Forwarded-For": "203.0.113.9"}, {"X-Admin-Secret": "wrong"}, {"X-Admin-Secret": ""}):
        answer = await served.client.post("/api/worker/register", json={"name": "x"}, headers=headers)
        assert told(answer) == (403, "registration_denied")
    worker = await register(served, capabilities={"gpu": True})
    async with served.database.connection() as connection:
        row = await connection.fetchrow("select prefix, hash from worker_keys")
    assert row is not None
    assert (row["prefix"], row["hash"]) == (worker.key[:8], hashlib.sha256(worker.key.encode()).digest())
    listed = (await served.client.get("/api/workers")).text
    assert worker.key not in listed


@pytest.mark.spec("E20")
async def test_without_a_configured_secret_nobody_registers(database: Database, tmp_path: Any) -> None:
    async with serve(database, tmp_path, admin_secret=None) as served:
        answer = await served.client.post(
            "/api/worker/register", json={"name": "x"}, headers={"X-Admin-Secret": ""}
        )
        assert told(answer) == (403, "registration_denied")
        assert "MEDIAMILL_ADMIN_SECRET" in answer.json()["fix"]


@pytest.mark.spec("E20")
async def test_descriptions_over_ten_kilobytes_are_refused(served: Served) -> None:
    for field in ("capabilities", "metadata"):
        answer = await served.client.post(
            "/api/worker/register",
            json={"name": "x", field: {"text": "x" * 10_240}},
            headers={"X-Admin-Secret": SECRET},
        )
        assert told(answer) == (422, "invalid")
    assert await served.one("select count(*) from workers") == 0


@pytest.mark.spec("E20", "E21")
async def test_a_wrong_or_revoked_key_is_refused_everywhere_and_a_disabled_worker_gets_no_jobs(
    served: Served,
) -> None:
    await served.enqueue()
    wrong = Remote(served, 1, "nothing like a key")
    revoked, disabled = await register(served, "revoked"), await register(served, "disabled")
    assert (await served.client.post(f"/api/workers/{revoked.id}/revoke")).json()["revoked"] == 1
    assert (await served.client.post(f"/api/workers/{disabled.id}/disable")).status_code == 200
    verbs: dict[str, dict[str, Any]] = {
        "heartbeat": {"state": "idle"},
        "claim": {},
        "progress": {"job_id": 1, "token": 1},
        "complete": {"job_id": 1, "token": 1},
        "fail": {"job_id": 1, "token": 1, "error": "x"},
        "release": {"claims": []},
    }
    for verb, body in verbs.items():
        assert told(await wrong.post(verb, **body)) == (401, "worker_key_invalid"), verb
        assert told(await revoked.post(verb, **body)) == (401, "worker_key_revoked"), verb
        without = await served.client.post(f"/api/worker/{verb}", json=body)
        assert told(without) == (401, "worker_key_invalid"), verb
    assert (await disabled.post("heartbeat", state="idle")).json()["state"] == "disabled"
    assert await disabled.claim() == []
    assert await served.one("select state from jobs") == "queued"
    assert (await served.client.post(f"/api/workers/{disabled.id}/enable")).status_code == 200
    assert len(await disabled.claim()) == 1


@pytest.mark.spec("E2", "E3", "E4")
async def test_a_remote_worker_claims_reports_and_completes(served: Served) -> None:
    job_id = await served.enqueue(payload={"do": "succeed"}, subject_id="s")
    worker, other = await register(served), await register(served, "another")
    [job] = await worker.claim(amount=5)
    assert (job["id"], job["processor"], job["payload"]) == (job_id, "scripted", {"do": "succeed"})
    assert await other.claim() == []
    await served.run("update jobs set lease_expires_at = now() + interval '30 seconds'")
    answer = await worker.post("progress", **shown(job), step="half", percent=50, checkpoint={"at": 1})
    assert answer.status_code == 200
    assert await served.one("select lease_expires_at > now() + interval '1 minute' from jobs")
    seen = (await served.client.get(f"/api/jobs/{job_id}")).json()
    assert (seen["step"], seen["percent"], seen["checkpoint"], seen["worker_name"]) == (
        "half",
        50,
        {"at": 1},
        "far away",
    )
    answer = await worker.post("complete", **shown(job), result={"text": "done"})
    assert answer.json()["outcome"] == "completed"
    seen = (await served.client.get(f"/api/jobs/{job_id}")).json()
    assert (seen["state"], seen["result"]) == ("finished", {"text": "done"})


@pytest.mark.spec("E5")
async def test_a_result_whose_settling_met_another_transaction_is_to_be_told_again(served: Served) -> None:
    """By 503, which a worker takes for "away": any other failure would cost the job an attempt, and its result."""
    await served.enqueue()
    worker = await register(served)
    [job] = await worker.claim()
    await served.run(
        "create function meet() returns trigger language plpgsql as $$ begin raise exception using "
        "errcode = 'deadlock_detected', message = 'deadlock detected'; end $$"
    )
    await served.run("create trigger meet before insert on finished_jobs execute function meet()")
    assert told(await worker.post("complete", **shown(job), result={})) == (503, "busy")
    assert await served.one("select state from jobs") == "running"
    await served.run("drop trigger meet on finished_jobs")
    assert (await worker.post("complete", **shown(job), result={})).json()["outcome"] == "completed"


@pytest.mark.spec("E5")
@pytest.mark.parametrize("verb", ["progress", "complete", "fail"])
@pytest.mark.parametrize("how", ["expired", "taken over", "stranger", "finished", "unknown"])
async def test_a_late_word_gets_409_and_changes_nothing(served: Served, verb: str, how: str) -> None:
    await served.enqueue()
    worker, other = await register(served), await register(served, "another")
    [job] = await worker.claim()
    match how:
        case "expired":
            await served.run("update jobs set lease_expires_at = now() - interval '1 second'")
        case "taken over":
            await served.run("update jobs set state = 'queued'")
            assert len(await other.claim()) == 1
        case "stranger":
            worker = other
        case "finished":
            await worker.post("complete", **shown(job), result=1)
        case "unknown":
            job = {"id": 999, "token": 1}
    snapshot = "select coalesce(json_agg(t)::text, '') from (select * from jobs) t"
    before = await served.one(snapshot), await served.one("select count(*) from dead_jobs")
    body = {"error": "too late", "permanent": True} if verb == "fail" else {}
    answer = await worker.post(verb, **shown(job), **body)
    assert told(answer) == (409, "claim_lost")
    assert (await served.one(snapshot), await served.one("select count(*) from dead_jobs")) == before


@pytest.mark.spec("E7")
async def test_failures_are_retried_or_buried_as_the_worker_says(served: Served) -> None:
    worker = await register(served)
    temporary, permanent = await served.enqueue(), await served.enqueue()
    jobs = {job["id"]: job for job in await worker.claim(amount=2)}
    await worker.post("fail", **shown(jobs[temporary]), error="busy")
    await worker.post("fail", **shown(jobs[permanent]), error="broken file", permanent=True, traceback="T\nB")
    assert (await served.client.get(f"/api/jobs/{temporary}")).json()["state"] == "scheduled"
    dead = (await served.client.get(f"/api/dead/{permanent}")).json()
    assert (dead["reason"], dead["error"], dead["traceback"]) == ("permanent", "broken file", "T\nB")


@pytest.mark.spec("E21", "E22")
async def test_a_heartbeat_extends_what_is_held_and_brings_a_command_once(served: Served) -> None:
    await served.enqueue()
    worker = await register(served)
    [job] = await worker.claim()
    await served.run("update jobs set lease_expires_at = now() + interval '30 seconds'")
    await served.client.post(f"/api/workers/{worker.id}/command", json={"command": "pause"})
    claims = [shown(job), {"job_id": 999, "token": 5}]
    heard = (await worker.post("heartbeat", state="busy", hostname="h", claims=claims, stats={"n": 1})).json()
    assert (heard["command"], heard["state"], heard["lost"]) == ("pause", "busy", [999])
    assert await served.one("select lease_expires_at > now() + interval '1 minute' from jobs")
    assert (await worker.post("heartbeat", state="paused")).json()["command"] is None
    row = (await served.client.get("/api/workers")).json()["workers"][0]
    assert (row["state"], row["hostname"], row["type"]) == ("paused", "h", "remote")


async def test_a_worker_that_stops_gives_back_its_jobs_without_costing_an_attempt(served: Served) -> None:
    job_id = await served.enqueue()
    worker = await register(served)
    [job] = await worker.claim()
    assert (await worker.post("release", claims=[shown(job)])).json() == {"released": 1}
    seen = (await served.client.get(f"/api/jobs/{job_id}")).json()
    assert (seen["state"], seen["attempts"]) == ("queued", 0)


async def test_a_remote_worker_gets_only_its_pools_and_only_what_runs_anywhere(served: Served) -> None:
    inline = await served.enqueue("scripted.inline")
    misplaced = await served.enqueue("scripted.inline", pool="scripted")
    elsewhere = await register(served, pools=["somewhere else"])
    worker = await register(served)
    assert await elsewhere.claim() == []
    assert await elsewhere.claim(pools=["scripted"]) == []
    assert await worker.claim(amount=10) == []
    for job in (inline, misplaced):
        seen = (await served.client.get(f"/api/jobs/{job}")).json()
        assert (seen["state"], seen["attempts"]) == ("queued", 0)


@pytest.mark.spec("E6")
async def test_a_result_that_the_subject_refuses_is_a_failed_attempt(
    database: Database, tmp_path: Any
) -> None:
    async def refuse(_connection: Connection, _moved: object) -> None:
        raise RuntimeError("the subject is gone")

    kind = JobKind("test.refused", on_completed=refuse)
    async with serve(database, tmp_path, (kind,)) as served:
        job_id = await served.enqueue("test.refused", pool="scripted")
        worker = await register(served)
        [job] = await worker.claim()
        assert (await worker.post("complete", **shown(job))).json()["outcome"] == "failed"
        seen = (await served.client.get(f"/api/jobs/{job_id}")).json()
        assert (seen["state"], seen["error"]) == ("scheduled", "the subject is gone")


@pytest.mark.spec("E6")
@pytest.mark.parametrize(
    ("verb", "said", "state"),
    [
        ("fail", {"error": "no"}, "scheduled"),
        ("fail", {"error": "no", "permanent": True}, "dead"),
        ("complete", {"result": {}}, "scheduled"),
        ("reroute", {"mime_type": "audio/ogg"}, "scheduled"),
    ],
)
async def test_a_subject_that_refuses_everything_does_not_keep_its_job_with_the_worker(
    database: Database, tmp_path: Any, verb: str, said: dict[str, Any], state: str
) -> None:
    """A worker says it again as long as the server cannot do it, and all that ended meanwhile would wait behind."""

    async def refuse(_connection: Connection, _moved: object) -> None:
        raise RuntimeError("the subject is gone")

    kind = JobKind("test.refused", on_completed=refuse, on_failed=refuse, on_released=refuse)
    async with serve(database, tmp_path, (kind,)) as served:
        job_id = await served.enqueue("test.refused", pool="scripted")
        worker = await register(served)
        [job] = await worker.claim()
        assert (await worker.post(verb, **shown(job), **said)).json()["outcome"] == "failed"
        seen = (await served.client.get(f"/api/jobs/{job_id}")).json()
        assert seen["state"] == state


async def test_unknown_workers_are_not_found(served: Served) -> None:
    for path, body in (("command", {"command": "pause"}), ("disable", {}), ("enable", {}), ("revoke", {})):
        answer = await served.client.post(f"/api/workers/99/{path}", json=body)
        assert told(answer) == (404, "unknown_worker"), path
