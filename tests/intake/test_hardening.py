"""Nothing is stuck, nothing left behind: five ways to fail, on real PostgreSQL with a real worker and its children."""

from __future__ import annotations

import json
import logging
from pathlib import Path
from typing import Any

import pytest

from mediamill.db.connection import Database
from mediamill.engine.recovery.expired import release_expired
from mediamill.intake.model import blob_path
from mediamill.testing.model_server import SILENT
from mediamill.testing.openai_server import OpenAiServer
from tests.conftest import wait_until
from tests.intake.failing import NEVER_SECONDS, bring_back, hurry, take_away, until
from tests.intake.played import Ground, result_of

LETTER = b"Dear Ada,\nInvoice number: 4711\nTotal: 12.50 EUR\nThank you.\n"


@pytest.fixture
async def ground(ground: Ground) -> Ground:
    """With a project; a job that failed waits until the test lets it be tried again."""
    await ground.project()
    await ground.run(
        "update pools set backoff_seconds = $1, backoff_limit_seconds = $1 where name = 'intake'",
        NEVER_SECONDS,
    )
    return ground


@pytest.mark.spec("P2", "P4", "E7")
@pytest.mark.parametrize("how", ["missing", "unreadable"])
async def test_a_file_that_cannot_be_fetched_is_requeued_while_attempts_remain(
    ground: Ground, how: str
) -> None:
    file = await ground.add(content=LETTER)
    path = blob_path(ground.data, bytes.fromhex(file["sha256"]))
    aside = take_away(path, how)
    async with ground.working():
        shown = await until(ground, file["id"], "queued", error=True)
        assert (shown["attempts"], shown["started_at"]) == (1, None)
        bring_back(aside, path)
        await hurry(ground, file)
        shown = await until(ground, file["id"], "completed")
    assert (shown["attempts"], shown["error"]) == (2, None)
    assert "4711" in shown["text"]


@pytest.mark.spec("P2", "P4", "E7")
async def test_a_file_that_can_never_be_fetched_ends_in_the_dead_letter_with_the_reason(
    ground: Ground,
) -> None:
    file = await ground.add(content=LETTER)
    take_away(blob_path(ground.data, bytes.fromhex(file["sha256"])), "missing")
    await ground.run("update pools set backoff_seconds = 0 where name = 'intake'")
    async with ground.working():
        shown = await until(ground, file["id"], "failed")
    assert shown["attempts"] == 3
    assert shown["error"].startswith("max_attempts_exhausted: ")
    assert (
        await ground.one("select reason from dead_jobs where id = $1", file["job_id"])
        == "max_attempts_exhausted"
    )


@pytest.mark.spec("P2", "P7", "E5", "E8", "E9")
async def test_a_stale_file_is_requeued_and_completed_by_another_worker(
    ground: Ground, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "mediamill.intake")
    file = await ground.add(content=LETTER)
    (lost,) = await ground.claim("lost")  # by a worker that is never heard of again
    await ground.run(
        "update jobs set lease_expires_at = now() - interval '16 minutes' where id = $1", lost.id
    )
    async with ground.working():
        shown = await until(ground, file["id"], "completed")
    assert (shown["attempts"], shown["error"]) == (2, None)
    lines = [one.getMessage() for one in caplog.records if one.name == "mediamill.intake.jobs"]
    assert [line.split()[0] for line in lines] == [
        "file_processing_started",
        "file_processing_retry",
        "file_processing_started",
        "file_processing_completed",
    ]
    assert lines[1].endswith("reason='stale_processing_requeued'")
    assert (await ground.finish(lost)).lost == {lost.id}


@pytest.mark.spec("P2", "E8", "E9")
async def test_stale_files_wait_again_and_say_why_fifty_at_a_time(ground: Ground) -> None:
    files = [await ground.add(content=f"letter {number}".encode()) for number in range(60)]
    await ground.claim("lost", amount=60)
    await ground.run("update jobs set lease_expires_at = now() - interval '16 minutes'")
    for freed in (50, 10, 0):
        async with ground.database.transaction() as connection:
            assert await release_expired(connection, ground.engine) == freed
        left = await ground.one("select count(*) from analyses where state = 'processing'")
        assert left == (10 if freed == 50 else 0)
    for file in (files[0], files[-1]):
        shown = await ground.show(file["id"])
        assert (shown["state"], shown["error"]) == ("queued", "stale_processing_requeued")
        assert (shown["attempts"], shown["started_at"]) == (1, None)


@pytest.mark.spec("P2", "E8")
async def test_a_stale_file_whose_attempts_are_used_up_has_failed(ground: Ground) -> None:
    file = await ground.add(content=LETTER)
    (lost,) = await ground.claim("lost")
    await ground.run(
        "update jobs set attempts = max_attempts, lease_expires_at = now() - interval '16 minutes'"
    )
    async with ground.working():
        shown = await until(ground, file["id"], "failed")
    assert shown["error"].startswith("max_attempts_exhausted")
    assert shown["processed_at"] is not None
    assert await ground.one("select reason from dead_jobs where id = $1", lost.id) == "max_attempts_exhausted"


@pytest.mark.spec("P2", "E9")
async def test_a_claim_that_is_not_stale_yet_is_left_alone(ground: Ground) -> None:
    file = await ground.add(content=LETTER)
    (held,) = await ground.claim("slow")
    await ground.run(
        "update jobs set lease_expires_at = now() - interval '14 minutes' where id = $1", held.id
    )
    other = await ground.add(content=b"another letter")
    async with ground.working():
        await until(ground, other["id"], "completed")
    assert (await ground.show(file["id"]))["state"] == "processing"


@pytest.mark.spec("P2", "E8")
async def test_exhausted_files_are_failed_batch_by_batch_and_none_is_left(ground: Ground) -> None:
    files = [await ground.add(content=f"letter {number}".encode()) for number in range(120)]
    await ground.run("update jobs set attempts = max_attempts")
    good = await ground.add(content=LETTER)
    async with ground.working():
        await until(ground, good["id"], "completed")
        await wait_until(lambda: ground.one("select count(*) = 120 from analyses where state = 'failed'"))
    shown = await ground.show(files[0]["id"])
    assert shown["error"] == "max_attempts_exhausted"
    assert shown["processed_at"] is not None
    assert await ground.one("select count(*) from jobs") == 0
    assert await ground.one("select count(*) from dead_jobs where reason = 'max_attempts_exhausted'") == 120


@pytest.mark.spec("P3", "P4", "E7")
@pytest.mark.parametrize(
    ("content", "why"), [(b"", "the file is empty (0 bytes)"), (b"%PDF-1.7\n" + bytes(200), "")]
)
async def test_a_file_with_something_wrong_fails_at_once(ground: Ground, content: bytes, why: str) -> None:
    file = await ground.add(content=content)
    async with ground.working():
        shown = await until(ground, file["id"], "failed")
    assert shown["attempts"] == 1
    assert shown["error"]
    assert why in shown["error"]
    assert await ground.one("select reason from dead_jobs where id = $1", file["job_id"]) == "permanent"


@pytest.mark.spec("P4", "E7")
@pytest.mark.parametrize("text", ["Empty document", "Document too large: 412 MB", "empty image data"])
async def test_a_reason_that_is_known_to_be_final_fails_a_file_at_once_whatever_raised_it(
    ground: Ground, text: str
) -> None:
    await ground.run("update pools set processor = 'scripted' where name = 'intake'")
    file = await ground.add(content=LETTER)
    script = {"do": "raise_text", "text": text}
    await ground.run("update jobs set payload = payload || $1::jsonb", json.dumps(script))
    async with ground.working():
        shown = await until(ground, file["id"], "failed")
    assert (shown["attempts"], shown["error"]) == (1, f"RuntimeError: {text}")
    assert await ground.one("select reason from dead_jobs where id = $1", file["job_id"]) == "permanent"
    assert "RuntimeError" in await ground.one("select traceback from dead_jobs where id = $1", file["job_id"])


@pytest.mark.spec("P2", "P3", "P4", "E7", "E10")
async def test_a_file_that_takes_too_long_is_tried_again(ground: Ground) -> None:
    await ground.run("update pools set processor = 'scripted', timeout_seconds = 2 where name = 'intake'")
    file = await ground.add(content=LETTER)
    script = "update jobs set payload = payload || $1::jsonb where id = $2"
    await ground.run(script, json.dumps({"do": "hang"}), file["job_id"])
    async with ground.working():
        shown = await until(ground, file["id"], "queued", error=True)
        assert shown["attempts"] == 1
        assert "TIMEOUT: scripted processing exceeded 2s" in shown["error"]
    await ground.run(script, json.dumps({"do": "succeed", "result": result_of()}), file["job_id"])
    await ground.run("update pools set timeout_seconds = 300 where name = 'intake'")
    await hurry(ground, file)
    async with ground.working("patient"):
        shown = await until(ground, file["id"], "completed")
    assert (shown["attempts"], shown["error"]) == (2, None)
    assert len(shown["proposals"]) == 2


@pytest.mark.spec("P2", "P3", "E10")
async def test_a_model_that_never_answers_costs_the_time_limit_and_no_more(
    database: Database, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with OpenAiServer(say=lambda _: '{"fields": []}') as model:
        chosen = {"text": "openai", "openai_url": f"{model.url}/v1"}
        for name, value in chosen.items():
            monkeypatch.setenv(f"MEDIAMILL_{name.upper()}", value)  # for the children
        ground = Ground.on(database, tmp_path / "data", **chosen)
        await ground.project()
        limits = "update pools set timeout_seconds = $1, backoff_seconds = $2, backoff_limit_seconds = $2"
        await ground.run(f"{limits} where name = 'intake'", 12, NEVER_SECONDS)
        file = await ground.add(content=LETTER)
        model.then(SILENT)
        async with ground.working():
            shown = await until(ground, file["id"], "queued", error=True)
            assert "TIMEOUT: intake processing exceeded 12s" in shown["error"]
            assert len(model.seen) == 1
        await ground.run("update pools set timeout_seconds = 300 where name = 'intake'")
        await hurry(ground, file)
        async with ground.working("patient"):
            shown = await until(ground, file["id"], "completed")
    assert shown["attempts"] == 2


@pytest.mark.spec("P2")
async def test_the_pool_has_the_limits_of_the_plan(ground: Ground) -> None:
    pool = await ground.pool()
    assert (pool.timeout_seconds, pool.max_attempts, pool.lease_seconds, pool.stale_seconds) == (
        300,
        3,
        900,
        900,
    )


@pytest.mark.spec("P4")
@pytest.mark.parametrize("result", [{}, {"content": "x", "kind": "nonsense"}])
async def test_a_result_that_makes_no_sense_is_a_failed_attempt(
    ground: Ground, result: dict[str, Any]
) -> None:
    await ground.run("update pools set processor = 'scripted' where name = 'intake'")
    file = await ground.add(content=LETTER)
    await ground.run("update jobs set payload = payload || $1::jsonb", json.dumps({"result": result}))
    async with ground.working():
        shown = await until(ground, file["id"], "queued", error=True)
    assert shown["attempts"] == 1
    assert shown["proposals"] == []


@pytest.mark.spec("P1", "P3", "P5")
async def test_a_real_letter_becomes_text_and_fields_and_its_twin_takes_them_over(ground: Ground) -> None:
    file, twin = await ground.add(content=LETTER), await ground.add(content=LETTER, name="copy.txt")
    async with ground.working():
        shown = await until(ground, file["id"], "completed")
        assert (await ground.show(twin["id"]))["state"] == "completed"
        late = await ground.add(content=LETTER, name="late.txt")
    found = {one["field"]: (one["value"], one["unit"], one["page"]) for one in shown["proposals"]}
    assert found["invoice_number"][0] == "4711"
    assert found["total"][:2] == ("12.50", "EUR")
    assert late["state"] == "completed"
    assert await ground.one("select count(*) from finished_jobs") == 1
    for one in (twin, late):
        assert await ground.proposals(one["id"]) == await ground.proposals(file["id"])


@pytest.mark.spec("P3")
async def test_a_type_that_nobody_reads_is_completed_and_says_so(ground: Ground) -> None:
    file = await ground.add(content=b"\x7fELF" + bytes(500))
    async with ground.working():
        shown = await until(ground, file["id"], "completed")
    assert shown["kind"] == "unsupported"
    assert shown["unsupported"]
    assert shown["proposals"] == []
