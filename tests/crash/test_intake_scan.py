"""A scan of 400 pages is read whole, however often it is interrupted; no page is read twice."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from PIL import Image

from mediamill.intake.look import page_texts
from tests.conftest import wait_until
from tests.crash.intake_ground import COMPLETED, database, ground
from tests.crash.processes import Mill, mill
from tests.intake.played import Ground
from tests.intake_documents import scan

__all__ = ["database", "ground", "mill"]

PAGES, WORDS = 400, 16  # most pages of it are blank: they cost next to nothing
WRITTEN = tuple(range(PAGES // WORDS, PAGES + 1, PAGES // WORDS))
KEPT = "select count(*) from kept_files"
# Pages that were begun, as the reports of the job tell it, and pages that were kept: each with the attempt.
COUNT_READS = """
create table begun (page text, attempt integer);
create table done (page text, attempt integer);
create function note_begun() returns trigger language plpgsql as $$
begin
    insert into begun select key, new.attempts from jsonb_object_keys(new.checkpoint -> 'begun_pages') key;
    return null;
end $$;
create function note_done() returns trigger language plpgsql as $$
begin
    insert into done values (substring(new.name from '[0-9]+'), (new.facts ->> 'attempt')::integer);
    return null;
end $$;
create trigger note_begun after update of checkpoint on jobs for each row
    when (new.checkpoint ? 'begun_pages') execute function note_begun();
create trigger note_done after insert or update on kept_files for each row execute function note_done();
"""
AGAIN = "select count(*) from begun b join done d using (page) where b.attempt > d.attempt"


def make_scan(path: Path, pages: int, written: tuple[int, ...]) -> bytes:
    """A scan with a word on some of its pages."""
    blank = Image.new("L", (120, 60), 255)
    images = [
        scan([f"Page {n}"], size=(340, 200), letters=40) if n in written else blank
        for n in range(1, pages + 1)
    ]
    images[0].save(path, "PDF", resolution=72, save_all=True, append_images=images[1:])
    return path.read_bytes()


@pytest.mark.spec("P8", "P2")
async def test_a_scan_of_400_pages_is_read_whole_though_it_is_killed_twice_and_no_page_is_read_twice(
    mill: Mill, ground: Ground
) -> None:
    await ground.run("update pools set backoff_seconds = 0 where name = 'intake'")
    await ground.run(COUNT_READS)
    file = await ground.add(content=make_scan(mill.folder / "scan.pdf", PAGES, WRITTEN), name="scan.pdf")
    worker = await mill.started("worker", "--pools", "intake", "--name", "first")
    await wait_until(lambda: ground.one(f"select ({KEPT}) >= 100"))
    for child in worker.children():
        child.kill()
    await wait_until(lambda: ground.one(f"select ({KEPT}) >= 220"))
    worker.kill()
    await mill.started("worker", "--pools", "intake", "--name", "second")
    await wait_until(lambda: ground.one(COMPLETED))
    shown = await ground.show(file["id"])
    assert (shown["attempts"], shown["unread"], shown["facts"]["pages_read"]) == (3, None, PAGES)
    async with ground.database.connection() as connection:
        texts = {page["number"]: page["text"] for page in await page_texts(connection, file["id"])}
    assert [n for n, text in texts.items() if text.strip()] == list(WRITTEN)
    assert all(f"Page {n}" in texts[n] for n in WRITTEN)
    done = json.loads(await ground.one("select json_agg(d order by d.page::integer) from done d"))
    assert [int(row["page"]) for row in done] == list(range(1, PAGES + 1)), "each page is read and kept once"
    assert {row["attempt"] for row in done} == {1, 2, 3}
    assert await ground.one(AGAIN) == 0, "what was kept is not begun again"
