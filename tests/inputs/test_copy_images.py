"""Images on their way into the database: byte for byte, a little at a time, all or nothing."""

from __future__ import annotations

import asyncio
import os
import random
import subprocess
import sys
from functools import partial

import asyncpg
import pytest

from mediamill.db.connection import LOST
from mediamill.inputs.copy_images import PIECE_BYTES
from mediamill.inputs.model import MAX_IMAGE_BYTES, Scope
from mediamill.inputs.store import queries
from tests.conftest import wait_until
from tests.inputs.conftest import ANN, Bench

SIZES = (1, 255, PIECE_BYTES - 1, PIECE_BYTES, PIECE_BYTES + 1, 20 * 1024**2)
COPYING = """
    from pg_stat_activity
    where datname = current_database() and query like 'COPY %' and wait_event_type = 'Lock'
"""
STOP_AT_FIRST_ROW = """
    create function wait_for_test() returns trigger language plpgsql as $$
    begin
        perform pg_advisory_xact_lock(77);
        return new;
    end $$;
    create trigger wait_for_test before insert on input_images for each row execute function wait_for_test()
"""
PROGRAM = """
import asyncio, sys
from pathlib import Path
from mediamill.db.connection import Database
from mediamill.inputs.accept import accept_run
from mediamill.inputs.model import NewRun, Scope, SpooledImage

def kilobytes(name):
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith(name + ":"))

async def send(database, path):
    image = SpooledImage(path, "image/png", path.stat().st_size, "")
    async with database.transaction() as connection:
        await accept_run(connection, NewRun(Scope("api", "t"), "x"), [image])

async def main(url, small, big):
    database = await Database.open(url, connections=1)
    await send(database, small)
    Path("/proc/self/clear_refs").write_text("5")  # the peak begins anew
    before = kilobytes("VmRSS")
    await send(database, big)
    print(kilobytes("VmHWM") - before)
    await database.close()

asyncio.run(main(sys.argv[1], Path(sys.argv[2]), Path(sys.argv[3])))
"""


@pytest.mark.spec("I4", "I5")
async def test_images_of_all_sizes_are_the_same_bytes_afterwards(bench: Bench) -> None:
    images = [bench.image(random.Random(size).randbytes(size)) for size in SIZES]
    run = (await bench.accept(images)).run
    for image, stored in zip(images, await bench.contents(run.run_id), strict=True):
        assert stored == image.path.read_bytes()
    assert (run.image_count, run.image_bytes) == (len(SIZES), sum(SIZES))


@pytest.mark.spec("I12")
async def test_an_image_can_be_read_in_pieces(bench: Bench) -> None:
    content = random.Random(1).randbytes(3_000_000)
    await bench.accept([bench.image(content)])
    image_id = await bench.one("select input_image_id from input_images")
    read = b""
    async with bench.database.connection() as connection:
        while piece := await queries.piece_of_image.value(
            connection, input_image_id=image_id, start=len(read) + 1, length=1_000_000
        ):
            read += piece
    assert read == content
    # Not compressed, or a piece in the middle would cost all that is before it.
    assert await bench.one(
        "select attstorage = 'e' from pg_attribute where attname = 'image_bytes' "
        "and attrelid = 'input_images'::regclass"
    )


async def test_every_field_arrives_as_it_was_also_none(bench: Bench) -> None:
    await bench.save(bench.image(b"1", filename="ä 🐈.png", mime_type="image/gif"), group="g")
    await bench.save(bench.image(b"22"), scope=Scope("cli", "t"))
    columns = "source, thread_key, user_key, run_id, telegram_media_group_id, mime_type, filename, byte_size, position"
    assert await bench.rows(f"select {columns} from input_images order by byte_size") == [
        ("telegram", ANN.thread_key, "ann", None, "g", "image/gif", "ä 🐈.png", 1, 0),
        ("cli", "t", None, None, None, "image/png", None, 2, 0),
    ]


async def test_names_of_files_that_no_database_can_keep_are_mended(bench: Bench) -> None:
    await bench.save(bench.image(filename="a\0b\ud800.png"))
    assert await bench.one("select filename from input_images") == "ab?.png"


@pytest.mark.spec("I4")
@pytest.mark.parametrize("place", [0, 1])
async def test_a_file_that_got_shorter_meanwhile_leaves_nothing(bench: Bench, place: int) -> None:
    images = [bench.image(b"x" * 600_000), bench.image(b"y" * 600_000)]
    os.truncate(images[place].path, 300_000)
    with pytest.raises(OSError, match="shorter"):
        await bench.accept(images, idempotency_key="k")
    assert await bench.rows("select 1 from runs union all select 1 from input_images") == []
    images[place].path.write_bytes(b"z" * 600_000)
    assert not (await bench.accept(images, idempotency_key="k")).repeated


async def test_a_file_that_got_longer_is_cut_where_it_ended(bench: Bench) -> None:
    images = [bench.image(b"first"), bench.image(b"second")]
    with images[0].path.open("ab") as file:
        file.write(b"and more" * 100_000)
    assert await bench.contents((await bench.accept(images)).run.run_id) == [b"first", b"second"]


async def test_a_file_that_is_gone_leaves_nothing(bench: Bench) -> None:
    image = bench.image()
    image.path.unlink()
    with pytest.raises(FileNotFoundError):
        await bench.accept([bench.image(), image])
    assert await bench.rows("select 1 from runs union all select 1 from input_images") == []


async def test_an_empty_image_is_refused_by_the_table(bench: Bench) -> None:
    with pytest.raises(asyncpg.CheckViolationError):
        await bench.accept([bench.image(b"")])


@pytest.mark.spec("I3", "I4")
@pytest.mark.parametrize("end", ["cancelled", "connection cut"])
async def test_a_message_that_is_given_up_in_the_middle_leaves_nothing(bench: Bench, end: str) -> None:
    images = [bench.image(), bench.image(bytes(20 * 1024**2))]  # more than fits into buffers on the way
    await bench.run(STOP_AT_FIRST_ROW)
    async with bench.database.transaction() as blocker:
        await blocker.execute("select pg_advisory_xact_lock(77)")
        task = asyncio.create_task(bench.accept(images, idempotency_key="k"))

        async def copying() -> bool:
            return bool(await bench.one(f"select count(*) {COPYING}"))

        await wait_until(copying)
        if end == "cancelled":
            task.cancel()
        else:
            await bench.run(f"select pg_terminate_backend(pid) {COPYING}")
        (outcome,) = await asyncio.gather(task, return_exceptions=True)
    assert isinstance(outcome, asyncio.CancelledError if end == "cancelled" else LOST)
    assert not (await bench.accept([bench.image()], idempotency_key="k")).repeated
    assert await bench.rows("select image_count from runs") == [(1,)]
    assert await bench.one("select count(*) from input_images") == 1


@pytest.mark.spec("I12")
async def test_fifty_mebibytes_cost_little_memory(bench: Bench, new_url: str) -> None:
    small, big = bench.image(b"x" * 1_000_000), bench.image(b"x")
    os.truncate(big.path, MAX_IMAGE_BYTES)
    command = [sys.executable, "-c", PROGRAM, new_url, str(small.path), str(big.path)]
    run = partial(subprocess.run, command, capture_output=True, text=True, timeout=120)
    done = await asyncio.to_thread(run)
    assert done.returncode == 0, done.stderr
    assert await bench.one("select max(octet_length(image_bytes)) from input_images") == MAX_IMAGE_BYTES
    print(f"peak memory for 50 MiB: {int(done.stdout) / 1024:.1f} MB more")
    assert int(done.stdout) < 25 * 1024
