"""Pools: edited while everything runs, and never left in a state that takes no job."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from mediamill.engine.model import NewJob
from mediamill.engine.pools import Pool, PoolInvalidError, judge_pools, list_pools, read_pool, set_pools
from mediamill.engine.recovery.sweep import SWEEP, run_chores
from mediamill.engine.watch import pool_depths
from tests.engine.conftest import Bench
from tests.engine.waiting import wait_until_done_or_blocked


async def change(bench: Bench, *changes: dict[str, Any], **more: Any) -> list[Pool]:
    async with bench.database.transaction() as connection:
        return await set_pools(connection, changes, {"scripted", "images"}, **more)


@pytest.mark.spec("E16")
@pytest.mark.parametrize(
    ("changes", "replace", "fault"),
    [
        ([{"name": "a", "matches": ["x"]}], True, "no pool is the catch-all"),
        ([{"name": "a", "matches": []}, {"name": "b"}], True, "more than one catch-all: a, b"),
        ([{"name": "a", "matches": []}], False, "more than one catch-all"),
        ([{"name": "a"}, {"name": "a"}], True, "two pools are named a"),
        (
            [{"name": "a"}, {"name": "b", "matches": ["x"]}, {"name": "c", "matches": ["x"]}],
            True,
            "x is matched by b and by c",
        ),
        ([{"name": "default", "processor": "imagse"}], False, "there is no processor 'imagse'"),
        ([{"matches": ["x"]}], False, "name is missing"),
        ([{"name": "default", "concurency": 3}], False, "there is no setting 'concurency'"),
        ([{"name": "default", "concurrency": 0}], False, "concurrency must be between 1 and 10000, not 0"),
        ([{"name": "default", "concurrency": "four"}], False, "concurrency must be int, not 'four'"),
        ([{"name": "default", "concurrency": True}], False, "concurrency must be int, not True"),
        ([{"name": "default", "processor": 7}], False, "processor must be str or NoneType, not 7"),
        (
            [{"name": "default", "timeout_seconds": "1"}],
            False,
            "timeout_seconds must be int or float, not '1'",
        ),
        ([{"name": "default", "timeout_seconds": -1}], False, "timeout_seconds must be between"),
        ([{"name": "default", "lease_seconds": float("nan")}], False, "lease_seconds must be between"),
        ([{"name": "default", "matches": "image/png"}], False, "matches must be a list"),
        ([{"name": "default", "matches": [1]}], False, "matches must be a list"),
        ([{"name": "default", "matches": ["x"]}], False, "no pool is the catch-all"),
    ],
)
async def test_a_bad_definition_is_refused_with_its_fault_and_the_old_one_stays(
    bench: Bench, changes: list[dict[str, Any]], replace: bool, fault: str
) -> None:
    async with bench.database.connection() as connection:
        before = await list_pools(connection)
    with pytest.raises(PoolInvalidError) as refused:
        await change(bench, *changes, replace=replace)
    assert fault in str(refused.value)
    async with bench.database.connection() as connection:
        assert await list_pools(connection) == before


@pytest.mark.spec("E16")
async def test_every_fault_is_named_at_once(bench: Bench) -> None:
    with pytest.raises(PoolInvalidError) as refused:
        await change(
            bench, {"name": "default", "concurrency": 0, "gpu": "yes"}, {"name": "b", "colour": 1}, drop=["c"]
        )
    assert len(refused.value.faults) == 4


@pytest.mark.spec("E16")
async def test_a_pool_has_a_minute_if_nothing_is_said_and_a_change_keeps_what_it_does_not_name(
    bench: Bench,
) -> None:
    pools = await change(bench, {"name": "images", "matches": ["image/png"], "processor": "images"})
    (images,) = [pool for pool in pools if pool.name == "images"]
    assert images == Pool("images", ("image/png",), "images")
    assert images.timeout_seconds == 60
    (changed,) = [
        pool for pool in await change(bench, {"name": "images", "gpu": True}) if pool.name == "images"
    ]
    assert changed == Pool("images", ("image/png",), "images", gpu=True)


@pytest.mark.spec("E16")
async def test_an_exact_match_beats_the_catch_all_and_the_kind_beats_the_mime_type(bench: Bench) -> None:
    await change(
        bench, {"name": "png", "matches": ["image/png"]}, {"name": "plain", "matches": ["test.plain"]}
    )
    await bench.enqueue(mime_type="image/png")
    await bench.enqueue("test.subject", mime_type="image/png")
    await bench.enqueue("test.subject", mime_type="image/gif")
    await bench.enqueue("test.subject", mime_type="image/png", pool="default")
    async with bench.database.connection() as connection:
        rows = await connection.fetch("select pool from jobs order by id")
        depths = {row["pool"]: row["queued"] for row in await pool_depths(connection)}
    assert [row[0] for row in rows] == ["plain", "png", "image", "default"]
    assert {name: depth for name, depth in depths.items() if depth} == {
        "plain": 1,
        "png": 1,
        "image": 1,
        "default": 1,
    }


@pytest.mark.spec("E16")
async def test_the_catch_all_can_change_hands_in_one_step(bench: Bench) -> None:
    await change(bench, {"name": "rest", "matches": []}, {"name": "default", "matches": ["test.plain"]})
    assert await bench.one("select name from pools where matches = '{}'") == "rest"
    await change(bench, {"name": "default", "matches": []}, drop=["rest"])
    assert await bench.one("select name from pools where matches = '{}'") == "default"


@pytest.mark.spec("E16")
async def test_dropping_a_pool_moves_what_waits_to_the_catch_all_and_leaves_what_runs(bench: Bench) -> None:
    await change(bench, {"name": "png", "matches": ["image/png"]})
    runs, waits = [await bench.enqueue(mime_type="image/png") for _ in range(2)]
    (job,) = await bench.claim(pool="png")
    await change(bench, drop=["png"])
    assert await bench.one("select pool from jobs where id = $1", waits) == "default"
    assert [job.id for job in await bench.claim("b")] == [waits]
    assert (await bench.finish(job)).done == {runs}


@pytest.mark.spec("E8", "E16")
async def test_a_job_that_slipped_into_a_pool_being_dropped_is_moved_by_the_sweep(bench: Bench) -> None:
    await change(bench, {"name": "png", "matches": ["image/png"]})
    runs = await bench.enqueue(mime_type="image/png")
    (job,) = await bench.claim(pool="png")
    async with bench.database.connection() as connection:
        transaction = connection.transaction()
        await transaction.start()
        late = await bench.enqueuer.enqueue_job(connection, NewJob("test.plain", mime_type="image/png"))
        dropping = asyncio.create_task(change(bench, drop=["png"]))
        await wait_until_done_or_blocked(bench, dropping)
        await transaction.commit()
    await dropping
    await bench.run("update jobs set lease_expires_at = now() - interval '1 day' where id = $1", job.id)
    for _ in range(2):
        await run_chores(bench.database, bench.engine, SWEEP)
    assert {job.id for job in await bench.claim(amount=5)} == {runs, late}


@pytest.mark.spec("E16")
async def test_two_editors_at_once_cannot_leave_two_catch_alls_or_none(bench: Bench) -> None:
    async def make(name: str) -> bool:
        try:
            await change(bench, {"name": name, "matches": []}, {"name": "default", "matches": ["test.plain"]})
        except PoolInvalidError:
            return False
        return True

    assert sum(await asyncio.gather(*(make(f"p{n}") for n in range(6)))) == 1
    assert await bench.one("select count(*) from pools where matches = '{}'") == 1


@pytest.mark.spec("E16")
async def test_a_change_counts_for_the_next_claim_while_jobs_run(bench: Bench) -> None:
    await bench.enqueue()
    await bench.enqueue()
    (first,) = await bench.claim()
    await change(bench, {"name": "default", "lease_seconds": 4321})
    (second,) = await bench.claim()
    lease = "select extract(epoch from lease_expires_at - claimed_at)::int from jobs where id = $1"
    assert [await bench.one(lease, first.id), await bench.one(lease, second.id)] == [300, 4321]
    assert (await bench.finish(first, second)).done == {first.id, second.id}


@pytest.mark.spec("C24")
@pytest.mark.parametrize(
    ("mime_type", "pool"),
    [
        ("audio/ogg", "audio"),
        ("video/x-matroska", "video"),
        ("image/jpeg", "image"),
        ("image/webp", "stickers"),
        ("application/pdf", "documents"),
        ("text/calendar", "documents"),
        ("media_corrupt_audio", "corrupt"),
        ("application/x-executable", "unsupported"),
        ("nonsense", "unsupported"),
        (None, "default"),
    ],
)
async def test_media_go_to_the_pool_of_their_type(bench: Bench, mime_type: str | None, pool: str) -> None:
    id_ = await bench.enqueue("test.subject", mime_type=mime_type)
    assert await bench.one("select pool from jobs where id = $1", id_) == pool


@pytest.mark.spec("C24")
async def test_the_pools_of_media_have_the_limits_that_were_promised(bench: Bench) -> None:
    async with bench.database.connection() as connection:
        pools = {pool.name: pool for pool in await list_pools(connection)}
    limits = {name: (pool.concurrency, pool.timeout_seconds) for name, pool in pools.items()}
    assert limits | {"audio": (2, 300), "video": (1, 600), "image": (3, 120), "documents": (2, 120)} == limits
    assert limits | {"stickers": (2, 60), "corrupt": (1, 10), "unsupported": (1, 10)} == limits


@pytest.mark.spec("E10")
async def test_only_the_pool_of_streams_limits_the_time_without_progress(bench: Bench) -> None:
    async with bench.database.connection() as connection:
        limits = {pool.name: pool.no_progress_seconds for pool in await list_pools(connection)}
    assert {name: limit for name, limit in limits.items() if limit} == {"transcode": 1_800}


DAY = 86_400
RANGES: dict[str, tuple[float, float]] = {
    "concurrency": (1, 10_000),
    "timeout_seconds": (0.001, 7 * DAY),
    "max_attempts": (1, 1_000),
    "lease_seconds": (1, 7 * DAY),
    "stale_seconds": (0, 30 * DAY),
    "no_progress_seconds": (0, 7 * DAY),
    "backoff_seconds": (0, DAY),
    "backoff_limit_seconds": (0, 7 * DAY),
    "memory_bytes": (64 * 1024**2, 2**50),
    "forget_after_seconds": (0, 365 * DAY),
}


@pytest.mark.parametrize("name", RANGES)
def test_a_setting_of_a_pool_has_a_range(name: str) -> None:
    low, high = RANGES[name]
    for value in (low, high):
        pool, faults = read_pool({"name": "a", name: value})
        assert (pool and getattr(pool, name), faults) == (value, [])
    for wrong in (low - 1, high + 1, "1", True, None):
        pool, (fault,) = read_pool({"name": "a", name: wrong})
        assert (pool, fault.field) == (None, name)
        assert fault.startswith(f"pool a: {name} must be ")


@pytest.mark.parametrize(
    ("name", "value"),
    [("retry", 1), ("gpu", "yes"), ("processor", 7), ("matches", "x"), ("matches", [""]), ("matches", [7])],
)
def test_a_setting_of_a_pool_has_a_type(name: str, value: object) -> None:
    pool, (fault,) = read_pool({"name": "a", name: value})
    assert (pool, fault.field) == (None, name)


def test_a_pool_that_only_has_a_name_has_these_limits() -> None:
    pool, faults = read_pool({"name": "a"})
    assert faults == []
    assert pool is not None
    assert pool.as_dict() == {
        "name": "a",
        "matches": [],
        "processor": None,
        "concurrency": 1,
        "timeout_seconds": 60,
        "max_attempts": 3,
        "lease_seconds": 300,
        "stale_seconds": 900,
        "no_progress_seconds": 0,
        "retry": True,
        "backoff_seconds": 2,
        "backoff_limit_seconds": 300,
        "memory_bytes": 1024**3,
        "gpu": False,
        "forget_after_seconds": 3 * 3600,
    }


def test_a_fault_names_the_field_that_a_form_shows_it_at() -> None:
    two = [Pool("a"), Pool("b", ("x",), "unheard of"), Pool("b", ("y",)), Pool("c", ("x",)), Pool("d")]
    assert [fault.field for fault in judge_pools(two, ["known"])] == [
        "matches",
        "name",
        "processor",
        "matches",
    ]
    assert [fault.field for fault in judge_pools([], [])] == ["matches"]
    assert [fault.field for fault in read_pool({})[1]] == ["name"]
