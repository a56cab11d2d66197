"""Races around images that wait, on real connections: each image goes to one run, or expires, never both."""

from __future__ import annotations

import asyncio
import random
from dataclasses import asdict
from uuid import UUID

import pytest

from mediamill.inputs.accept import accept_run, lock_scope, purge_expired
from mediamill.inputs.look import retry_run
from mediamill.inputs.model import ImageBufferError, NewRun, RunNotFailedError, Scope
from mediamill.inputs.pending import Saved, drop_pending, save_pending
from mediamill.inputs.store import queries
from tests.conftest import wait_until
from tests.inputs.conftest import ANN, Bench, bench

__all__ = ["bench"]

ROUNDS = 30
BOB = Scope("telegram", "another", "bob")
PLACES = "select position from input_images where run_id = $1 order by position, input_image_id"


async def steps(number: int) -> None:
    """Let the others go on a little: another order in every round."""
    for _ in range(number):
        await asyncio.sleep(0)


@pytest.mark.spec("I8")
async def test_two_texts_at_once_after_an_album(bench: Bench) -> None:
    for _ in range(ROUNDS):
        contents = [b"%d" % n for n in range(3)]
        for content in contents:
            await bench.save(bench.image(content), group="album")
        runs = await asyncio.gather(*(bench.accept(scope=ANN, claim=True) for _ in range(2)))
        assert sorted(accepted.run.image_count for accepted in runs) == [0, 3]
        taken = [await bench.contents(accepted.run.run_id) for accepted in runs]
        assert sorted(taken) == [[], contents]
        await bench.run("delete from runs")


@pytest.mark.spec("I3", "I8")
async def test_one_text_that_comes_twice_at_once_takes_the_images_once(bench: Bench) -> None:
    for round_ in range(ROUNDS):
        await bench.save()
        both = await asyncio.gather(
            *(bench.accept(scope=ANN, claim=True, idempotency_key=f"k{round_}") for _ in range(3))
        )
        assert sorted(accepted.repeated for accepted in both) == [False, True, True]
        assert {(accepted.run.run_id, accepted.run.image_count) for accepted in both} == {
            (both[0].run.run_id, 1)
        }
    assert await bench.one("select count(*) from input_images where run_id is null") == 0


@pytest.mark.spec("I5", "I8")
async def test_an_album_and_its_text_at_once_in_any_order(bench: Bench) -> None:
    """Whatever comes before the text, with it or late: it is in the run, once, in an order without gaps."""
    for round_ in range(ROUNDS):
        group = f"album {round_}"
        await bench.save(group=group)

        async def text(late: int) -> UUID:
            await steps(late)
            return (await bench.accept(scope=ANN, claim=True)).run.run_id

        async def image(late: int, group: str) -> Saved:
            await steps(late)
            return await bench.save(group=group)

        images = [asyncio.create_task(image(random.randrange(60), group)) for _ in range(5)]
        run_id = await text(random.randrange(60))
        saved = await asyncio.gather(*images)
        assert {each.run_id for each in saved} <= {None, run_id}
        assert await bench.rows(PLACES, run_id) == [(n,) for n in range(6)]
        assert await bench.rows("select image_count from runs where run_id = $1", run_id) == [(6,)]
    assert await bench.one("select count(*) from input_images where run_id is null") == 0


@pytest.mark.spec("I6", "I8")
async def test_late_images_against_the_start_of_their_run(bench: Bench) -> None:
    """The run that starts knows all its images: none is added behind its back."""
    seen: set[bool] = set()
    for round_ in range(2 * ROUNDS):
        group = f"album {round_}"
        await bench.save(group=group)
        run_id = (await bench.accept(scope=ANN, claim=True)).run.run_id

        async def start(late: int, run_id: UUID) -> tuple[int, int]:
            await steps(late)
            async with bench.database.connection() as connection:
                tries = await queries.start_run.value(connection, run_id=run_id)
                return tries, len(await queries.images_of_run.rows(connection, run_id=run_id))

        async def image(late: int, group: str) -> Saved:
            await steps(late)
            return await bench.save(group=group)

        (tries, known), saved = await asyncio.gather(
            start(random.randrange(40), run_id), image(random.randrange(10), group)
        )
        assert known == (2 if saved.run_id else 1)
        seen.add(saved.run_id is not None)
        await bench.finish(run_id, tries)
        waiting = await bench.one("select count(*) from input_images")
        assert waiting == (0 if saved.run_id else 1)
        await bench.run("delete from input_images")
    assert seen


@pytest.mark.spec("I7")
async def test_purge_against_a_claim_that_holds_images_which_expire_meanwhile(bench: Bench) -> None:
    """Who claims began before they expired, who purges after: the claim is not committed, and they are spared."""
    for round_ in range(ROUNDS):
        await bench.save(bench.image(b"kept"))
        await bench.run(
            "update input_images set expires_at = clock_timestamp() + interval '50 ms' where run_id is null"
        )
        async with bench.database.pool.acquire() as claimer:
            transaction = claimer.transaction()
            await transaction.start()
            accepted = await accept_run(claimer, NewRun(ANN, f"text {round_}"), claim_pending=True)
            if accepted.run.image_count == 0:  # a slow machine: expired before the transaction began
                await transaction.rollback()
                await bench.run("delete from input_images where run_id is null")
                continue

            async def expired() -> bool:
                return bool(
                    await bench.one(
                        "select bool_or(expires_at < now()) from input_images where run_id is null"
                    )
                )

            await wait_until(expired)
            purges = [bench.accept(), bench.save(scope=BOB)]
            async with asyncio.timeout(30):
                await asyncio.gather(*purges)  # they do not wait for the claim, and do not take what it holds
            await transaction.commit()
        assert await bench.contents(accepted.run.run_id) == [b"kept"]
        await bench.accept()
        assert await bench.contents(accepted.run.run_id) == [b"kept"]
        await bench.run("delete from input_images")
    assert await bench.one("select count(*) from runs where image_count = 1") > 0


@pytest.mark.spec("I7")
async def test_purge_and_claim_at_the_moment_of_expiry(bench: Bench) -> None:
    """Whoever comes first: images are claimed for another three days, or purged; no run counts what is gone."""
    fates: set[int] = set()
    for _ in range(ROUNDS):
        for _ in range(3):
            await bench.save()
        await bench.run(
            "update input_images set expires_at = clock_timestamp() + interval '4 ms' where run_id is null"
        )

        async def claim(late: int) -> UUID:
            await steps(late)
            return (await bench.accept(scope=ANN, claim=True)).run.run_id

        async def purge(late: int) -> None:
            await steps(late)
            async with bench.database.transaction() as connection:
                await purge_expired(connection)

        run_id, *_ = await asyncio.gather(
            claim(random.randrange(60)), *(purge(random.randrange(60)) for _ in range(4))
        )
        [(count, waiting)] = await bench.rows(
            "select image_count, (select count(*) from input_images i where i.run_id = r.run_id) "
            "from runs r where run_id = $1",
            run_id,
        )
        assert count == waiting
        assert await bench.one(
            "select coalesce(bool_and(expires_at > now()), true) from input_images where run_id = $1", run_id
        )
        fates.add(count)
        await bench.run("delete from input_images")
    assert fates


@pytest.mark.spec("I7", "I8")
async def test_who_purges_and_who_claims_in_one_scope_do_not_wait_for_each_other(bench: Bench) -> None:
    """One began before an image expired and holds the scope; the other after, and would purge it."""
    await bench.save()
    await bench.run("update input_images set expires_at = clock_timestamp() + interval '300 ms'")
    async with bench.database.pool.acquire() as early:
        transaction = early.transaction()
        await transaction.start()
        await early.execute("select now()")
        await lock_scope(early, ANN)

        async def expired() -> bool:
            return bool(await bench.one("select expires_at < now() from input_images"))

        await wait_until(expired)
        late = asyncio.create_task(bench.accept(scope=ANN, claim=True))

        async def waits() -> bool:
            return bool(
                await bench.one("select count(*) from pg_locks where locktype = 'advisory' and not granted")
            )

        await wait_until(waits)
        run_id = await early.fetchval(
            "insert into runs (source, thread_key, user_key, delivery_mode, text, payload_hash) "
            "values ('telegram', $1, 'ann', 'prompt', 'x', '') returning run_id",
            ANN.thread_key,
        )
        async with asyncio.timeout(30):
            row = await queries.claim_pending.row(early, **asdict(ANN), run_id=run_id)
        assert row is not None
        await transaction.commit()
    assert row["count"] + (await late).run.image_count <= 1
    assert await bench.one("select count(*) from input_images") == row["count"]


@pytest.mark.spec("I8")
async def test_texts_images_and_forgetting_at_once_leave_every_image_in_one_place(bench: Bench) -> None:
    for round_ in range(ROUNDS):
        group = f"album {round_}"

        async def image(late: int, group: str) -> int:
            await steps(late)
            try:
                async with bench.database.transaction() as connection:
                    await save_pending(connection, ANN, bench.image(), media_group_id=group)
            except ImageBufferError:
                return 0
            return 1

        async def text(late: int) -> int:
            await steps(late)
            await bench.accept(scope=ANN, claim=True)
            return 0

        async def forget(late: int) -> int:
            await steps(late)
            async with bench.database.transaction() as connection:
                return -await drop_pending(connection, ANN)

        tasks = [image(random.randrange(50), group) for _ in range(12)]
        tasks += [text(random.randrange(50)) for _ in range(3)] + [forget(random.randrange(50))]
        expected = sum(await asyncio.gather(*tasks))
        assert await bench.one("select count(*) from input_images") == expected
        counted = await bench.one("select coalesce(sum(image_count), 0) from runs")
        assert counted == await bench.one("select count(*) from input_images where run_id is not null")
        assert await bench.one("select coalesce(max(image_count), 0) from runs") <= 10
        await bench.run("delete from runs")
        await bench.run("delete from input_images")


@pytest.mark.spec("I6")
async def test_two_tries_of_one_run_end_it_once(bench: Bench) -> None:
    for _ in range(ROUNDS):
        run_id = (await bench.accept([bench.image()])).run.run_id
        old, new = await bench.start(run_id), await bench.start(run_id)
        ends = await asyncio.gather(bench.finish(run_id, old, "old"), bench.finish(run_id, new, "new"))
        assert list(ends) == [False, True]
        assert await bench.rows("select state, answer from runs where run_id = $1", run_id) == [
            ("completed", "new")
        ]
    assert await bench.one("select count(*) from input_images") == 0


async def test_a_failed_run_is_put_back_once(bench: Bench) -> None:
    for number in range(ROUNDS // 3):
        run_id = (await bench.accept(text=str(number))).run.run_id
        await bench.fail(run_id, await bench.start(run_id))

        async def retry(run_id: UUID = run_id) -> str:
            async with bench.database.transaction() as connection:
                return (await retry_run(connection, run_id)).state

        ends = await asyncio.gather(*(retry() for _ in range(4)), return_exceptions=True)
        assert [end for end in ends if not isinstance(end, RunNotFailedError)] == ["queued"]
