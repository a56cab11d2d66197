"""Pages that were left out are named, and read when a person asks for it; what was read is not read again."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from PIL import Image

from mediamill.db.connection import Database
from mediamill.intake.look import page_texts
from mediamill.intake.read_on import NothingLeftError, read_on
from mediamill.processors.intake.kept import pack
from tests.intake.failing import until
from tests.intake.played import Ground, result_of
from tests.intake_documents import scan

LEFT_OUT: dict[str, Any] = {"facts": {"pages": 5, "unread": [[4, 5]]}}


async def go_on(ground: Ground, file_id: int) -> None:
    async with ground.database.transaction() as connection:
        await read_on(connection, ground.enqueuer, ground.settings, file_id)


@pytest.mark.spec("P8")
async def test_a_file_that_is_too_long_says_which_pages_were_left_out_and_reads_on_from_there(
    database: Database, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MEDIAMILL_DOCUMENT_PAGES", "3")  # for the child
    ground = Ground.on(database, tmp_path / "data")
    await ground.project()
    blank = Image.new("L", (120, 60), 255)
    last = scan(["Invoice number: 4711"], size=(620, 200), letters=36)
    blank.save(tmp_path / "s.pdf", "PDF", resolution=72, save_all=True, append_images=[blank] * 3 + [last])
    file = await ground.add(content=(tmp_path / "s.pdf").read_bytes(), name="s.pdf")
    async with ground.working():
        shown = await until(ground, file["id"], "completed")
        assert (shown["unread"], shown["proposals"]) == ("Pages 4 and 5 were not read", [])
        # What a page says that was read before; nobody would know this text otherwise.
        told = json.dumps(pack("Read before"))
        page = "jsonb_set(kept, '{1,facts,page}', $1::jsonb)"
        await ground.run(f"update analyses set kept = {page}", told)
        await go_on(ground, file["id"])
        shown = await until(ground, file["id"], "completed")
    assert shown["unread"] is None
    assert [(one["value"], one["page"]) for one in shown["proposals"]] == [("4711", 5)]
    async with ground.database.connection() as connection:
        texts = [page["text"] for page in await page_texts(connection, file["id"])]
    assert texts[:4] == ["", "Read before", "", ""]
    assert "4711" in texts[4]
    with pytest.raises(NothingLeftError):
        await go_on(ground, file["id"])


@pytest.mark.spec("P8")
async def test_each_time_as_many_pages_more_are_read(ground: Ground) -> None:
    await ground.project()
    file_id = await ground.done(**LEFT_OUT)
    for rounds in (2, 3):
        await go_on(ground, file_id)
        with pytest.raises(NothingLeftError):
            await go_on(ground, file_id)  # it is being read
        (job,) = await ground.claim()
        assert json.loads(job.payload_json)["rounds"] == rounds
        await ground.finish(job, result_of(**LEFT_OUT))
    assert (await ground.show(file_id))["unread"] == "Pages 4 and 5 were not read"


@pytest.mark.spec("P8")
async def test_every_page_has_the_time_limit_for_itself(ground: Ground) -> None:
    await ground.project()
    await ground.run("update pools set processor = 'scripted', timeout_seconds = 1 where name = 'intake'")
    file = await ground.add()
    script = {"do": "report", "times": 5, "seconds": 0.4, "result": result_of()}
    await ground.run("update jobs set payload = payload || $1::jsonb", json.dumps(script))
    async with ground.working():
        shown = await until(ground, file["id"], "completed")
    assert shown["attempts"] == 1
