"""Files are found by their text, page by page; what is gone is not."""

from __future__ import annotations

from typing import Any

import pytest

from mediamill.intake.again import delete_file
from mediamill.intake.findable import fill_findable
from mediamill.search.find import search
from mediamill.search.model import Hit, Wanted
from tests.intake.played import Ground, result_of

pytestmark = pytest.mark.spec("P1")


async def hits(ground: Ground, words: str) -> list[Hit]:
    async with ground.database.connection() as connection:
        return (await search(connection, Wanted(words=words))).hits


async def entries(ground: Ground) -> Any:
    return await ground.one("select count(*) from search_entries where source = 'file'")


async def test_an_analysed_file_is_found_by_the_text_of_its_pages(ground: Ground) -> None:
    await ground.project()
    file_id = await ground.done()
    (hit,) = await hits(ground, "thank")
    assert (hit.source, hit.title, hit.type) == ("file", "invoice.txt", "document")
    assert hit.url.startswith(f"/projects/invoices/files/{file_id}")
    assert await entries(ground) == 3, "the file and its two pages"
    async with ground.database.transaction() as connection:
        await delete_file(connection, file_id)
    assert await hits(ground, "thank") == []


async def test_a_text_without_pages_is_found_as_well(ground: Ground) -> None:
    await ground.project()
    await ground.add()
    (job,) = await ground.claim()
    await ground.finish(job, result_of(content="word " * 5000 + "needle", kind="image"))
    (hit,) = await hits(ground, "needle")
    assert hit.type == "image"


async def test_the_search_is_filled_with_what_is_missing_and_rid_of_what_is_gone(ground: Ground) -> None:
    await ground.project()
    await ground.done()
    await ground.add()
    assert await fill_findable(ground.database) == 0
    before = await entries(ground)
    await ground.run("delete from search_entries")
    await ground.run(
        "insert into search_entries (source, subject, title, search_vector) values ('file', '1/999', 'x', '')"
    )
    assert await fill_findable(ground.database, batch=1) == 3
    assert await entries(ground) == before
