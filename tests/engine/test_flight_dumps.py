"""Flight logs that came home: kept once, bounded, listed, read, forgotten."""

from __future__ import annotations

import random
import zlib

import pytest

from mediamill.engine import flight_dumps
from mediamill.engine.flight_dumps import (
    LEFT_OUT,
    MOST_PACKED_BYTES,
    DumpInvalidError,
    DumpTooLargeError,
    UnknownDumpError,
    pack,
    unpack,
)
from mediamill.engine.recovery.janitor import forget_old
from tests.engine.conftest import Bench

NAME = "{}_20261115T2217{:02}.210895Z.log"


async def keep(bench: Bench, worker: int = 1, second: int = 0, text: bytes = b"a line\n") -> bool:
    async with bench.database.transaction() as connection:
        return await flight_dumps.keep_dump(connection, NAME.format(worker, second), pack(text))


async def names(bench: Bench, worker_id: int | None = None) -> list[str]:
    async with bench.database.connection() as connection:
        return [each["name"] for each in await flight_dumps.list_dumps(connection, worker_id=worker_id)]


@pytest.mark.spec("E24")
async def test_a_flight_log_is_kept_once_and_read_as_it_was_written(bench: Bench) -> None:
    worker = await bench.worker("far away")
    text = "".join(f"entry {number} é\n" for number in range(50_000)).encode()
    assert await keep(bench, worker.worker_id, text=text)
    assert not await keep(bench, worker.worker_id, text=b"another\n")
    async with bench.database.connection() as connection:
        (listed,) = await flight_dumps.list_dumps(connection)
        name, packed = await flight_dumps.read_dump(connection, listed["id"])
        with pytest.raises(UnknownDumpError):
            await flight_dumps.read_dump(connection, listed["id"] + 1)
    assert (listed["worker_name"], listed["bytes"]) == ("far away", len(text))
    assert listed["taken_at"].isoformat() == "2026-11-15T22:17:00.210895+00:00"
    assert name == NAME.format(worker.worker_id, 0)
    assert b"".join(unpack(packed)) == text
    assert len(packed) < len(text) / 5


async def test_the_newest_come_first_and_those_of_one_worker_can_be_asked_for(bench: Bench) -> None:
    for worker, second in ((1, 1), (2, 3), (1, 2)):
        await keep(bench, worker, second)
    assert await names(bench) == [NAME.format(2, 3), NAME.format(1, 2), NAME.format(1, 1)]
    assert await names(bench, 1) == [NAME.format(1, 2), NAME.format(1, 1)]


def test_of_a_flight_log_that_is_too_large_the_latest_part_is_kept() -> None:
    noise = random.Random(1)
    text = b"".join(noise.randbytes(60).hex().encode() + b"\n" for _ in range(100_000)) + b"the last line\n"
    packed = pack(text)
    kept = b"".join(unpack(packed))
    assert len(packed) <= MOST_PACKED_BYTES
    assert kept.startswith(LEFT_OUT)
    assert text.endswith(kept.removeprefix(LEFT_OUT))
    assert len(kept) > MOST_PACKED_BYTES / 2


@pytest.mark.parametrize(
    "name",
    [
        "../1_20261115T221730.210895Z.log",
        "1_20261115T221730.210895Z.log/x",
        "1_20261315T221730.210895Z.log",
        "99999999999_20261115T221730.210895Z.log",
        "4294967296_20261115T221730.210895Z.log",
        "server_20261115T221730.210895Z.log",
        "1_20261115T221730.210895Z.log\n",
        "",
    ],
)
async def test_what_has_another_name_is_refused(bench: Bench, name: str) -> None:
    async with bench.database.connection() as connection:
        with pytest.raises(DumpInvalidError):
            await flight_dumps.keep_dump(connection, name, pack(b"a"))


def test_what_is_not_packed_or_unpacks_to_too_much_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    for wrong in (b"", b"plain text", pack(b"a" * 1000)[:-6]):
        with pytest.raises(DumpInvalidError):
            list(unpack(wrong))
    monkeypatch.setattr(flight_dumps, "MOST_TEXT_BYTES", 1 << 20)
    pieces = unpack(zlib.compress(bytes(64 << 20)))
    assert all(next(pieces) for _ in range(4))
    with pytest.raises(DumpTooLargeError):
        next(pieces)


async def test_one_that_is_too_large_as_it_comes_is_refused(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(flight_dumps, "MOST_PACKED_BYTES", 8)
    async with bench.database.connection() as connection:
        with pytest.raises(DumpTooLargeError):
            await flight_dumps.keep_dump(connection, NAME.format(1, 0), zlib.compress(b"more than eight"))


@pytest.mark.spec("E24")
async def test_flight_logs_are_forgotten_by_number_and_by_age(bench: Bench) -> None:
    assert (bench.engine.flight_dumps, bench.engine.flight_dumps_keep_days) == (50, 30)
    for second in range(53):
        await keep(bench, 1, second)
    await bench.run("update flight_dumps set taken_at = now() - interval '29 days'")
    await bench.run("update flight_dumps set taken_at = now() where name = $1", NAME.format(1, 0))
    async with bench.database.transaction() as connection:
        await forget_old(connection, bench.engine)
    kept = await names(bench)
    assert len(kept) == 50
    assert kept[0] == NAME.format(1, 0)
    await bench.run("update flight_dumps set taken_at = taken_at - interval '2 days'")
    async with bench.database.transaction() as connection:
        await forget_old(connection, bench.engine)
    assert await names(bench) == [NAME.format(1, 0)]


def test_the_number_of_a_worker_is_one_that_the_database_can_have() -> None:
    assert flight_dumps.worker_of_name("2147483647_20261115T221730.210895Z.log") == 2**31 - 1
    with pytest.raises(DumpInvalidError, match="no such worker"):
        flight_dumps.worker_of_name("2147483648_20261115T221730.210895Z.log")


def test_a_flight_log_is_read_in_pieces_of_a_quarter_of_a_megabyte() -> None:
    pieces = [len(piece) for piece in unpack(pack(bytes(600_000)))]
    assert pieces == [262_144, 262_144, 75_712]
    assert (MOST_PACKED_BYTES, flight_dumps.MOST_TEXT_BYTES) == (1_400_000, 128 * 1024**2)


async def test_those_that_are_missing_are_named(bench: Bench) -> None:
    await keep(bench, 1, 1)
    async with bench.database.connection() as connection:
        given = [NAME.format(1, 1), NAME.format(1, 2)]
        assert await flight_dumps.missing_dumps(connection, given) == given[1:]
