"""Once more: what is finished is left alone unless forced; what failed or is outdated is not; decisions stay."""

from __future__ import annotations

import asyncio

import pytest

from mediamill.engine.model import Priority
from mediamill.engine.priority import NotWaitingError
from mediamill.intake.again import delete_file, reprocess_project, set_file_priority
from mediamill.intake.fields import set_fields
from mediamill.intake.look import list_files
from mediamill.intake.model import BadListError, Field, UnknownFileError
from mediamill.intake.proposals import accept, reject
from tests.conftest import wait_until
from tests.intake.played import FIELDS, Ground, found, result_of

NEW = [found("invoice_number", "4712"), found("total", "12.50"), found("due", "2024-12-31")]


async def delete(ground: Ground, file_id: int) -> None:
    async with ground.database.transaction() as connection:
        await delete_file(connection, file_id)


@pytest.mark.spec("P5")
async def test_a_reprocess_of_a_finished_file_is_a_no_op(ground: Ground) -> None:
    await ground.project()
    file_id = await ground.done()
    before = await ground.show(file_id)
    again = await ground.again(file_id)
    assert (again["done"], again["file"]) == (False, before)
    assert "finished" in again["why"]
    assert await ground.one("select count(*) from jobs") == 0


@pytest.mark.spec("P5")
async def test_one_that_is_being_analysed_is_left_alone_even_if_forced(ground: Ground) -> None:
    await ground.project()
    file = await ground.add()
    for _ in ("queued", "processing"):
        for force in (False, True):
            assert (await ground.again(file["id"], force=force))["done"] is False
        await ground.claim()
    assert await ground.one("select count(*) from analyses") == 1


@pytest.mark.spec("V17")
async def test_what_is_analysed_again_does_not_delay_a_new_file_unless_somebody_says_so(
    ground: Ground,
) -> None:
    await ground.project()
    old = [await ground.done(content=content) for content in (b"one", b"two")]
    await reprocess_project(ground.database, ground.enqueuer, ground.settings, "invoices", force=True)
    new = await ground.add(content=b"three")
    async with ground.database.transaction() as connection:
        await set_file_priority(connection, old[1], Priority.HIGH)
    assert (await ground.show(old[1]))["priority"] == "high"
    claimed = [(await ground.claim())[0].id for _ in range(3)]
    assert claimed == [(await ground.show(one))["job_id"] for one in (old[1], new["id"], old[0])]
    async with ground.database.transaction() as connection:
        with pytest.raises(NotWaitingError):
            await set_file_priority(connection, new["id"], Priority.HIGH)


@pytest.mark.spec("P5", "P6")
async def test_a_forced_reprocess_analyses_anew_and_keeps_what_a_person_decided(ground: Ground) -> None:
    await ground.project()
    file_id = await ground.done()
    twin = await ground.add()
    async with ground.database.transaction() as connection:
        await accept(connection, await ground.proposal(file_id, "invoice_number"))
        await reject(connection, await ground.proposal(file_id, "total"))
    assert (await ground.again(file_id, force=True))["done"] is True
    assert (await ground.show(file_id))["state"] == "queued"
    assert len(await ground.proposals(file_id)) == 2, "decisions stay while it is analysed"
    (job,) = await ground.claim()
    assert (await ground.finish(job, result_of(NEW))).done == {job.id}
    assert await ground.proposals(file_id) == [
        ("invoice_number", "4711", "accepted"),
        ("total", "12.50", "rejected"),
        ("invoice_number", "4712", "pending"),
        ("due", "2024-12-31", "pending"),
    ]
    assert await ground.proposals(twin["id"]) == [
        ("invoice_number", "4711", "pending"),
        ("total", "12.50", "pending"),
    ], "the twin was not asked for"
    newest = await ground.add()
    assert (newest["state"], newest["generation"]) == ("completed", 2)
    assert ("due", "2024-12-31", "pending") in await ground.proposals(newest["id"])


@pytest.mark.spec("P6")
async def test_an_edited_value_is_not_proposed_again_and_pending_ones_are_replaced(ground: Ground) -> None:
    await ground.project()
    file_id = await ground.done()
    async with ground.database.transaction() as connection:
        await accept(connection, await ground.proposal(file_id, "invoice_number"), "4712")
    await ground.again(file_id, force=True)
    (job,) = await ground.claim()
    fields = [found("invoice_number", "4711"), found("invoice_number", "4712"), found("total", "13")]
    await ground.finish(job, result_of(fields))
    assert await ground.proposals(file_id) == [
        ("invoice_number", "4712", "accepted"),
        ("total", "13", "pending"),
    ]


@pytest.mark.spec("P6")
async def test_a_forced_reprocess_that_fails_leaves_what_was_proposed(ground: Ground) -> None:
    await ground.project()
    file_id = await ground.done()
    await ground.again(file_id, force=True)
    (job,) = await ground.claim()
    await ground.fail(job, "no", permanent=True)
    assert (await ground.show(file_id))["state"] == "failed"
    assert len(await ground.proposals(file_id, "pending")) == 2
    assert (await ground.again(file_id))["done"]


@pytest.mark.spec("E32", "P5")
async def test_a_file_that_fails_again_and_again_raises_an_alert_of_the_pattern(ground: Ground) -> None:
    object.__setattr__(ground.engine, "alerts_on", True)
    types = "select array_agg(type order by id) from alerts"
    await ground.project()
    file, subjects = await ground.add(), set()
    for failures in (1, 2, 3, 4):
        (job,) = await ground.claim()
        subjects.add(job.subject_id)
        await ground.fail(job, "it is damaged", permanent=True)
        assert await ground.one(types) == ["job_failed", *(["job_failed_pattern"] if failures == 4 else [])]
        assert (await ground.again(file["id"]))["done"]
    assert len(subjects) == 4, "every try is another analysis"


@pytest.mark.spec("P5")
async def test_after_a_forced_try_that_failed_a_new_twin_takes_what_there_is(ground: Ground) -> None:
    await ground.project()
    file_id = await ground.done()
    await ground.add()
    await ground.again(file_id, force=True)
    (job,) = await ground.claim()
    await ground.fail(job, "no", permanent=True)
    newest = await ground.add()
    assert (newest["state"], newest["generation"]) == ("completed", 1)
    again = await ground.again(file_id)
    assert (again["done"], again["file"]["state"]) == (True, "completed")
    assert await ground.one("select count(*) from jobs") == 0


@pytest.mark.spec("P5")
async def test_twins_that_are_forced_at_once_share_the_new_analysis(ground: Ground) -> None:
    await ground.project()
    ids = [await ground.done(), *[(await ground.add())["id"] for _ in range(5)]]
    tried = await asyncio.gather(*(ground.again(file_id, force=True) for file_id in ids))
    assert all(one["done"] for one in tried)
    assert await ground.one("select count(*) from jobs") == 1
    assert await ground.one("select array_agg(generation) from analyses") == [2], "nobody has the old one"


@pytest.mark.spec("P1")
async def test_files_of_another_catalog_are_outdated_until_they_are_reprocessed(ground: Ground) -> None:
    await ground.project()
    file_id = await ground.done()
    async with ground.database.transaction() as connection:
        await set_fields(connection, "invoices", [*FIELDS, Field("vendor")])
    shown = await ground.show(file_id)
    assert (shown["outdated"], shown["state"]) == (True, "completed")
    again = await ground.again(file_id)
    assert (again["done"], again["file"]["outdated"], again["file"]["state"]) == (True, False, "queued")
    assert await ground.one("select count(*) from analyses") == 1
    (job,) = await ground.claim()
    await ground.finish(job, result_of([found("vendor", "Ada & Co")]))
    assert ("vendor", "Ada & Co", "pending") in await ground.proposals(file_id)


@pytest.mark.spec("P1")
async def test_files_of_another_extractor_are_outdated_until_they_are_reprocessed(ground: Ground) -> None:
    await ground.project()
    file_id = await ground.done()
    now = Ground.on(ground.database, ground.data, text="openai", openai_url="http://127.0.0.1:9/v1")
    async with ground.database.connection() as connection:
        (listed,) = (await list_files(connection, now.settings, "invoices"))["files"]
    assert (listed["outdated"], (await now.show(file_id))["outdated"]) == (True, True)
    assert (await ground.show(file_id))["outdated"] is False
    again = await now.again(file_id)
    assert (again["done"], again["file"]["outdated"], again["file"]["state"]) == (True, False, "queued")
    assert (await ground.show(file_id))["outdated"] is True


@pytest.mark.spec("P5")
async def test_a_file_gets_another_catalogs_analysis_from_its_twin(ground: Ground) -> None:
    await ground.project()
    await ground.project("Plain", fields=())
    file_id = await ground.done()
    await ground.done("plain")
    async with ground.database.transaction() as connection:
        await set_fields(connection, "invoices", [])
    again = await ground.again(file_id)
    assert (again["done"], again["file"]["state"]) == (True, "completed")
    assert "same content" in again["why"]


@pytest.mark.spec("P5")
async def test_all_that_failed_in_a_project_is_tried_again(ground: Ground) -> None:
    await ground.project()
    await ground.done(content=b"good")
    for content in (b"1", b"2"):
        await ground.add(content=content)
        (job,) = await ground.claim()
        await ground.fail(job, "no", permanent=True)
    given = (ground.database, ground.enqueuer, ground.settings, "invoices")
    assert await reprocess_project(*given, state="failed") == {"files": 2, "started": 2}
    assert await reprocess_project(*given) == {"files": 3, "started": 0}
    assert await reprocess_project(*given, force=True) == {"files": 3, "started": 1}
    with pytest.raises(BadListError):
        await reprocess_project(*given, state="asleep")


@pytest.mark.spec("P1")
async def test_a_deleted_file_is_gone_with_its_job_but_not_with_what_its_twin_has(ground: Ground) -> None:
    await ground.project()
    first, twin = await ground.add(), await ground.add()
    await delete(ground, first["id"])
    assert await ground.one("select count(*) from jobs") == 1
    assert (await ground.show(twin["id"]))["twin_of"] is None
    await delete(ground, twin["id"])
    assert await ground.one("select count(*) from jobs") == 0
    assert await ground.one("select count(*) from analyses") == 0
    with pytest.raises(UnknownFileError):
        await delete(ground, twin["id"])


@pytest.mark.spec("P5")
async def test_deleting_and_adding_twins_at_once_leaves_no_file_without_its_analysis(ground: Ground) -> None:
    await ground.project()
    for _ in range(5):
        first = await ground.add()
        _, file = await asyncio.gather(delete(ground, first["id"]), ground.add())
        shown = await ground.show(file["id"])
        assert shown["state"] == "queued"
        assert await ground.one("select count(*) from jobs where id = $1", shown["job_id"]) == 1
        await delete(ground, file["id"])


@pytest.mark.spec("P5")
async def test_a_whole_project_is_gone_through_in_whatever_batches(
    ground: Ground, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("mediamill.intake.again.BATCH", 2)
    await ground.project()
    for number in range(5):
        await ground.done(content=bytes([number]))
    given = (ground.database, ground.enqueuer, ground.settings, "invoices")
    assert await reprocess_project(*given) == {"files": 5, "started": 0}
    assert await reprocess_project(*given, force=True) == {"files": 5, "started": 5}


@pytest.mark.spec("P5")
async def test_each_answer_says_what_happened_or_why_nothing_did(ground: Ground) -> None:
    await ground.project()
    file = await ground.add()
    told = [(await ground.again(file["id"]))["why"]]
    (job,) = await ground.claim()
    await ground.fail(job, "no", permanent=True)
    told.append((await ground.again(file["id"]))["why"])
    (job,) = await ground.claim()
    await ground.finish(job)
    told.append((await ground.again(file["id"]))["why"])
    told.append((await ground.again(file["id"], force=True))["why"])
    async with ground.database.transaction() as connection:
        await set_fields(connection, "invoices", [])
    told.append((await ground.again(file["id"], force=True))["why"])
    assert told == [
        "it is being analysed already",
        "it failed, and is tried again",
        "it is finished and up to date",
        "it is analysed anew",
        "it is analysed with the fields and by the extractor of now",
    ]


@pytest.mark.spec("P5")
async def test_a_forced_file_with_other_fields_is_not_given_what_its_twin_has(ground: Ground) -> None:
    await ground.project()
    await ground.project("Plain", fields=())
    file_id = await ground.done()
    await ground.done("plain")
    async with ground.database.transaction() as connection:
        await set_fields(connection, "invoices", [])
    again = await ground.again(file_id, force=True)
    assert (again["done"], again["file"]["state"]) == (True, "queued")


async def test_a_deleted_file_waits_for_the_analysis_that_is_being_settled(ground: Ground) -> None:
    await ground.project()
    file = await ground.add()
    async with ground.database.transaction() as connection:
        await connection.execute("select from analyses for update")
        deleting = asyncio.create_task(delete(ground, file["id"]))
        waits = "select count(*) from pg_stat_activity where wait_event_type = 'Lock' and datname = current_database()"
        await wait_until(lambda: ground.one(waits))
        assert await ground.one("select count(*) from project_files") == 1
    await deleting
    assert await ground.one("select count(*) from analyses") == 0
