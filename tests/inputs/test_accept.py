"""Taking in a message: once by its key, with its images in order, all or nothing."""

from __future__ import annotations

import asyncio
import json
from collections import Counter
from dataclasses import replace
from pathlib import Path

import asyncpg
import pytest

from mediamill.db.connection import Database
from mediamill.errors import ConflictError
from mediamill.inputs.accept import Accepted, accept_run
from mediamill.inputs.model import (
    MAX_IMAGE_BYTES,
    AgentChoice,
    ImageBytesError,
    ImageCountError,
    NewRun,
    PayloadMismatchError,
    Scope,
    SpooledImage,
    check_images,
)
from mediamill.inputs.store import queries
from tests.inputs.conftest import ANN, API, Bench

COLUMNS = """
    select column_name, data_type, is_nullable from information_schema.columns where table_name = $1
"""


def sized(*sizes: int) -> list[SpooledImage]:
    return [SpooledImage(Path("nowhere"), "image/png", size, "") for size in sizes]


@pytest.mark.spec("I2")
def test_ten_images_are_taken_and_eleven_are_not() -> None:
    check_images(sized(*[1] * 10))
    with pytest.raises(ImageCountError) as caught:
        check_images(sized(*[1] * 11))
    assert caught.value.code == "image_count_exceeded"
    assert caught.value.fix


@pytest.mark.spec("I2")
def test_fifty_mebibytes_are_taken_and_one_byte_more_is_not() -> None:
    check_images(sized(MAX_IMAGE_BYTES))
    check_images(sized(MAX_IMAGE_BYTES - 1, 1))
    for sizes in ((MAX_IMAGE_BYTES + 1,), (MAX_IMAGE_BYTES, 1)):
        with pytest.raises(ImageBytesError) as caught:
            check_images(sized(*sizes))
        assert caught.value.code == "image_total_bytes_exceeded"


@pytest.mark.spec("I2")
def test_what_is_there_already_counts() -> None:
    check_images(sized(1), before=(9, MAX_IMAGE_BYTES - 1))
    with pytest.raises(ImageCountError):
        check_images(sized(1), before=(10, 0))
    with pytest.raises(ImageBytesError):
        check_images(sized(1), before=(1, MAX_IMAGE_BYTES))


@pytest.mark.spec("I2")
async def test_too_many_images_leave_nothing_behind(bench: Bench) -> None:
    with pytest.raises(ImageCountError):
        await bench.accept([bench.image() for _ in range(11)])
    assert await bench.rows("select 1 from runs union all select 1 from input_images") == []


@pytest.mark.spec("I1", "I5")
async def test_images_keep_the_order_of_the_request(bench: Bench) -> None:
    images = [bench.image(bytes([n]) * (n + 1)) for n in (7, 3, 9, 1, 0, 2)]
    accepted = await bench.accept(images)
    assert not accepted.repeated
    assert await bench.contents(accepted.run.run_id) == [image.path.read_bytes() for image in images]
    positions = await bench.rows("select position from input_images order by position, input_image_id")
    assert positions == [(n,) for n in range(6)]


@pytest.mark.spec("I1")
async def test_a_run_is_shown_as_it_was_asked_for(bench: Bench) -> None:
    image = bench.image(b"12345", filename="größe.png", mime_type="image/webp")
    choice = AgentChoice("pi", "a model", "be brief")
    scope = Scope("api", "a thread/of:many words", "me")
    run = (
        await bench.accept([image], scope=scope, text="line\nline", delivery_mode="steer", agent=choice)
    ).run
    assert run.agent == choice
    shown = run.plain()
    assert json.loads(json.dumps(shown)) == shown
    assert shown == shown | {
        "run_id": str(run.run_id),
        "source": "api",
        "thread_key": "a thread/of:many words",
        "user_key": "me",
        "delivery_mode": "steer",
        "text": "line\nline",
        "state": "queued",
        "answer": "",
        "tries": 0,
        "image_count": 1,
        "image_bytes": 5,
        "images_waiting": 1,
        "started_at": None,
        "ended_at": None,
    }
    assert await bench.rows("select mime_type, filename, byte_size from input_images") == [
        ("image/webp", "größe.png", 5)
    ]


@pytest.mark.spec("I1")
async def test_a_text_alone_makes_a_run_and_is_told(bench: Bench) -> None:
    run = (await bench.accept()).run
    assert (run.state, run.image_count, run.images_waiting) == ("queued", 0, 0)
    assert await bench.rows("select topic, subject, data ->> 'run_id' from events") == [
        ("run.queued", "thread", str(run.run_id))
    ]


@pytest.mark.spec("I3")
async def test_the_same_key_and_content_give_the_run_that_there_is(bench: Bench) -> None:
    images = [bench.image(), bench.image()]
    first = await bench.accept(images, idempotency_key="k", payload_hash="h")
    again = await bench.accept(images, idempotency_key="k", payload_hash="h")
    assert (first.repeated, again.repeated) == (False, True)
    assert again.run == first.run
    assert await bench.one("select count(*) from runs") == 1
    assert await bench.one("select count(*) from input_images") == 2
    assert await bench.one("select count(*) from events") == 1


@pytest.mark.spec("I3")
async def test_a_repeat_gives_the_run_also_when_it_is_done(bench: Bench) -> None:
    run_id = (await bench.accept([bench.image()], idempotency_key="k", payload_hash="h")).run.run_id
    assert await bench.finish(run_id, await bench.start(run_id))
    again = await bench.accept([bench.image()], idempotency_key="k", payload_hash="h")
    assert (again.repeated, again.run.run_id, again.run.answer) == (True, run_id, "a cat")
    assert await bench.one("select count(*) from input_images") == 0


@pytest.mark.spec("I3", "I2")
async def test_the_same_key_with_other_content_is_refused(bench: Bench) -> None:
    await bench.accept([bench.image()], idempotency_key="k", payload_hash="h")
    with pytest.raises(PayloadMismatchError) as caught:
        await bench.accept([bench.image()], idempotency_key="k", payload_hash="another")
    assert isinstance(caught.value, ConflictError)
    assert caught.value.code == "idempotency_payload_mismatch"
    assert await bench.one("select count(*) from runs") == 1
    assert await bench.one("select count(*) from input_images") == 1


@pytest.mark.spec("I3")
async def test_keys_are_each_sources_own_and_no_key_is_never_the_same(bench: Bench) -> None:
    for scope in (API, replace(API, source="cli")):
        assert not (await bench.accept(scope=scope, idempotency_key="k", payload_hash="h")).repeated
    for _ in range(2):
        assert not (await bench.accept(payload_hash="h")).repeated
    assert await bench.one("select count(*) from runs") == 4


@pytest.mark.spec("I3", "I8")
async def test_a_repeated_text_takes_no_images_that_came_since(bench: Bench) -> None:
    await bench.save()
    first = await bench.accept(scope=ANN, claim=True, idempotency_key="k")
    await bench.save()
    again = await bench.accept(scope=ANN, claim=True, idempotency_key="k")
    assert (again.repeated, again.run.run_id, again.run.image_count) == (True, first.run.run_id, 1)
    assert await bench.one("select count(*) from input_images where run_id is null") == 1


@pytest.mark.spec("I3", "I8")
async def test_a_transaction_that_is_undone_leaves_the_key_and_the_images_free(bench: Bench) -> None:
    await bench.save()

    async def stumble() -> None:
        async with bench.database.transaction() as connection:
            await accept_run(connection, NewRun(ANN, "x", idempotency_key="k"), claim_pending=True)
            raise RuntimeError("stumbled")

    with pytest.raises(RuntimeError, match="stumbled"):
        await stumble()
    assert await bench.one("select count(*) from input_images where run_id is null") == 1
    accepted = await bench.accept(scope=ANN, claim=True, idempotency_key="k")
    assert (accepted.repeated, accepted.run.image_count) == (False, 1)


@pytest.mark.spec("I2", "I5", "I8")
async def test_images_of_the_text_itself_come_after_those_that_waited(bench: Bench) -> None:
    await bench.save(bench.image(b"first"))
    await bench.save(bench.image(b"second"))
    run = (await bench.accept([bench.image(b"third"), bench.image(b"fourth")], scope=ANN, claim=True)).run
    assert await bench.contents(run.run_id) == [b"first", b"second", b"third", b"fourth"]
    assert (run.image_count, run.image_bytes, run.images_waiting) == (4, 22, 4)


@pytest.mark.spec("I2", "I8")
async def test_images_that_waited_and_those_of_the_text_are_ten_together(bench: Bench) -> None:
    for _ in range(9):
        await bench.save()
    with pytest.raises(ImageCountError):
        await bench.accept([bench.image(), bench.image()], scope=ANN, claim=True)
    assert await bench.one("select count(*) from input_images where run_id is null") == 9
    run = (await bench.accept([bench.image()], scope=ANN, claim=True)).run
    assert run.image_count == 10


async def test_the_longest_keys_fit_into_the_indexes(bench: Bench) -> None:
    letters = "".join(
        chr(0x1F300 + n % 700) for n in range(512)
    )  # four bytes each, and they do not compress well
    scope = Scope("telegram", letters, "a user of forty characters, at the most.")
    await bench.save(scope=scope)
    run = (await bench.accept(scope=scope, claim=True, idempotency_key=letters[:200], payload_hash="h")).run
    assert (run.thread_key, run.image_count) == (letters, 1)


@pytest.mark.spec("I4")
async def test_images_are_kept_with_all_that_is_specified(bench: Bench) -> None:
    columns = {name: (kind, nullable) for name, kind, nullable in await bench.rows(COLUMNS, "input_images")}
    assert columns == {
        "input_image_id": ("uuid", "NO"),
        "source": ("text", "NO"),
        "thread_key": ("text", "NO"),
        "user_key": ("text", "YES"),
        "run_id": ("uuid", "YES"),
        "telegram_media_group_id": ("text", "YES"),
        "mime_type": ("text", "NO"),
        "filename": ("text", "YES"),
        "byte_size": ("bigint", "NO"),
        "image_bytes": ("bytea", "NO"),
        "position": ("integer", "NO"),
        "created_at": ("timestamp with time zone", "NO"),
        "expires_at": ("timestamp with time zone", "NO"),
    }


@pytest.mark.spec("I4")
async def test_no_bytes_are_in_runs(bench: Bench) -> None:
    columns = {name: kind for name, kind, _ in await bench.rows(COLUMNS, "runs")}
    assert "bytea" not in columns.values()
    await bench.accept([bench.image(b"so that they can be found")])
    assert await bench.one("select count(*) from runs r where r::text like '%can be found%'") == 0
    stored = b"so that they can be found".hex()
    assert await bench.one("select count(*) from runs r where r::text like '%' || $1 || '%'", stored) == 0


@pytest.mark.spec("I4")
@pytest.mark.parametrize("wrong", ["byte_size = 0", "byte_size = -1", "position = -1"])
async def test_sizes_are_above_zero_and_places_not_below(bench: Bench, wrong: str) -> None:
    await bench.save()
    with pytest.raises(asyncpg.CheckViolationError):
        await bench.run(f"update input_images set {wrong}")


@pytest.mark.spec("I4")
async def test_images_go_with_their_run_and_with_no_other(bench: Bench) -> None:
    gone, kept = [(await bench.accept([bench.image()])).run.run_id for _ in range(2)]
    await bench.save()
    await bench.run("delete from runs where run_id = $1", gone)
    rows = await bench.rows("select run_id from input_images order by run_id nulls last")
    assert rows == [(kept,), (None,)]


@pytest.mark.spec("I4")
async def test_there_are_indexes_for_run_order_pending_scope_and_expiry(bench: Bench) -> None:
    found = await bench.rows("select indexdef from pg_indexes where tablename = 'input_images'")
    definitions = [row[0].partition(" USING ")[2] for row in found]
    assert 'btree (run_id, "position", input_image_id)' in definitions
    assert (
        'btree (source, thread_key, user_key, "position", input_image_id) WHERE (run_id IS NULL)'
        in definitions
    )
    assert "btree (expires_at)" in definitions


@pytest.mark.spec("I6")
async def test_deleting_a_runs_images_twice_does_no_harm(bench: Bench) -> None:
    run_id = (await bench.accept([bench.image(), bench.image()])).run.run_id
    other = (await bench.accept([bench.image()])).run.run_id
    for expected in (2, 0, 0):
        async with bench.database.transaction() as connection:
            assert len(await queries.delete_images_of_run.rows(connection, run_id=run_id)) == expected
    assert len(await bench.contents(other)) == 1


@pytest.mark.spec("I6")
async def test_a_failed_run_keeps_its_images(bench: Bench) -> None:
    run_id = (await bench.accept([bench.image(b"kept")])).run.run_id
    await bench.fail(run_id, await bench.start(run_id))
    assert await bench.contents(run_id) == [b"kept"]


async def outcome(bench: Bench, image: SpooledImage, key: str, payload_hash: str) -> Accepted | str:
    try:
        return await bench.accept([image], idempotency_key=key, payload_hash=payload_hash)
    except PayloadMismatchError as refused:
        return refused.code


@pytest.mark.spec("I3")
async def test_two_hundred_identical_messages_at_once_make_one_run_and_one_set_of_images(
    bench: Bench,
) -> None:
    image = bench.image(b"x" * 100_000)
    outcomes = await asyncio.gather(*(outcome(bench, image, "k", "h") for _ in range(200)))
    accepted = [each for each in outcomes if isinstance(each, Accepted)]
    assert len(accepted) == 200
    assert Counter(each.repeated for each in accepted) == {False: 1, True: 199}
    assert len({each.run.run_id for each in accepted}) == 1
    assert await bench.rows("select count(*), min(image_count) from runs") == [(1, 1)]
    assert await bench.one("select count(*) from input_images") == 1
    assert await bench.one("select count(*) from events") == 1


@pytest.mark.spec("I3")
async def test_of_two_contents_at_once_with_one_key_one_wins(bench: Bench) -> None:
    images = {name: bench.image(name.encode()) for name in ("this", "that")}
    names = ["this", "that"] * 50
    outcomes = await asyncio.gather(*(outcome(bench, images[name], "k", name) for name in names))
    [(run_id, winner)] = await bench.rows("select run_id, payload_hash from runs")
    for name, each in zip(names, outcomes, strict=True):
        if name == winner:
            assert isinstance(each, Accepted)
            assert each.run.run_id == run_id
        else:
            assert each == "idempotency_payload_mismatch"
    assert await bench.contents(run_id) == [winner.encode()]


@pytest.mark.spec("I3")
async def test_whoever_waited_for_a_transaction_that_is_undone_makes_the_run(
    bench: Bench, database: Database
) -> None:
    new = NewRun(API, "x", idempotency_key="k", payload_hash="h")
    async with database.pool.acquire() as first:
        transaction = first.transaction()
        await transaction.start()
        await accept_run(first, new)
        waiting = asyncio.create_task(bench.accept(text="x", idempotency_key="k", payload_hash="h"))
        sql = "select count(*) from pg_locks where not granted"
        while not await bench.one(sql):  # noqa: ASYNC110 - the state is in the database
            await asyncio.sleep(0.01)
        await transaction.rollback()
    assert not (await waiting).repeated
    assert await bench.one("select count(*) from runs") == 1
