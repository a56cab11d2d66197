"""Files of remote workers: inputs by range, finished files and derivatives as streams, for the holder of the claim."""

from __future__ import annotations

import asyncio
import hashlib
import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from mediamill.db.connection import Database
from mediamill.engine.kinds import JobKind
from tests.api.remote_worker import Remote, register, shown, told
from tests.api.serving import Served, serve
from tests.conftest import wait_until

TEXT = bytes(range(256)) * 8
KEPT = "scripted.keep"


def stage(folder: Path, content: bytes = TEXT, guid: str = "guid-1") -> Path:
    path = folder / "pending_media" / guid
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content)
    return path


async def claimed(
    served: Served, kind: str = "scripted.run", **payload: Any
) -> tuple[Remote, dict[str, Any]]:
    worker = await register(served)
    await served.enqueue(kind, pool="scripted", payload=payload)
    [job] = await worker.claim()
    return worker, job


def kept_folder(folder: Path, job: dict[str, Any]) -> Path:
    return folder / "kept" / f"{job['id'] % 1000:03}" / str(job["id"])


def names_in(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir()) if folder.exists() else []


@pytest.mark.spec("E23")
async def test_an_input_comes_whole_or_by_range_with_a_mark_of_its_version(
    served: Served, tmp_path: Path
) -> None:
    path = stage(tmp_path)
    worker, job = await claimed(served, file={"staged": "guid-1"})
    whole = await worker.get(job, "input")
    assert (whole.status_code, whole.content, whole.headers["accept-ranges"]) == (200, TEXT, "bytes")
    tag = whole.headers["etag"]
    rest = await worker.get(job, "input", Range="bytes=2000-", **{"If-Range": tag})
    assert (rest.status_code, rest.content) == (206, TEXT[2000:])
    assert rest.headers["content-range"] == f"bytes 2000-2047/{len(TEXT)}"
    tail = await worker.get(job, "input", Range="bytes=-5")
    assert (tail.status_code, tail.content) == (206, TEXT[-5:])
    beyond = await worker.get(job, "input", Range="bytes=2048-")
    assert (beyond.status_code, beyond.headers["content-range"]) == (416, f"bytes */{len(TEXT)}")
    path.write_bytes(b"another")
    changed = await worker.get(job, "input", Range="bytes=3-", **{"If-Range": tag})
    assert (changed.status_code, changed.content) == (200, b"another")
    assert changed.headers["etag"] != tag


async def test_an_input_that_is_not_there_or_is_a_link_is_not_sent(served: Served, tmp_path: Path) -> None:
    secret = tmp_path.parent / "secret"
    secret.write_text("not for workers")
    (tmp_path / "pending_media").mkdir()
    (tmp_path / "pending_media" / "link").symlink_to(secret)
    (tmp_path / "pending_media" / "folder").mkdir()
    worker = await register(served)
    files: list[Any] = [
        {"staged": "link"},
        {"staged": "gone"},
        {"staged": "folder"},
        {"path": str(secret)},
        None,
    ]
    for file in files:
        await served.enqueue(payload={"file": file})
        [job] = await worker.claim()
        answer = await worker.get(job, "input")
        assert told(answer) == (404, "input_missing"), file
        assert b"not for workers" not in answer.content
        await worker.post("complete", **shown(job))


async def test_a_kind_of_this_machine_may_name_any_file_of_it(database: Database, tmp_path: Path) -> None:
    (tmp_path / "film").write_bytes(TEXT)
    async with serve(database, tmp_path / "data", (JobKind("test.local", local=True),)) as served:
        worker = await register(served)
        await served.run(
            "insert into jobs (kind, pool, owner, priority, max_attempts, state, payload) values "
            "('test.local', 'scripted', 'o', 1, 3, 'queued', $1::jsonb)",
            json.dumps({"file": {"path": str(tmp_path / "film")}}),
        )
        [job] = await worker.claim()
        assert (await worker.get(job, "input")).content == TEXT


@pytest.mark.spec("V6", "V8")
async def test_a_kept_file_is_listed_with_its_facts_and_found_after_the_claim_is_gone(
    served: Served, tmp_path: Path
) -> None:
    worker, job = await claimed(served, KEPT)
    facts = {"quality": "720p", "index": 1, "note": "é"}
    assert (await worker.put(job, "kept/720p-00001.m4s", TEXT, facts)).status_code == 204
    assert (await worker.put(job, "kept/720p-00001.m4s", b"again", facts)).status_code == 204
    assert (await worker.put(job, "kept/empty", b"")).status_code == 204
    await worker.post("release", claims=[shown(job)])
    other = await register(served, "another")
    [again] = await other.claim()
    listed = (await other.get(again, "kept")).json()["files"]
    assert [(one["name"], one["bytes"], one["facts"]) for one in listed] == [
        ("720p-00001.m4s", 5, facts),
        ("empty", 0, {}),
    ]
    assert listed[0]["sha256"] == hashlib.sha256(b"again").hexdigest()
    assert (kept_folder(tmp_path, job) / "720p-00001.m4s").read_bytes() == b"again"


@pytest.mark.spec("V8")
async def test_a_derivative_is_put_into_the_folder_of_its_claim(served: Served, tmp_path: Path) -> None:
    worker, job = await claimed(served)
    answer = await worker.put(job, "files/previews/768.webp", TEXT)
    home = f"derivatives/{job['id'] % 1000:03}/{job['id']}-{job['token']}"
    assert answer.json() == {"path": f"{home}/previews/768.webp", "bytes": len(TEXT)}
    assert (tmp_path / answer.json()["path"]).read_bytes() == TEXT
    result = {"files": {"preview": answer.json()}}
    assert (await worker.post("complete", **shown(job), result=result)).json()["outcome"] == "completed"


@pytest.mark.spec("V8", "E5")
@pytest.mark.parametrize("what", ["input", "kept", "put kept", "put file"])
@pytest.mark.parametrize("how", ["expired", "another's", "old token", "finished", "unknown"])
async def test_files_are_only_for_the_holder_of_the_claim(
    served: Served, tmp_path: Path, what: str, how: str
) -> None:
    stage(tmp_path)
    worker, job = await claimed(served, KEPT, file={"staged": "guid-1"})
    match how:
        case "expired":
            await served.run("update jobs set lease_expires_at = now() - interval '1 second'")
        case "another's":
            worker = await register(served, "another")
        case "old token":
            await served.run("update jobs set token = token + 1")
        case "finished":
            await worker.post("complete", **shown(job))
        case "unknown":
            job = {**job, "id": 999}
    where = {"put kept": "kept/a.txt", "put file": "files/a.txt"}.get(what)
    answer = await worker.put(job, where, TEXT) if where else await worker.get(job, what)
    assert told(answer) == (409, "claim_lost")
    assert not names_in(tmp_path / "derivatives")
    assert names_in(kept_folder(tmp_path, job)) == []


@pytest.mark.spec("V8")
async def test_a_body_that_breaks_off_leaves_nothing(served: Served, tmp_path: Path) -> None:
    worker, job = await claimed(served, KEPT)
    begun = asyncio.Event()

    async def half() -> AsyncIterator[bytes]:
        yield b"x" * 100_000
        begun.set()
        await asyncio.Event().wait()

    sending = asyncio.create_task(worker.put(job, "kept/a.txt", half(), **{"X-Content-SHA256": "0" * 64}))
    await begun.wait()

    async def arrives() -> bool:
        return any(name.startswith(".part-") for name in names_in(kept_folder(tmp_path, job)))

    await wait_until(arrives)
    sending.cancel()

    async def cleared() -> bool:
        return names_in(kept_folder(tmp_path, job)) == []

    await wait_until(cleared)
    assert (await worker.get(job, "kept")).json() == {"files": []}


async def test_a_file_above_the_limit_is_refused_announced_or_not(database: Database, tmp_path: Path) -> None:
    async with serve(database, tmp_path, worker_file_limit_bytes=1_000_000) as served:
        worker, job = await claimed(served, KEPT)

        async def endless() -> AsyncIterator[bytes]:
            while True:
                yield b"x" * 65_536

        assert (await worker.put(job, "kept/a", b"x" * 1_000_000)).status_code == 204
        assert told(await worker.put(job, "kept/b", b"x" * 1_000_001)) == (413, "file_too_large")
        try:
            answer = await worker.put(job, "kept/c", endless(), **{"X-Content-SHA256": "0" * 64})
            assert told(answer) == (413, "file_too_large")
        except httpx.TransportError:
            pass  # it stopped listening to somebody who goes on and on
        assert names_in(kept_folder(tmp_path, job)) == ["a"]


@pytest.mark.spec("E23")
async def test_the_file_that_was_staged_for_a_job_goes_when_a_remote_worker_has_ended_it(
    database: Database, tmp_path: Path
) -> None:
    kind = JobKind("test.owner", owns_input=True)
    async with serve(database, tmp_path, (kind,)) as served:
        done, dead, bad = (stage(tmp_path, guid=guid) for guid in ("done", "dead", "bad"))
        worker = await register(served)
        for guid in ("done", "dead", "bad"):
            await served.enqueue("test.owner", pool="scripted", payload={"file": {"staged": guid}})
        first, second, third = await worker.claim(amount=3)
        await worker.post("complete", **shown(first))
        answer = await worker.post("fail", **shown(second), error="no model", permanent=True)
        assert answer.json()["dead"]
        await worker.post("fail", **shown(third), error="broken", permanent=True, notice="sorry")
        assert not done.exists()
        assert not dead.exists()
        assert (tmp_path / "failed_media" / "dead").exists()

        async def bad_is_gone() -> bool:
            return not bad.exists()

        await wait_until(bad_is_gone, 30)
        assert not (tmp_path / "failed_media" / "bad").exists()
        assert await served.one("select notice from dead_jobs where error = 'broken'") == "sorry"


@pytest.mark.spec("C29")
async def test_a_job_of_another_type_than_claimed_is_sent_to_its_pool(served: Served) -> None:
    worker, job = await claimed(served, KEPT)
    answer = await worker.post("reroute", **shown(job), mime_type="image/png")
    assert answer.json()["outcome"] == "rerouted"
    row = (await served.client.get(f"/api/jobs/{job['id']}")).json()
    assert (row["pool"], row["state"], row["mime_type"], row["attempts"]) == (
        "image",
        "queued",
        "image/png",
        0,
    )
    assert told(await worker.post("reroute", **shown(job), mime_type="image/png")) == (409, "claim_lost")


async def test_a_claim_says_when_the_next_job_comes_due(served: Served) -> None:
    worker = await register(served)
    await served.enqueue()
    await served.run("update jobs set state = 'scheduled', run_after = now() + interval '50 seconds'")
    answer = (await worker.post("claim")).json()
    assert answer["jobs"] == []
    assert 40 < answer["due_in_seconds"] <= 50


@pytest.mark.spec("E15")
async def test_a_remote_worker_says_with_its_greeting_whether_it_has_a_gpu(served: Served) -> None:
    worker = await register(served)
    word: dict[str, Any] = {"instance": "ab" * 16, "capabilities": {"gpu": True, "encoders": ["h264_nvenc"]}}
    assert (await worker.post("hello", **word)).status_code == 200
    [row] = (await served.client.get("/api/workers")).json()["workers"]
    assert row["gpu"]
    assert row["capabilities"]["encoders"] == ["h264_nvenc"]


async def test_a_worker_is_told_the_pools_that_it_may_serve(served: Served) -> None:
    await served.enqueue()
    every, some = await register(served), await register(served, "some", pools=["scripted"])
    names = {}
    for worker in (every, some):
        headers = {"Authorization": f"Bearer {worker.key}"}
        pools = (await served.client.get("/api/worker/pools", headers=headers)).json()["pools"]
        names[worker.id] = [pool["name"] for pool in pools]
    assert "default" not in names[every.id]  # it has no processor
    assert names[some.id] == ["scripted"]
    assert pools[0]["waiting"] == 1
