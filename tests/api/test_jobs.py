from __future__ import annotations

from typing import Any

import httpx
import pytest

from mediamill.api.guard import BODY_LIMIT_BYTES
from tests.api.serving import Served


def code(answer: httpx.Response) -> str:
    assert answer.headers["content-type"] == "application/problem+json"
    body = answer.json()
    assert body["status"] == answer.status_code
    assert set(body) >= {"type", "title", "status", "detail", "code", "fix"}
    return str(body["code"])


@pytest.mark.spec("E1")
async def test_an_enqueued_job_carries_all_that_was_said(served: Served) -> None:
    given = {
        "kind": "scripted.run",
        "payload": {"do": "succeed", "n": [1, {"a": None}]},
        "owner": "a bot/with a slash",
        "subject_id": "s1",
        "mime_type": "audio/ogg",
        "priority": "high",
        "pool": "default",
        "max_attempts": 7,
        "run_after": "2999-01-01T00:00:00Z",
        "idempotency_key": "once",
    }
    job_id = (await served.client.post("/api/jobs", json=given)).json()["id"]
    shown = (await served.client.get(f"/api/jobs/{job_id}")).json()
    assert shown["payload"] == given["payload"]
    assert shown["state"] == "scheduled"
    assert shown["priority"] == 0
    for name in ("kind", "owner", "subject_id", "mime_type", "pool", "max_attempts"):
        assert shown[name] == given[name]
    again = (await served.client.post("/api/jobs", json=given)).json()["id"]
    assert again == job_id


async def test_the_idempotency_key_may_come_as_a_header(served: Served) -> None:
    ids = {
        (
            await served.client.post(
                "/api/jobs", json={"kind": "scripted.run"}, headers={"Idempotency-Key": "k"}
            )
        ).json()["id"]
        for _ in range(3)
    }
    assert len(ids) == 1


async def test_jobs_are_listed_newest_first_page_by_page(served: Served) -> None:
    ids = [await served.enqueue(owner=f"o{number % 2}") for number in range(5)]
    first = (await served.client.get("/api/jobs", params={"amount": 3})).json()
    assert [job["id"] for job in first["jobs"]] == ids[:1:-1]
    rest = (await served.client.get("/api/jobs", params={"amount": 3, "before": first["next"]})).json()
    assert [job["id"] for job in rest["jobs"]] == ids[1::-1]
    assert rest["next"] is None
    of_owner = (await served.client.get("/api/jobs", params={"owner": "o1"})).json()["jobs"]
    assert {job["owner"] for job in of_owner} == {"o1"}


@pytest.mark.parametrize(
    ("given", "status", "expected"),
    [
        ({"kind": "scripted.runn"}, 404, "unknown_kind"),
        ({"kind": "scripted.run", "payload": [1]}, 422, "payload_invalid"),
        ({"kind": "scripted.run", "payload": "text"}, 422, "payload_invalid"),
        ({"kind": "scripted.run", "payload": {"x": "y" * 1_100_000}}, 413, "payload_too_large"),
        ({"kind": "scripted.run", "pool": "nowhere"}, 404, "unknown_pool"),
        ({"kind": "scripted.run", "priority": "urgent"}, 422, "invalid"),
        ({"kind": "scripted.run", "max_attempts": 0}, 422, "invalid"),
        ({"kind": "scripted.run", "run_after": "2999-01-01T00:00:00"}, 422, "invalid"),
        ({"kind": "scripted.run", "surprise": 1}, 422, "invalid"),
        ({"payload": {}}, 422, "invalid"),
        ({"kind": "scripted.run", "owner": "a\x00b"}, 422, "invalid"),
        ({"kind": "scripted.run", "payload": {"a": "\x00"}}, 422, "payload_invalid"),
        ([1], 422, "invalid"),
    ],
)
async def test_a_bad_job_is_refused_with_a_code_and_changes_nothing(
    served: Served, given: object, status: int, expected: str
) -> None:
    answer = await served.client.post("/api/jobs", json=given)
    assert (answer.status_code, code(answer)) == (status, expected)
    assert await served.one("select count(*) from jobs") == 0


@pytest.mark.parametrize(
    "body", [b"{", b"\xff\xfe", b'{"kind": "scripted.run", "payload": {"a": "\\ud800"}}']
)
async def test_broken_json_is_the_callers_fault(served: Served, body: bytes) -> None:
    answer = await served.client.post("/api/jobs", content=body, headers={"Content-Type": "application/json"})
    assert 400 <= answer.status_code < 500
    code(answer)


async def test_an_unknown_job_is_not_found(served: Served) -> None:
    for method, path in (
        ("GET", "/api/jobs/77"),
        ("POST", "/api/jobs/77/retry"),
        ("DELETE", "/api/jobs/77"),
        ("GET", "/api/dead/77"),
    ):
        answer = await served.client.request(method, path)
        assert (answer.status_code, code(answer)) == (404, "unknown_job"), path
    assert (await served.client.get(f"/api/jobs/{2**70}")).status_code == 422
    assert code(await served.client.get("/nowhere")) == "not_found"


async def test_a_body_over_the_limit_is_refused_announced_or_not(served: Served) -> None:
    answer = await served.client.post("/api/jobs", content=b"x" * (BODY_LIMIT_BYTES + 1))
    assert (answer.status_code, code(answer)) == (413, "body_too_large")

    async def pieces() -> object:
        for _ in range(40):
            yield b"[" + b"1," * 25_000

    answer = await served.client.post("/api/jobs", content=pieces())  # type: ignore[arg-type]
    assert (answer.status_code, code(answer)) == (413, "body_too_large")


async def test_waiting_jobs_are_purged_and_running_ones_left_alone(served: Served) -> None:
    waiting, running = await served.enqueue(), await served.enqueue()
    await served.run(
        "update jobs set state = 'running', lease_expires_at = now() + interval '1 hour' where id = $1",
        running,
    )
    answer = await served.client.delete(f"/api/jobs/{running}")
    assert (answer.status_code, code(answer)) == (409, "conflict")
    assert (await served.client.delete(f"/api/jobs/{waiting}")).status_code == 200
    more = await served.enqueue(owner="x")
    unclear = await served.client.post("/api/jobs/purge", json={})
    assert (unclear.status_code, code(unclear)) == (422, "invalid")
    purged = (await served.client.post("/api/jobs/purge", json={"all": True})).json()["purged"]
    assert purged == [more]


async def test_a_job_that_waits_for_its_back_off_can_be_hurried(served: Served) -> None:
    job = await served.enqueue(run_after="2999-01-01T00:00:00Z")
    assert (await served.client.post(f"/api/jobs/{job}/retry")).json() == {"id": job}
    assert (await served.client.get(f"/api/jobs/{job}")).json()["state"] == "queued"


async def _die(served: Served, **more: Any) -> int:
    job = await served.enqueue(**more)
    await served.run(
        "with gone as (delete from jobs where id = $1 returning *) "
        "insert into dead_jobs (id, kind, pool, owner, subject_id, priority, payload, attempts, max_attempts, token,"
        " created_at, reason, error, traceback) select id, kind, pool, owner, subject_id, priority, payload, 3, 3, 1,"
        " created_at, 'max_attempts_exhausted', 'it broke', 'Traceback: all of it' from gone",
        job,
    )
    return job


@pytest.mark.spec("E13")
async def test_dead_jobs_are_listed_shown_requeued_and_purged(served: Served) -> None:
    first, second, third = [await _die(served, payload={"n": n}) for n in range(3)]
    listed = (await served.client.get("/api/dead")).json()["jobs"]
    assert [job["id"] for job in listed] == [third, second, first]
    shown = (await served.client.get(f"/api/dead/{first}")).json()
    assert (shown["traceback"], shown["payload"]) == ("Traceback: all of it", {"n": 0})
    requeued = await served.client.post("/api/dead/requeue", json={"ids": [first, 999]})
    assert requeued.json() == {"requeued": [first]}
    assert (await served.client.get(f"/api/jobs/{first}")).json()["state"] == "queued"
    assert (await served.client.get(f"/api/dead/{first}")).status_code == 404
    assert (await served.client.post(f"/api/jobs/{second}/retry")).status_code == 200
    purged = await served.client.post("/api/dead/purge", json={"kind": "scripted.run"})
    assert purged.json() == {"purged": [third]}
    assert (await served.client.get("/api/dead")).json()["jobs"] == []


@pytest.mark.spec("E12")
async def test_an_owner_is_held_and_released(served: Served) -> None:
    job = await served.enqueue(owner="bots/one")
    assert (await served.client.post("/api/owners/bots/one/hold")).json() == {"owner": "bots/one", "held": 1}
    held = (await served.client.get("/api/owners/held")).json()["owners"]
    assert [(owner["owner"], owner["jobs"]) for owner in held] == [("bots/one", 1)]
    assert (await served.client.get(f"/api/jobs/{job}")).json()["state"] == "held"
    assert (await served.client.post("/api/owners/bots/one/release")).json()["released"] == 1
    assert (await served.client.get(f"/api/jobs/{job}")).json()["state"] == "queued"
