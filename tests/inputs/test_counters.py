"""What happens to images is counted once it is certain, and told with whose they were."""

from __future__ import annotations

import logging
from collections.abc import Callable
from uuid import UUID

import pytest

from mediamill.db.connection import after_commit
from mediamill.inputs import counters
from mediamill.inputs.accept import accept_run
from mediamill.inputs.model import ImageBufferError, ImageCountError, NewRun, PayloadMismatchError, Scope
from tests.inputs.conftest import ANN, API, Bench


@pytest.fixture
def said(caplog: pytest.LogCaptureFixture) -> Callable[[], list[str]]:
    caplog.set_level(logging.INFO, "mediamill.inputs.counters")

    def lines() -> list[str]:
        told = [record.message for record in caplog.records if record.name == "mediamill.inputs.counters"]
        caplog.clear()
        return told

    return lines


@pytest.mark.spec("I11")
async def test_images_of_a_message_are_counted_and_told(bench: Bench, said: Callable[[], list[str]]) -> None:
    run_id = (await bench.accept([bench.image(b"123"), bench.image(b"45")])).run.run_id
    assert counters.counts == {("images_ingested_count", "api"): 2, ("images_ingested_bytes", "api"): 5}
    assert said() == [
        f"images_ingested_count=2 source=api thread_key='thread' run_id={run_id}",
        f"images_ingested_bytes=5 source=api thread_key='thread' run_id={run_id}",
    ]


@pytest.mark.spec("I11")
async def test_images_that_wait_and_are_claimed_are_counted_and_told(
    bench: Bench, said: Callable[[], list[str]]
) -> None:
    await bench.save(bench.image(b"123"), group="album")
    assert said()[0] == f"images_ingested_count=1 source=telegram thread_key={ANN.thread_key!r} run_id=None"
    run_id = (await bench.accept(scope=ANN, claim=True)).run.run_id
    assert said() == [f"images_claimed_count=1 source=telegram thread_key={ANN.thread_key!r} run_id={run_id}"]
    await bench.save(bench.image(b"4"), group="album")
    assert counters.counts == {
        ("images_ingested_count", "telegram"): 2,
        ("images_ingested_bytes", "telegram"): 4,
        ("images_claimed_count", "telegram"): 2,
    }


@pytest.mark.spec("I11", "I7")
async def test_what_is_purged_is_counted_by_its_own_source(
    bench: Bench, said: Callable[[], list[str]]
) -> None:
    await bench.save()
    run_id = (await bench.accept([bench.image()])).run.run_id
    await bench.expire()
    counters.counts.clear()
    said()
    await bench.accept(scope=Scope("cli", "elsewhere"))
    assert counters.counts == {
        ("images_purged_expired_count", "telegram"): 1,
        ("images_purged_expired_count", "api"): 1,
        ("images_purged_expired_bound_count", "api"): 1,
    }
    assert sorted(said()) == [
        f"images_purged_expired_bound_count=1 source=api thread_key='thread' run_id={run_id}",
        f"images_purged_expired_count=1 source=api thread_key='thread' run_id={run_id}",
        f"images_purged_expired_count=1 source=telegram thread_key={ANN.thread_key!r} run_id=None",
    ]


@pytest.mark.spec("I11", "I3")
async def test_a_repeated_message_counts_no_images(bench: Bench) -> None:
    for _ in range(3):
        await bench.accept([bench.image(b"1")], idempotency_key="k", payload_hash="h")
    assert counters.counts["images_ingested_count", "api"] == 1


@pytest.mark.spec("I11", "I7")
@pytest.mark.parametrize("refusal", ["other content", "buffer full", "stumble"])
async def test_what_is_undone_is_not_counted(
    bench: Bench, refusal: str, said: Callable[[], list[str]]
) -> None:
    for _ in range(10):
        await bench.save()
    await bench.accept([bench.image()], idempotency_key="k", payload_hash="h")
    await bench.expire("source = 'api'")
    before = counters.counts.copy()
    said()
    with pytest.raises((PayloadMismatchError, ImageBufferError, RuntimeError)):
        await refuse(bench, refusal)
    assert counters.counts == before
    assert said() == []
    await bench.accept()
    assert counters.counts - before == {
        ("images_purged_expired_count", "api"): 1,
        ("images_purged_expired_bound_count", "api"): 1,
    }


async def refuse(bench: Bench, refusal: str) -> None:
    if refusal == "other content":
        await bench.accept([bench.image()], idempotency_key="k", payload_hash="another")
    elif refusal == "buffer full":
        await bench.save()
    else:
        async with bench.database.transaction() as connection:
            await accept_run(connection, NewRun(API, "x"), [bench.image()])
            raise RuntimeError("undone")


async def test_what_is_said_to_be_done_after_a_commit_is_done_then_or_never(bench: Bench) -> None:
    done: list[str] = []

    async def change(word: str, *, fails: bool) -> None:
        async with bench.database.transaction() as connection:
            after_commit(connection, lambda: done.append(word))
            assert word not in done
            if fails:
                raise RuntimeError(word)

    await change("kept", fails=False)
    with pytest.raises(RuntimeError, match="undone"):
        await change("undone", fails=True)
    assert done == ["kept"]
    async with bench.database.connection() as connection:
        after_commit(connection, lambda: done.append("at once"))
        assert done == ["kept", "at once"]


@pytest.mark.spec("I11")
def test_words_of_strangers_cannot_break_the_log(bench: Bench, said: Callable[[], list[str]]) -> None:
    counters.count_rejected("api", ImageCountError(), "a\nimages_ingested_count=9 source=api")
    assert "\n" not in said()[0]


@pytest.mark.spec("I11")
def test_a_log_that_is_read_by_programs_has_the_same_in_fields(
    bench: Bench, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "mediamill.inputs.counters")
    run_id, whose = UUID(int=7), {"source": "api", "thread_key": "t", "user_key": None}
    counters.count_deleted(Scope("api", "t"), 3, run_id)
    counters.count_rejected("api", ImageCountError(), "t")
    counters.count_purged([{"source": "api", "thread_key": "t", "run_id": run_id}])  # type: ignore[list-item]
    assert [(one.levelname, one.event, one.facts) for one in caplog.records] == [  # type: ignore[attr-defined]
        ("INFO", "images_deleted_after_delivery_count", {"count": 3, **whose, "run_id": run_id}),
        (
            "INFO",
            "inputs_rejected_count",
            {"count": 1, "source": "api", "thread_key": "t", "code": "image_count_exceeded"},
        ),
        ("INFO", "images_purged_expired_count", {"count": 1, **whose, "run_id": run_id}),
        ("WARNING", "images_purged_expired_bound_count", {"count": 1, **whose, "run_id": run_id}),
    ]
