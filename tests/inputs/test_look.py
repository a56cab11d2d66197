"""Looking at runs, waiting for them, and trying a failed one again."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from uuid import UUID, uuid4

import pytest

from mediamill.db.connection import Connection, Database
from mediamill.errors import ConflictError, NotFoundError
from mediamill.inputs.look import RunWatch, list_runs, retry_run, show_run
from mediamill.inputs.model import RunNotFailedError, Scope, UnknownRunError
from mediamill.inputs.store import queries
from tests.conftest import wait_until
from tests.inputs.conftest import Bench

LISTENER = """
    select pid from pg_stat_activity
    where application_name = 'mediamill runs heard' and datname = current_database()
"""


@pytest.fixture
async def watch(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[RunWatch]:
    """It looks when it is told to, and not because time passes."""
    monkeypatch.setattr("mediamill.inputs.look.LOOK_SECONDS", 3600.0)
    made = RunWatch(bench.database)
    await made.start()
    yield made
    await made.close()


@pytest.fixture
async def elsewhere(new_url: str, bench: Bench) -> AsyncIterator[Bench]:
    """Another process, as far as the database can tell."""
    database = await Database.open(new_url)
    yield Bench(database, bench.folder)
    await database.close()


async def heard(event: asyncio.Event) -> None:
    async with asyncio.timeout(30):
        await event.wait()
    event.clear()


@pytest.mark.spec("I1")
async def test_every_change_in_another_process_wakes_who_waits_for_that_run(
    bench: Bench, elsewhere: Bench
) -> None:
    run_id, other = [(await bench.accept()).run.run_id for _ in range(2)]
    watch = RunWatch(bench.database)  # from now on: not told of their beginning
    await watch.start()
    with watch.changes(run_id) as changed, watch.changes(other) as untouched:
        tries = await elsewhere.start(run_id)
        await heard(changed)
        async with elsewhere.database.transaction() as connection:
            await queries.grow_answer.row(connection, run_id=run_id, tries=tries, answer="a")
        await heard(changed)
        await elsewhere.finish(run_id, tries)
        await heard(changed)
        assert not untouched.is_set()
    await watch.close()


@pytest.mark.spec("I1")
async def test_who_waits_for_the_end_gets_the_run(bench: Bench, watch: RunWatch, elsewhere: Bench) -> None:
    done, broken = [(await bench.accept()).run.run_id for _ in range(2)]
    waiting = [asyncio.create_task(watch.until_ended(run_id)) for run_id in (done, done, broken)]
    await elsewhere.finish(done, await elsewhere.start(done))
    await elsewhere.fail(broken, await elsewhere.start(broken))
    async with asyncio.timeout(30):
        runs = await asyncio.gather(*waiting)
        assert (await watch.until_ended(done)).state == "completed"  # it has ended before
    assert [(run.state, run.answer, run.error_code) for run in runs] == [
        ("completed", "a cat", None),
        ("completed", "a cat", None),
        ("failed", "", "broken"),
    ]


async def test_nobody_waits_for_a_run_that_there_is_not(watch: RunWatch) -> None:
    with pytest.raises(UnknownRunError):
        await watch.until_ended(uuid4())


@pytest.mark.spec("I1")
async def test_a_listener_that_was_cut_off_misses_nothing(
    bench: Bench, watch: RunWatch, elsewhere: Bench
) -> None:
    for _ in range(3):
        run_id = (await bench.accept()).run.run_id
        waiting = asyncio.create_task(watch.until_ended(run_id))
        pid = await bench.one(LISTENER)
        assert await elsewhere.one("select pg_terminate_backend($1)", pid)
        await elsewhere.finish(run_id, await elsewhere.start(run_id))
        async with asyncio.timeout(60):
            assert (await waiting).state == "completed"

        async def back(gone: int = pid) -> bool:
            return await bench.one(LISTENER) not in (None, gone)

        await wait_until(back)


@pytest.mark.spec("I1")
async def test_who_waits_outlives_the_loss_of_every_connection(
    bench: Bench, watch: RunWatch, elsewhere: Bench
) -> None:
    run_id = (await bench.accept()).run.run_id
    waiting = asyncio.create_task(watch.until_ended(run_id))
    await elsewhere.run(
        "select pg_terminate_backend(pid) from pg_stat_activity "
        "where datname = current_database() and pid <> pg_backend_pid() and backend_type = 'client backend'"
    )
    await elsewhere.finish(run_id, await elsewhere.start(run_id))
    async with asyncio.timeout(60):
        assert (await waiting).state == "completed"


async def test_who_could_not_look_when_it_was_told_looks_again(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("mediamill.inputs.look.LOOK_SECONDS", 3600.0)
    watch = RunWatch(bench.database)  # it hears nothing: all was told before
    run_id = (await bench.accept()).run.run_id
    await bench.finish(run_id, await bench.start(run_id))
    lost: list[Exception] = [ConnectionResetError("cut off")]
    connection = bench.database.connection

    @asynccontextmanager
    async def cut_once() -> AsyncIterator[Connection]:
        if lost:
            raise lost.pop()
        async with connection() as opened:
            yield opened

    monkeypatch.setattr(bench.database, "connection", cut_once)
    async with asyncio.timeout(60):
        assert (await watch.until_ended(run_id)).state == "completed"
    assert not lost


async def test_who_listens_no_more_is_forgotten_and_the_end_wakes_everybody(
    bench: Bench, watch: RunWatch
) -> None:
    run_id = uuid4()
    with watch.changes(run_id) as first, watch.changes(run_id) as second:
        first.clear()
        second.clear()
        await watch.close()
        assert first.is_set()
        assert second.is_set()
        assert watch.closed
    assert watch._waiting == {}


async def shown(
    bench: Bench, thread_key: str | None, before: int | None, amount: int
) -> list[tuple[str, int]]:
    async with bench.database.connection() as connection:
        runs = await list_runs(connection, thread_key, before=before, amount=amount)
    return [(run.text, run.sequence) for run in runs]


@pytest.mark.spec("I1")
@pytest.mark.parametrize("thread_key", ["even", None])
async def test_runs_are_listed_newest_first_a_page_at_a_time(bench: Bench, thread_key: str | None) -> None:
    for number in range(14):
        scope = Scope("api", "odd" if number % 2 else "even")
        await bench.accept([bench.image()] if number == 12 else [], scope=scope, text=str(number))
    expected = [str(n) for n in range(13, -1, -1) if thread_key is None or n % 2 == 0]
    texts: list[str] = []
    before = None
    while page := await shown(bench, thread_key, before, 3):
        assert len(page) <= 3
        texts += [text for text, _ in page]
        before = page[-1][1]
    assert texts == expected
    async with bench.database.connection() as connection:
        runs = await list_runs(connection, thread_key)
        assert [run.images_waiting for run in runs if run.text == "12"] == [1]
        assert await list_runs(connection, "nothing here") == []


@pytest.mark.spec("I1")
async def test_only_a_failed_run_can_be_tried_again(bench: Bench) -> None:
    run_id = (await bench.accept([bench.image()])).run.run_id

    async def refused() -> str:
        with pytest.raises(RunNotFailedError) as caught:
            await retry(run_id)
        assert isinstance(caught.value, ConflictError)
        return caught.value.message

    async def retry(run_id: UUID) -> tuple[str, int, int]:
        async with bench.database.transaction() as connection:
            run = await retry_run(connection, run_id)
        return run.state, run.tries, run.images_waiting

    assert "queued" in await refused()
    tries = await bench.start(run_id)
    assert "running" in await refused()
    await bench.fail(run_id, tries)
    assert await retry(run_id) == ("queued", 1, 1)
    assert "queued" in await refused()
    assert await bench.finish(run_id, await bench.start(run_id))
    assert "completed" in await refused()


async def test_a_failed_run_tells_why_and_forgets_it_when_it_is_tried_again(bench: Bench) -> None:
    run_id = (await bench.accept()).run.run_id
    await bench.fail(run_id, await bench.start(run_id))
    async with bench.database.transaction() as connection:
        run = await show_run(connection, run_id)
        assert (run.state, run.error_code, run.error, run.failures) == ("failed", "broken", "it broke", 1)
        assert run.ended_at is not None
        run = await retry_run(connection, run_id)
        assert (run.error_code, run.error, run.failures, run.ended_at) == (None, None, 0, None)


async def test_a_run_that_there_is_not_is_not_found(bench: Bench) -> None:
    async with bench.database.connection() as connection:
        for look in (show_run, retry_run):
            with pytest.raises(UnknownRunError) as caught:
                await look(connection, uuid4())
            assert isinstance(caught.value, NotFoundError)
