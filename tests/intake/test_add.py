"""Files come in: streamed, hashed, bounded; twins share one analysis, also when they arrive at once."""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from mediamill.intake.add import take_file, take_in
from mediamill.intake.look import file_source, list_files, page_image, thumbnail
from mediamill.intake.model import BadListError, NoSuchPageError, UnknownFileError, blob_name
from mediamill.intake.receive import UnreadableFileError
from mediamill.staging.put import UploadTooLargeError
from tests.intake.played import INVOICE, Ground

SHA = hashlib.sha256(INVOICE)


@pytest.mark.spec("P1", "E1")
async def test_a_file_is_queued_with_its_job_and_its_hash(ground: Ground) -> None:
    await ground.project()
    file = await ground.add()
    assert (file["state"], file["attempts"], file["started_at"], file["processed_at"]) == (
        "queued",
        0,
        None,
        None,
    )
    assert (file["sha256"], file["bytes"]) == (SHA.hexdigest(), len(INVOICE))
    assert (file["mime_type"], file["name"], file["twin_of"]) == ("text/plain", "invoice.txt", None)
    assert await ground.one("select kind from jobs where id = $1", file["job_id"]) == "file.analyse"
    assert await ground.one("select pool from jobs") == "intake"
    async with ground.database.connection() as connection:
        path, mime_type, name = await file_source(connection, file["id"])
    assert ((ground.data / path).read_bytes(), mime_type, name) == (INVOICE, "text/plain", "invoice.txt")
    assert path == blob_name(SHA.digest())


@pytest.mark.spec("P1")
async def test_a_file_of_this_machine_is_taken_by_its_path(ground: Ground, tmp_path: Path) -> None:
    await ground.project()
    source = tmp_path / "bill.txt"
    source.write_bytes(INVOICE)
    file = await take_file(ground.database, ground.enqueuer, ground.settings, "invoices", source)
    assert (file["name"], file["sha256"]) == ("bill.txt", SHA.hexdigest())
    for bad in (tmp_path / "nothing", tmp_path):
        with pytest.raises(UnreadableFileError):
            await take_file(ground.database, ground.enqueuer, ground.settings, "invoices", bad)


@pytest.mark.spec("P1")
async def test_an_empty_file_is_taken_in(ground: Ground) -> None:
    await ground.project()
    file = await ground.add(content=b"")
    assert (file["state"], file["bytes"]) == ("queued", 0)


@pytest.mark.spec("P1")
@pytest.mark.parametrize("announced", [None, 101])
async def test_a_file_that_is_too_large_is_refused_and_leaves_nothing(
    ground: Ground, announced: int | None
) -> None:
    await ground.project()
    small = Ground.on(ground.database, ground.data, upload_limit_bytes=100)
    with pytest.raises(UploadTooLargeError):
        await small.add(content=bytes(101), announced_bytes=announced)
    assert [path for path in (ground.data / "intake").rglob("*") if path.is_file()] == []
    assert await ground.one("select count(*) from analyses") == 0


@pytest.mark.spec("P1")
async def test_a_stream_that_breaks_off_leaves_nothing(ground: Ground) -> None:
    await ground.project()

    async def breaking() -> AsyncIterator[bytes]:
        yield b"some"
        raise ConnectionResetError

    with pytest.raises(ConnectionResetError):
        await take_in(ground.database, ground.enqueuer, ground.settings, "invoices", "a", breaking())
    assert [path for path in (ground.data / "intake").rglob("*") if path.is_file()] == []
    assert await ground.one("select count(*) from jobs") == 0


@pytest.mark.spec("P5")
async def test_the_twin_of_an_analysed_file_is_completed_at_once_without_a_job(ground: Ground) -> None:
    await ground.project()
    await ground.project("Others")
    first = await ground.done()
    twin = await ground.add("others", name="copy.txt")
    assert (twin["state"], twin["twin_of"], twin["project"]) == ("completed", first, "others")
    assert await ground.one("select count(*) from jobs") == 0
    assert twin["text"] == (await ground.show(first))["text"]
    assert await ground.proposals(twin["id"]) == await ground.proposals(first)
    async with ground.database.connection() as connection:
        assert (ground.data / await page_image(connection, twin["id"], 2)).read_bytes() == b"picture"
        assert (ground.data / await thumbnail(connection, twin["id"])).read_bytes() == b"small"
        with pytest.raises(NoSuchPageError):
            await page_image(connection, twin["id"], 3)
    assert len([path for path in (ground.data / "intake" / "files").rglob("*") if path.is_file()]) == 1


@pytest.mark.spec("P5")
async def test_a_twin_of_a_file_that_is_being_analysed_is_completed_with_it(ground: Ground) -> None:
    await ground.project()
    waiting, job_of = await ground.add(), None
    queued = await ground.add(name="queued.txt")
    (job_of,) = await ground.claim()
    processing = await ground.add(name="processing.txt")
    assert [file["twin_of"] for file in (queued, processing)] == [waiting["id"]] * 2
    assert processing["state"] == "processing"
    assert (await ground.finish(job_of)).done == {job_of.id}
    for file in (waiting, queued, processing):
        assert (await ground.show(file["id"]))["state"] == "completed"
        assert len(await ground.proposals(file["id"], "pending")) == 2
    assert await ground.one("select count(*) from finished_jobs") == 1


@pytest.mark.spec("P5")
async def test_a_twin_of_a_failed_file_is_tried_anew(ground: Ground) -> None:
    await ground.project()
    failed = await ground.add()
    (job,) = await ground.claim()
    await ground.fail(job, "damaged", permanent=True)
    twin = await ground.add()
    assert (twin["state"], twin["generation"]) == ("queued", 2)
    (job,) = await ground.claim()
    assert (await ground.finish(job)).done == {job.id}
    assert await ground.state(twin["id"]) == ("completed", None)
    assert await ground.state(failed["id"]) == ("failed", "damaged")


@pytest.mark.spec("P5")
async def test_the_same_content_with_other_fields_is_analysed_for_itself(ground: Ground) -> None:
    await ground.project()
    await ground.project("Others", fields=())
    await ground.done()
    other = await ground.add("others")
    assert (other["state"], other["twin_of"]) == ("queued", None)


@pytest.mark.spec("P5")
@pytest.mark.parametrize("state", ["new", "failed"])
async def test_twins_that_arrive_at_once_are_analysed_once(ground: Ground, state: str) -> None:
    await ground.project()
    await ground.project("Others")
    if state == "failed":
        await ground.add()
        (job,) = await ground.claim()
        await ground.fail(job, "damaged", permanent=True)
    files = await asyncio.gather(*(ground.add(slug) for slug in ("invoices", "others") * 8))
    assert await ground.one("select count(*) from jobs") == 1
    assert sum(file["twin_of"] is None for file in files) == 1
    (job,) = await ground.claim()
    assert (await ground.finish(job)).done == {job.id}
    assert {(await ground.show(file["id"]))["state"] for file in files} == {"completed"}
    assert {len(await ground.proposals(file["id"])) for file in files} == {2}


@pytest.mark.spec("P5")
async def test_twins_that_arrive_while_the_first_is_completed_all_get_its_proposals(ground: Ground) -> None:
    await ground.project()
    await ground.add()
    (job,) = await ground.claim()
    settled, *files = await asyncio.gather(ground.finish(job), *(ground.add() for _ in range(12)))
    assert settled.done == {job.id}
    for file in files:
        assert (await ground.show(file["id"]))["state"] == "completed"
        assert len(await ground.proposals(file["id"])) == 2
    assert await ground.one("select count(*) from jobs") == 0


@pytest.mark.spec("P1")
async def test_files_are_listed_page_by_page_the_newest_first(ground: Ground) -> None:
    await ground.project()
    ids = [(await ground.add(content=str(number).encode()))["id"] for number in range(5)]
    await ground.claim()
    async with ground.database.connection() as connection:
        first = await list_files(connection, ground.settings, "invoices", amount=3)
        rest = await list_files(connection, ground.settings, "invoices", amount=3, after=first["next"])
        processing = await list_files(connection, ground.settings, "invoices", state="processing")
        for bad in ({"state": "asleep"}, {"amount": 0}, {"after": "x"}, {"after": "9" * 30}):
            with pytest.raises(BadListError):
                await list_files(connection, ground.settings, "invoices", **bad)
        with pytest.raises(UnknownFileError):
            await file_source(connection, 10**9)
    assert [file["id"] for file in first["files"] + rest["files"]] == ids[::-1]
    assert rest["next"] is None
    assert [file["id"] for file in processing["files"]] == ids[:1]
    assert first["files"][0]["counts"] == {"pending": 0, "accepted": 0, "rejected": 0}
