"""An analysis moves only with its job, and its files with it: claimed, released, failed, completed, logged."""

from __future__ import annotations

import json
import logging
import re
from typing import Any

import pytest

from mediamill.engine.dead import OutdatedJobError, purge_jobs, requeue_dead
from mediamill.engine.settle import Fate, hand_back
from mediamill.intake.again import delete_file
from tests.intake.played import Ground, found, result_of


async def come_due(ground: Ground) -> None:
    """The back-off is over."""
    await ground.run("update jobs set state = 'queued' where state = 'scheduled'")


@pytest.mark.spec("P1", "P4", "E6")
async def test_a_file_is_queued_then_processing_then_completed_with_what_was_found(ground: Ground) -> None:
    await ground.project()
    file = await ground.add()
    (job,) = await ground.claim()
    shown = await ground.show(file["id"])
    assert (shown["state"], shown["attempts"], shown["error"]) == ("processing", 1, None)
    assert shown["started_at"] is not None
    assert (await ground.finish(job, pages=("Invoice 4711", "Thank you"))).done == {job.id}
    shown = await ground.show(file["id"])
    assert (shown["state"], shown["kind"], shown["unsupported"]) == ("completed", "document", None)
    assert (shown["summary"], shown["text"]) == ("An invoice over 12.50 EUR", result_of()["content"])
    assert shown["processed_at"] >= shown["started_at"]
    assert shown["duration_ms"] >= 0
    assert [page["image"] for page in shown["pages"]] == ["page-00001.webp", "page-00002.webp"]
    assert shown["models"] == ["rules@1"]
    (number, total) = shown["proposals"]
    assert {
        name: number[name] for name in ("field", "value", "unit", "confidence", "page", "state", "origin")
    } == {
        "field": "invoice_number",
        "value": "4711",
        "unit": "",
        "confidence": 0.9,
        "page": 1,
        "state": "pending",
        "origin": "rules@1",
    }
    assert number["box"] == pytest.approx([0.1, 0.2, 0.3, 0.4])
    assert (total["value"], total["unit"]) == ("12.50", "EUR")


@pytest.mark.spec("P3")
async def test_what_is_asked_for_travels_with_the_job(ground: Ground) -> None:
    await ground.project()
    file = await ground.add()
    (job,) = await ground.claim()
    payload = json.loads(job.payload_json)
    assert payload["file"] == {"stored": f"intake/files/{file['sha256'][:2]}/{file['sha256']}"}
    assert re.fullmatch(r"intake/outputs/\d{3}/\d+", payload["home"])
    assert payload["name"] == "invoice.txt"
    assert payload["fields"][1] == {
        "name": "total",
        "type": "amount",
        "label": "Total",
        "description": "",
        "unit": "EUR",
        "categories": [],
    }


@pytest.mark.spec("P3")
async def test_an_unsupported_file_is_completed_and_says_so(ground: Ground) -> None:
    await ground.project()
    file = await ground.add(content=b"\x7fELF" + bytes(100))
    (job,) = await ground.claim()
    told = result_of([], content="", kind="unsupported", unsupported="programs are not read")
    assert (await ground.finish(job, told)).done == {job.id}
    shown = await ground.show(file["id"])
    assert (shown["state"], shown["kind"], shown["unsupported"]) == (
        "completed",
        "unsupported",
        "programs are not read",
    )
    assert shown["proposals"] == []


@pytest.mark.spec("P2", "P4", "E7")
async def test_a_failed_attempt_queues_it_again_and_the_last_one_fails_it_with_the_error(
    ground: Ground,
) -> None:
    await ground.project()
    file = await ground.add()
    for attempt in (1, 2, 3):
        (job,) = await ground.claim(f"worker {attempt}")
        fate = await ground.fail(job, "network error")
        await come_due(ground)
        assert fate is (Fate.AGAIN if attempt < 3 else Fate.DEAD)
        shown = await ground.show(file["id"])
        assert shown["attempts"] == attempt
        if attempt < 3:
            assert (shown["state"], shown["error"], shown["started_at"]) == ("queued", "network error", None)
    assert (shown["state"], shown["error"]) == ("failed", "max_attempts_exhausted: network error")
    assert shown["processed_at"] is not None


@pytest.mark.spec("P4", "E7")
async def test_a_permanent_error_fails_it_at_once_and_long_errors_are_cut(ground: Ground) -> None:
    await ground.project()
    file = await ground.add()
    (job,) = await ground.claim()
    assert await ground.fail(job, "broken " * 200, permanent=True) is Fate.DEAD
    shown = await ground.show(file["id"])
    assert (shown["state"], len(shown["error"]), shown["attempts"]) == ("failed", 500, 1)


@pytest.mark.spec("P2", "E6")
async def test_a_job_that_is_handed_back_makes_its_file_queued(ground: Ground) -> None:
    await ground.project()
    file = await ground.add()
    (job,) = await ground.claim()
    await hand_back(ground.database, ground.engine, job.worker_id, [job])
    assert await ground.state(file["id"]) == ("queued", None)
    (again,) = await ground.claim("b")
    assert (await ground.finish(job)).lost == {job.id}
    assert await ground.state(file["id"]) == ("processing", None)
    assert (await ground.finish(again)).done == {again.id}


@pytest.mark.spec("P2")
async def test_files_are_claimed_in_the_order_of_their_arrival(ground: Ground) -> None:
    await ground.project()
    files = [await ground.add(content=bytes([number])) for number in range(6)]
    jobs = [job for _ in range(6) for job in await ground.claim()]
    assert [job.id for job in jobs] == [file["job_id"] for file in files]


BAD: dict[str, Any] = {
    "nothing": None,
    "a text": "done",
    "no text": {"kind": "document"},
    "no kind": {"content": "x"},
    "files of others": {**result_of(), "files": {"a": {"path": "videos/1/source", "bytes": 1}}},
    "files above": {**result_of(), "files": {"a": {"path": "intake/outputs/001/1-1-1/../x", "bytes": 1}}},
    "no paths": {**result_of(), "files": {"a": 1}},
}


@pytest.mark.spec("P4")
@pytest.mark.parametrize("bad", BAD)
async def test_a_result_that_makes_no_sense_completes_nothing(ground: Ground, bad: str) -> None:
    await ground.project()
    file = await ground.add()
    (job,) = await ground.claim()
    told = BAD[bad]
    settled = await ground.finish(job, told if told is not None else [])
    assert settled.failed[job.id].permanent is False
    assert (await ground.show(file["id"]))["state"] == "processing"
    assert await ground.proposals(file["id"]) == []
    assert await ground.fail(job, settled.failed[job.id].error) is Fate.AGAIN
    assert (await ground.show(file["id"]))["state"] == "queued"


@pytest.mark.spec("P3", "P4")
async def test_of_a_result_only_what_makes_sense_is_kept(ground: Ground) -> None:
    await ground.project()
    file = await ground.add()
    (job,) = await ground.claim()
    odd: list[Any] = [
        found("nobody_asked", "x"),
        found("due", "soon"),
        found("due", "31.12.2024"),
        found("weight", "1 234,5", confidence=7, page=-1, box=[0, 0, 2, "x"]),
        found("paid", "maybe"),
        found("invoice_number", "a\0\n b", confidence="high", quote=None),
        *(found("total", f"{number}") for number in range(5)),
        found("total", "0"),
        "?",
        None,
    ]
    pages = [{"number": 1, "image": "../../secret"}, {"number": "x"}, 7]
    told = result_of(odd, pages=pages, mime_type="text/x;<script>", facts=[1], tags={"a": 1}, summary=None)
    assert (await ground.finish(job, told)).done == {job.id}
    shown = await ground.show(file["id"])
    values = [(one["field"], one["value"]) for one in shown["proposals"]]
    assert values == [
        ("invoice_number", "a� b"),
        ("total", "0"),
        ("total", "1"),
        ("total", "2"),
        ("due", "2024-12-31"),
        ("weight", "1234.5"),
    ]
    weight = shown["proposals"][-1]
    assert (weight["confidence"], weight["page"], weight["box"]) == (1.0, None, None)
    assert shown["proposals"][0]["confidence"] == 0.0
    assert shown["pages"] == [{"number": 1, "width": None, "height": None, "image": None, "label": "Page 1"}]
    assert (shown["mime_type"], shown["facts"], shown["tags"]) == ("text/plain", {}, [])


@pytest.mark.spec("P4", "E13")
async def test_a_dead_job_can_be_requeued_while_a_file_waits_for_it(ground: Ground) -> None:
    await ground.project()
    file = await ground.add()
    (job,) = await ground.claim()
    await ground.fail(job, "no", permanent=True)
    async with ground.database.transaction() as connection:
        assert await requeue_dead(connection, ground.engine, [job.id]) == [job.id]
    shown = await ground.show(file["id"])
    assert (shown["state"], shown["attempts"], shown["error"]) == ("queued", 0, None)
    (job,) = await ground.claim()
    assert (await ground.finish(job)).done == {job.id}
    assert await ground.state(file["id"]) == ("completed", None)


@pytest.mark.spec("P5", "E13")
async def test_a_dead_job_is_not_requeued_when_its_files_have_moved_on(ground: Ground) -> None:
    await ground.project()
    file, stays = await ground.add(), await ground.add()
    (job,) = await ground.claim()
    await ground.fail(job, "no", permanent=True)
    await ground.again(file["id"])
    async with ground.database.transaction() as connection:
        await delete_file(connection, stays["id"])
    assert await ground.one("select count(*) from dead_jobs") == 0, "nobody needs it any more"
    (job,) = await ground.claim()
    await ground.fail(job, "no", permanent=True)
    await ground.run("update analyses set state = 'completed'")
    async with ground.database.transaction() as connection:
        with pytest.raises(OutdatedJobError):
            await requeue_dead(connection, ground.engine, [job.id])


@pytest.mark.spec("P4")
async def test_a_job_that_is_thrown_away_fails_its_file(ground: Ground) -> None:
    await ground.project()
    file = await ground.add()
    async with ground.database.transaction() as connection:
        await purge_jobs(connection, ground.engine, [file["job_id"]])
    assert await ground.state(file["id"]) == ("failed", "purged")
    assert (await ground.again(file["id"]))["done"]
    assert (await ground.show(file["id"]))["state"] == "queued"


@pytest.mark.spec("E6")
async def test_a_job_whose_files_go_while_it_is_claimed_begins_nothing(ground: Ground) -> None:
    await ground.project()
    file = await ground.add()
    await ground.run("update analyses set job_id = null")  # as if another had taken its place in this moment
    assert await ground.claim() == []
    assert await ground.one("select reason from dead_jobs") == "permanent"
    assert (await ground.show(file["id"]))["state"] == "queued"


@pytest.mark.spec("P1", "E31")
async def test_every_move_is_told_to_the_listeners(ground: Ground) -> None:
    await ground.project()
    file_id = await ground.done()
    async with ground.database.transaction() as connection:
        await delete_file(connection, file_id)
    states = await ground.one(
        "select array_agg(data ->> 'state' order by id) from events where topic = 'file.changed' and subject = $1",
        str(file_id),
    )
    assert states == ["queued", "processing", "completed", "gone"]
    assert (
        await ground.one("select distinct data ->> 'project' from events where topic = 'file.changed'")
        == "invoices"
    )


@pytest.mark.spec("P7")
async def test_the_log_says_what_happened_to_each_file(
    ground: Ground, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "mediamill.intake")
    await ground.project()
    file = await ground.add()
    twin = await ground.add()
    (job,) = await ground.claim()
    await ground.fail(job, "network error")
    await come_due(ground)
    (job,) = await ground.claim()
    await ground.finish(job)
    broken = await ground.add(content=b"broken")
    (job,) = await ground.claim()
    await ground.fail(job, "empty document", permanent=True)
    ours = [one for one in caplog.records if one.name == "mediamill.intake.jobs"]
    lines = [re.sub(r"duration_ms=\d+", "duration_ms=N", one.getMessage()) for one in ours]
    both = [file["id"], twin["id"]]
    assert lines == [
        *(f"file_processing_started file={id_} project=invoices attempt=1 is_retry=False" for id_ in both),
        *(
            f"file_processing_retry file={id_} project=invoices attempt=1 duration_ms=N reason='network error'"
            for id_ in both
        ),
        *(f"file_processing_started file={id_} project=invoices attempt=2 is_retry=True" for id_ in both),
        *(f"file_processing_completed file={id_} project=invoices attempt=2 duration_ms=N" for id_ in both),
        f"file_processing_started file={broken['id']} project=invoices attempt=1 is_retry=False",
        f"file_processing_failed file={broken['id']} project=invoices attempt=1 duration_ms=N "
        "permanent=True attempts_exhausted=False reason='empty document'",
    ]
    assert {one.levelname for one in ours} == {"INFO", "WARNING", "ERROR"}


@pytest.mark.spec("P7", "P4")
async def test_a_completion_that_is_undone_is_not_logged(
    ground: Ground, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "mediamill.intake")
    await ground.project()
    await ground.add()
    (job,) = await ground.claim()
    await ground.run("alter table search_entries add constraint no check (title <> 'invoice.txt')")
    assert job.id in (await ground.finish(job)).failed
    assert not [one for one in caplog.records if "completed" in one.getMessage()]
    assert await ground.one("select state from analyses") == "processing"
