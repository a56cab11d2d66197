"""Images that come before their text: in order, within limits, taken once, and gone after three days."""

from __future__ import annotations

import asyncio
import logging
import re
from dataclasses import replace
from pathlib import Path
from uuid import UUID

import pytest

import mediamill
from mediamill.inputs.accept import lock_scope
from mediamill.inputs.model import MAX_IMAGE_BYTES, ImageBufferError, ImageBytesError, Scope
from mediamill.inputs.pending import drop_pending, save_pending
from tests.conftest import wait_until
from tests.inputs.conftest import ANN, API, Bench

PLACES = "select position from input_images where run_id is null order by position, input_image_id"
BOB = replace(ANN, user_key="bob")
BIG = b"\1" * (MAX_IMAGE_BYTES // 2)


async def run_of(bench: Bench, scope: Scope = ANN) -> UUID:
    return (await bench.accept(scope=scope, claim=True)).run.run_id


@pytest.mark.spec("I5", "I8")
async def test_images_wait_in_their_order_and_the_next_text_takes_them(bench: Bench) -> None:
    contents = [b"%d" % n for n in range(5)]
    for number, content in enumerate(contents, 1):
        saved = await bench.save(bench.image(content), group="album")
        assert (saved.count, saved.bytes, saved.run_id) == (number, number, None)
    run = (await bench.accept(scope=ANN, claim=True)).run
    assert (run.image_count, run.image_bytes, run.images_waiting) == (5, 5, 5)
    assert await bench.contents(run.run_id) == contents
    assert (await bench.accept(scope=ANN, claim=True)).run.image_count == 0


@pytest.mark.spec("I5")
async def test_images_at_once_get_each_a_place_of_its_own_without_gaps(bench: Bench) -> None:
    people = [replace(ANN, user_key=f"user {n}") for n in range(5)]
    saved = await asyncio.gather(*(bench.save(scope=people[n % 5]) for n in range(50)))
    assert sorted(each.count for each in saved) == sorted([*range(1, 11)] * 5)
    for person in people:
        places = await bench.rows(PLACES.replace("where", "where user_key = $1 and"), person.user_key)
        assert places == [(n,) for n in range(10)]


@pytest.mark.spec("I5", "I8")
async def test_fifty_images_at_once_for_one_person_keep_to_the_limit(bench: Bench) -> None:
    outcomes = await asyncio.gather(*(bench.save() for _ in range(50)), return_exceptions=True)
    refused = [each for each in outcomes if isinstance(each, BaseException)]
    assert len(refused) == 40
    assert all(isinstance(each, ImageBufferError) for each in refused)
    assert await bench.rows(PLACES) == [(n,) for n in range(10)]


@pytest.mark.spec("I5")
async def test_images_with_one_place_are_read_by_their_id(bench: Bench) -> None:
    run_id = (await bench.accept([bench.image(), bench.image(), bench.image()])).run.run_id
    await bench.run("update input_images set position = 0")
    rows = await bench.rows("select image_bytes from input_images order by input_image_id")
    assert await bench.contents(run_id) == [row[0] for row in rows]


@pytest.mark.spec("I2", "I8")
async def test_ten_images_may_wait_and_an_eleventh_may_not(bench: Bench) -> None:
    for _ in range(10):
        await bench.save()
    with pytest.raises(ImageBufferError) as caught:
        await bench.save()
    assert caught.value.code == "image_buffer_limit_exceeded"
    assert await bench.one("select count(*) from input_images") == 10
    await run_of(bench)
    assert (await bench.save()).count == 1


@pytest.mark.spec("I2", "I8")
async def test_fifty_mebibytes_may_wait_and_not_a_byte_more(bench: Bench) -> None:
    half = bench.image(BIG)
    await bench.save(half)
    assert (await bench.save(half)).bytes == MAX_IMAGE_BYTES
    with pytest.raises(ImageBufferError):
        await bench.save(bench.image(b"1"))
    with pytest.raises(ImageBytesError):
        await bench.save(replace(half, byte_size=MAX_IMAGE_BYTES + 1), scope=BOB)
    assert (await bench.accept(scope=ANN, claim=True)).run.image_bytes == MAX_IMAGE_BYTES


@pytest.mark.spec("I8")
@pytest.mark.parametrize(
    "other",
    [
        BOB,
        replace(ANN, thread_key="another"),
        replace(ANN, source="elsewhere"),
        replace(ANN, user_key=None),
        replace(ANN, user_key=""),
    ],
)
async def test_other_people_threads_and_sources_do_not_mix(bench: Bench, other: Scope) -> None:
    await bench.save(bench.image(b"ann's"), group="album")
    assert (await bench.save(bench.image(b"other's"), scope=other, group="album")).count == 1
    assert await bench.contents(await run_of(bench, other)) == [b"other's"]
    assert await bench.contents(await run_of(bench)) == [b"ann's"]


@pytest.mark.spec("I8")
async def test_late_images_do_not_join_the_run_of_another_person(bench: Bench) -> None:
    await bench.save(group="album")
    await run_of(bench)
    for other in (BOB, replace(ANN, user_key=None), replace(ANN, thread_key="another")):
        assert (await bench.save(scope=other, group="album")).run_id is None


@pytest.mark.spec("I8")
async def test_images_of_nobody_in_particular_wait_and_are_taken_too(bench: Bench) -> None:
    nobody = Scope("cli", "thread")
    await bench.save(bench.image(b"x"), scope=nobody)
    assert await bench.contents(await run_of(bench, nobody)) == [b"x"]


@pytest.mark.spec("I8")
async def test_a_text_that_does_not_claim_leaves_them(bench: Bench) -> None:
    await bench.save(scope=API)
    assert (await bench.accept(scope=API)).run.image_count == 0
    assert await bench.rows(PLACES) == [(0,)]


@pytest.mark.spec("I5", "I8")
async def test_late_images_of_an_album_join_its_run_while_that_has_not_begun(bench: Bench) -> None:
    await bench.save(bench.image(b"1"), group="album")
    await bench.save(bench.image(b"2"), group="album")
    run_id = await run_of(bench)
    saved = await bench.save(bench.image(b"3"), group="album")
    assert (saved.run_id, saved.count) == (run_id, 0)
    await bench.save(bench.image(b"4"), group="album")
    assert await bench.contents(run_id) == [b"1", b"2", b"3", b"4"]
    assert await bench.rows("select image_count, image_bytes from runs") == [(4, 4)]
    assert await bench.rows(PLACES) == []


@pytest.mark.spec("I8")
@pytest.mark.parametrize("state", ["running", "completed", "failed", "retried", "put back"])
async def test_late_images_of_an_album_wait_when_its_run_has_begun(bench: Bench, state: str) -> None:
    await bench.save(group="album")
    run_id = await run_of(bench)
    tries = await bench.start(run_id)
    if state == "completed":
        await bench.finish(run_id, tries)
    elif state == "put back":
        await bench.run("update runs set state = 'queued'")
    elif state != "running":
        await bench.fail(run_id, tries)
    if state == "retried":
        await bench.run("update runs set state = 'queued'")
    saved = await bench.save(group="album")
    assert (saved.run_id, saved.count) == (None, 1)
    assert await bench.one("select image_count from runs") == 1


@pytest.mark.spec("I2", "I8")
async def test_late_images_that_a_run_has_no_room_for_wait_for_the_next_text(bench: Bench) -> None:
    for _ in range(10):
        await bench.save(group="album")
    full = await run_of(bench)
    assert (await bench.save(group="album")).run_id is None
    following = await run_of(bench)
    assert following != full
    assert await bench.rows("select image_count from runs order by sequence") == [(10,), (1,)]
    assert (await bench.save(group="album")).run_id == following


@pytest.mark.spec("I8")
async def test_images_of_another_album_or_of_none_wait(bench: Bench) -> None:
    await bench.save(group="album")
    await run_of(bench)
    assert (await bench.save(group="another")).run_id is None
    assert (await bench.save()).run_id is None


@pytest.mark.spec("I8")
async def test_a_person_can_have_what_waits_forgotten(bench: Bench) -> None:
    await bench.save()
    await bench.save()
    await bench.save(scope=BOB)
    run_id = (await bench.accept([bench.image()], scope=ANN)).run.run_id
    for expected in (2, 0):
        async with bench.database.transaction() as connection:
            assert await drop_pending(connection, ANN) == expected
    assert len(await bench.contents(run_id)) == 1
    assert await bench.rows(PLACES) == [(0,)]


@pytest.mark.spec("I7")
async def test_both_kinds_of_images_have_three_days(bench: Bench) -> None:
    await bench.save()
    await bench.accept([bench.image()])
    left = "select run_id is null, expires_at - created_at = interval '3 days' from input_images"
    assert sorted(await bench.rows(left)) == [(False, True), (True, True)]


@pytest.mark.spec("I7", "I8")
async def test_a_claim_begins_the_three_days_anew(bench: Bench) -> None:
    await bench.save()
    await bench.run("update input_images set expires_at = now() + interval '1 minute'")
    await run_of(bench)
    assert await bench.one("select expires_at > now() + interval '71 hours' from input_images")


@pytest.mark.spec("I7")
@pytest.mark.parametrize("ingest", ["image", "message", "repeated message", "late image"])
async def test_what_has_expired_goes_with_the_next_that_comes(
    bench: Bench, ingest: str, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "mediamill.inputs")
    await bench.accept(idempotency_key="k", payload_hash="h")
    late = replace(ANN, thread_key="late")
    await bench.save(scope=late, group="album")
    await run_of(bench, late)
    await bench.save(bench.image(b"pending"))
    run_id = (await bench.accept([bench.image(b"bound")])).run.run_id
    await bench.expire("thread_key <> 'late'")
    caplog.clear()
    if ingest == "image":
        await bench.save(scope=BOB)
    elif ingest == "late image":
        assert (await bench.save(scope=late, group="album")).run_id
    elif ingest == "message":
        await bench.accept()
    else:
        assert (await bench.accept(idempotency_key="k", payload_hash="h")).repeated
    assert await bench.one("select count(*) from input_images where expires_at <= now()") == 0
    warnings = [record.message for record in caplog.records if record.levelno == logging.WARNING]
    assert warnings == [f"images_purged_expired_bound_count=1 source=api thread_key='thread' run_id={run_id}"]
    assert await bench.one("select state from runs where run_id = $1", run_id) == "queued"


@pytest.mark.spec("I7", "I8")
async def test_what_has_expired_is_neither_claimed_nor_counted(bench: Bench) -> None:
    for _ in range(10):
        await bench.save()
    await bench.expire("position < 4")
    assert (await bench.save(bench.image(b"new"))).count == 7
    await bench.expire("position < 6")
    run = (await bench.accept(scope=ANN, claim=True)).run
    assert run.image_count == 5
    assert (await bench.contents(run.run_id))[-1] == b"new"
    assert await bench.one("select count(*) from input_images") == 5


@pytest.mark.spec("I7")
@pytest.mark.parametrize("expired", ["user_key = 'bob'", "user_key = 'bob' or position = 0"])
async def test_what_has_expired_is_purged_before_an_image_is_refused(bench: Bench, expired: str) -> None:
    """As a door does it that answers in the same transaction."""
    for _ in range(10):
        await bench.save()
    await bench.save(scope=BOB)
    await bench.expire(expired)
    async with bench.database.transaction() as connection:
        if "position" in expired:
            await save_pending(connection, ANN, bench.image())
        else:
            with pytest.raises(ImageBufferError):
                await save_pending(connection, ANN, bench.image())
    assert await bench.rows("select user_key, count(*) from input_images group by 1") == [("ann", 10)]


@pytest.mark.spec("I7")
def test_nobody_purges_but_who_takes_something_in() -> None:
    root = Path(mediamill.__file__).parent
    texts = {str(path.relative_to(root)): path.read_text() for path in root.rglob("*.py")}
    callers = {name for name, text in texts.items() if re.search(r"\bpurge_expired\b", text)}
    assert callers == {
        "api/messages.py",
        "inputs/accept.py",
        "inputs/pending.py",
        "providers/telegram/images.py",
    }
    statements = [path.read_text() for path in root.rglob("*.sql")]
    assert sum(text.count("delete from input_images") for text in statements) == 3  # purge, drop, delivery


@pytest.mark.spec("I8")
async def test_forgetting_waits_for_whoever_is_at_the_same_images(bench: Bench) -> None:
    await bench.save()
    async with bench.database.transaction() as connection:
        await lock_scope(connection, ANN)

        async def forget() -> int:
            async with bench.database.transaction() as other:
                return await drop_pending(other, ANN)

        forgetting = asyncio.create_task(forget())
        waits = "select count(*) from pg_locks where locktype = 'advisory' and not granted"
        await wait_until(lambda: bench.one(waits))
        await save_pending(connection, ANN, bench.image())
    assert await forgetting == 2


@pytest.mark.spec("I2", "I8")
async def test_late_images_of_an_album_fill_its_run_to_the_last_byte(bench: Bench) -> None:
    await bench.save(group="album")
    run_id = await run_of(bench)
    await bench.run("update runs set image_bytes = $1", MAX_IMAGE_BYTES - 5)
    assert (await bench.save(bench.image(b"123456"), group="album")).run_id is None
    assert (await bench.save(bench.image(b"12345"), group="album")).run_id == run_id
    assert (await bench.save(bench.image(b"1"), group="album")).run_id is None
