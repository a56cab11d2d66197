"""Killed with -9 at each step on the way of a project file: it ends once, and nothing is left lying around."""

from __future__ import annotations

import asyncio
import json
import os
import re
from collections.abc import Iterator
from contextlib import suppress
from urllib.parse import urlsplit

import httpx
import psutil
import pytest

from mediamill.intake.again import delete_file
from mediamill.intake.model import FILES, OUTPUTS, PARTS
from mediamill.intake.projects import delete_project
from mediamill.intake.watch import look_at_folders
from mediamill.local_key import local_key, sign_pass
from mediamill.processors.intake.kept import pack
from tests.conftest import wait_until
from tests.crash.doomed_intake import DELETION, SWEEP, UPLOAD, WATCH, WORK
from tests.crash.intake_ground import (
    COMPLETED,
    FIELDS,
    SCANS,
    Doomed,
    database,
    ground,
    make_scans,
)
from tests.crash.intake_order import assert_in_order, files_below, kill_family, sweep
from tests.crash.processes import Mill, Process, mill
from tests.crash.shaky_model import ShakyModel, invoice
from tests.intake.played import Ground

__all__ = ["database", "ground", "mill"]

MEGABYTE = 1 << 20


@pytest.fixture
def model(mill: Mill) -> Iterator[ShakyModel]:
    """One that never fails, for all processes."""
    with ShakyModel(share=0) as model:
        mill.settings |= {"MEDIAMILL_TEXT": "openai", "MEDIAMILL_OPENAI_URL": f"{model.url}/v1"}
        yield model


def url_of(server: Process) -> str:
    found = re.search(r"is up: (\S+)", server.said)
    assert found is not None, server.said
    return found[1]


async def finish(ground: Ground) -> None:
    """Whoever is left does the work."""
    async with ground.working():
        await wait_until(lambda: ground.one(COMPLETED))
    await assert_in_order(ground)


async def work(mill: Mill, ground: Ground, ended: str = COMPLETED) -> None:
    """The same by another process, which has the model."""
    heir = await mill.started("worker", "--pools", "intake", "--name", "heir")
    await mill.until(ended)
    await mill.until("select not exists (select from jobs)")
    await kill_family(heir)
    await assert_in_order(ground)


@pytest.mark.spec("P1")
async def test_a_server_that_is_killed_while_the_body_arrives_keeps_nothing_of_it(
    mill: Mill, ground: Ground
) -> None:
    server = await mill.started("up", "--workers", "0")
    content, where = invoice(1) + bytes(8 * MEGABYTE), urlsplit(url_of(server))
    _, writer = await asyncio.open_connection(where.hostname, where.port)
    head = f"POST /api/projects/invoices/files?name=a.txt HTTP/1.1\r\nHost: {where.netloc}\r\n"
    head += f"Authorization: Bearer {sign_pass(local_key(ground.data))}\r\n"
    writer.write(f"{head}Content-Length: {len(content)}\r\n\r\n".encode() + content[: 4 * MEGABYTE])
    parts = ground.data / PARTS

    async def half_there() -> bool:
        return any(part.stat().st_size >= MEGABYTE for part in parts.glob("*"))

    await wait_until(half_there)
    server.kill()
    writer.close()
    assert await ground.one("select count(*) from project_files") == 0
    assert len(files_below(parts)) == 1
    assert await sweep(ground) == 1
    await ground.add(content=invoice(1))
    await finish(ground)


@pytest.mark.spec("P1", "P5")
@pytest.mark.parametrize("step", UPLOAD)
async def test_a_server_that_is_killed_when_the_body_is_there_has_the_file_whole_or_not_at_all(
    mill: Mill, ground: Ground, step: str
) -> None:
    doomed = Doomed(mill, "upload", step, "up", "--workers", "0")
    await doomed.until_said("is up: ")
    async with httpx.AsyncClient(auth=mill.owner) as client:
        with pytest.raises(httpx.TransportError):
            await client.post(
                f"{url_of(doomed)}/api/projects/invoices/files?name=a.txt", content=invoice(1), timeout=120
            )
    await doomed.until_dead()
    there = await ground.one("select count(*) from project_files")
    assert there == (1 if step == "before_the_answer" else 0)
    assert await ground.one("select count(*) from jobs where kind = 'file.analyse'") == there
    await sweep(ground)
    assert len(files_below(ground.data / FILES)) == there
    again = await ground.add(content=invoice(1), name="a.txt")  # nobody has told the sender
    assert (again["twin_of"] is not None) == bool(there)
    await finish(ground)
    assert await ground.one("select count(*) from finished_jobs where pool = 'intake'") == 1


@pytest.mark.spec("P2", "P4", "P5", "E9")
@pytest.mark.parametrize("step", WORK)
async def test_a_worker_that_is_killed_leaves_its_file_to_another_which_does_nothing_dear_again(
    mill: Mill, ground: Ground, model: ShakyModel, step: str
) -> None:
    file = await ground.add(content=invoice(1))
    await Doomed(mill, "work", step, "worker", "--pools", "intake", "--name", "doomed").until_dead()
    saved = await ground.one("select coalesce(checkpoint ? 'answer', false) from jobs")
    done = step == "when_it_is_settled"
    assert (await ground.one(COMPLETED)) == done
    if step in ("when_the_answer_is_kept", "before_it_is_settled", "within_the_settling"):
        assert saved
    asked = model.asked[1]
    await work(mill, ground)
    assert model.asked[1] == (asked if saved or done else asked + 1)
    shown = await ground.show(file["id"])
    assert shown["attempts"] == (1 if step in ("within_the_claim", "when_it_is_settled") else 2)
    found = {one["field"]: one["value"] for one in shown["proposals"]}
    assert found == {"invoice_number": "INV-1", "total": "1.50"}


@pytest.mark.spec("P3", "E9")
async def test_a_worker_that_is_killed_while_it_reads_scans_leaves_what_it_has_read(
    mill: Mill, ground: Ground
) -> None:
    file = await ground.add(content=make_scans(mill.folder / "scan.pdf"), name="scan.pdf")
    await Doomed(mill, "scan", "here", "worker", "--pools", "intake", "--name", "doomed").until_dead()
    assert await ground.one("select count(*) from kept_files") == 1
    # Whoever reads that page again does not see this.
    marked = {"size": [1240, 400], "pieces": [["As it was read before", 100, 100, 600, 140]]}
    await ground.run("update kept_files set facts = $1::jsonb", json.dumps({"page": pack(marked)}))
    await work(mill, ground)
    shown = await ground.show(file["id"])
    assert shown["attempts"] == 2
    assert "As it was read before" in shown["text"]
    assert [f"Page {n} of the letter" in shown["text"] for n in range(SCANS)].count(False) == 1


@pytest.mark.spec("P2", "E8", "E9")
async def test_a_file_that_takes_every_worker_with_it_fails_with_a_reason(mill: Mill, ground: Ground) -> None:
    file = await ground.add(content=invoice(1))
    for _ in range((await ground.pool()).max_attempts):
        await Doomed(mill, "work", "when_it_is_claimed", "worker", "--pools", "intake").until_dead()
    await work(mill, ground, "select state = 'failed' from analyses")
    shown = await ground.show(file["id"])
    assert (shown["state"], shown["attempts"]) == ("failed", 3)
    assert shown["error"].startswith("max_attempts_exhausted")


@pytest.mark.spec("P3", "E7")
async def test_a_child_that_is_killed_fails_the_attempt_and_no_more(
    mill: Mill, ground: Ground, model: ShakyModel
) -> None:
    await ground.run("update pools set backoff_seconds = 0.1 where name = 'intake'")
    model.mute.set()
    file = await ground.add(content=invoice(1))
    worker = await mill.started("worker", "--pools", "intake", "--name", "steady")

    async def asks() -> bool:
        return model.asked[1] == 1

    await wait_until(asks)
    model.mute.clear()  # for whoever asks from now on
    for child in worker.children():
        with suppress(psutil.NoSuchProcess):
            child.kill()
    await mill.until(COMPLETED)
    shown = await ground.show(file["id"])
    assert (shown["attempts"], shown["error"]) == (2, None)
    await kill_family(worker)
    await assert_in_order(ground)
    assert "Traceback" not in worker.said


@pytest.mark.spec("P1")
@pytest.mark.parametrize("step", WATCH)
async def test_a_server_that_is_killed_while_it_looks_at_a_folder_takes_every_file_once(
    mill: Mill, ground: Ground, step: str
) -> None:
    folder = mill.folder / "watched"
    folder.mkdir()
    for number in range(3):
        (folder / f"{number}.txt").write_bytes(invoice(number))
    await ground.run("update projects set watch_path = $1", str(folder))
    mill.settings["MEDIAMILL_INTAKE_WATCH_SECONDS"] = "0.2"
    await Doomed(mill, "watch", step, "up", "--workers", "0").until_dead()
    taken = await ground.one("select count(*) from project_files")
    assert taken == (1 if step == "when_one_is_taken" else 0)
    for _ in range(2):  # what the dead one saw may have changed since, as far as anybody knows
        await look_at_folders(ground.database, ground.enqueuer, ground.settings)
    names = await ground.one("select string_agg(name, ' ' order by name) from project_files")
    assert names == "0.txt 1.txt 2.txt"
    assert await ground.one("select count(*) from watched_files where taken") == 3
    await finish(ground)
    assert sorted(path.name for path in folder.iterdir()) == ["0.txt", "1.txt", "2.txt"]


async def fill(ground: Ground) -> int:
    """Two projects with a file in common, one of their own each, and one that failed."""
    await ground.project("Others", FIELDS)
    await ground.done(content=invoice(1))
    await ground.done(content=invoice(2))
    await ground.add("others", invoice(2))
    await ground.done("others", invoice(3))
    await ground.add(content=invoice(4))
    (job,) = await ground.claim()
    await ground.fail(job, "it is damaged", permanent=True)
    assert len(files_below(ground.data / FILES)) == 4
    return int(await ground.one("select count(*) from project_files"))


@pytest.mark.spec("P1", "P5")
@pytest.mark.parametrize("step", DELETION)
async def test_a_deletion_that_is_killed_has_happened_or_not(mill: Mill, ground: Ground, step: str) -> None:
    files = await fill(ground)
    await Doomed(mill, "deletion", step, "intake", "delete", "invoices", "--yes", "--json").until_dead()
    if step == "before_the_commit":
        assert await ground.one("select count(*) from project_files") == files
        await assert_in_order(ground)
        assert len(files_below(ground.data / FILES)) == 4
        assert (await mill.say("intake", "delete", "invoices", "--yes"))[0] == 0
    assert await ground.one("select count(*) from projects") == 1
    assert await ground.one("select count(*) from project_files") == 2
    assert await ground.one("select count(*) from dead_jobs") == 0
    assert len(files_below(ground.data / FILES)) == 4
    await assert_in_order(ground)
    assert len(files_below(ground.data / FILES)) == 2
    assert len(list((ground.data / OUTPUTS).glob("*/*"))) == 2


@pytest.mark.spec("P1", "E9")
async def test_a_project_that_is_deleted_while_a_killed_worker_had_its_file_leaves_nothing(
    mill: Mill, ground: Ground, model: ShakyModel
) -> None:
    await ground.add(content=invoice(1))
    await Doomed(mill, "work", "when_the_outputs_are_there", "worker", "--pools", "intake").until_dead()
    async with ground.database.transaction() as connection:
        await delete_project(connection, "invoices")
    await work(mill, ground, "select not exists (select from jobs)")
    assert files_below(ground.data / FILES) == files_below(ground.data / OUTPUTS) == set()
    assert model.asked[1] == 1


@pytest.mark.spec("P1", "P5")
@pytest.mark.parametrize("step", SWEEP)
async def test_a_sweep_that_is_killed_is_gone_on_with(mill: Mill, ground: Ground, step: str) -> None:
    await fill(ground)
    for number in range(5, 8):
        file = await ground.done(content=invoice(number))
        async with ground.database.transaction() as connection:
            await delete_file(connection, file)
    await ground.run(
        "insert into analyses (sha256, catalog, extractor, mime_type, bytes, state, created_at) "
        "select sha256, catalog, 'gone', mime_type, bytes, 'completed', '2020-01-01' from analyses"
    )
    (ground.data / PARTS).mkdir(exist_ok=True)
    for number in range(3):
        (ground.data / PARTS / f"{number}.part").write_bytes(b"some")
    for path in (ground.data / "intake").rglob("*"):
        os.utime(path, (0, 0))
    await Doomed(mill, "sweep", step, "up", "--workers", "0").until_dead()
    await assert_in_order(ground)
    assert len(files_below(ground.data / FILES)) == 4
    assert len(list((ground.data / OUTPUTS).glob("*/*"))) == 3
    assert await sweep(ground) == 0
