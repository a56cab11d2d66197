"""Files are found by their text, page by page; what is gone is not."""

from __future__ import annotations

import json
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


async def test_an_entry_leads_to_its_page_and_says_whose_it_is(ground: Ground) -> None:
    await ground.project()
    file = await ground.add()
    (job,) = await ground.claim()
    await ground.finish(job, result_of(), pages=("Invoice", " ", "Thank you"))
    async with ground.database.connection() as connection:
        rows = await connection.fetch(
            "select title, body, url, facts::text, happened_at from search_entries order by part"
        )
    whole = {"type": "document", "project": "invoices", "project_name": "Invoices", "file": file["id"]}
    url = f"/projects/invoices/files/{file['id']}"
    assert [(row["title"], row["body"], row["url"], json.loads(row["facts"])) for row in rows] == [
        ("invoice.txt", "An invoice over 12.50 EUR", url, whole),
        ("invoice.txt", "Invoice", f"{url}?page=1", {**whole, "page": 1, "label": "Page 1"}),
        ("invoice.txt", "Thank you", f"{url}?page=3", {**whole, "page": 3, "label": "Page 3"}),
    ]
    assert {row["happened_at"] for row in rows} == {file["created_at"]}


async def test_a_long_text_is_cut_into_pieces_without_a_gap(ground: Ground) -> None:
    await ground.project()
    await ground.add()
    (job,) = await ground.claim()
    text = "".join(f"{number:08} " for number in range(2_500))
    await ground.finish(job, result_of(content=text, summary=""))
    bodies = await ground.one("select array_agg(body order by part) from search_entries")
    assert [len(body) for body in bodies] == [0, 10_000, 10_000, 2_500]
    assert "".join(bodies) == text


async def test_of_a_file_five_hundred_pages_are_found(ground: Ground) -> None:
    await ground.project()
    await ground.add()
    (job,) = await ground.claim()
    await ground.finish(job, result_of(), pages=["x"] * 501)
    assert await entries(ground) == 1 + 500


async def test_what_is_filled_is_what_is_missing_in_whatever_batches(ground: Ground) -> None:
    await ground.project()
    ids = [await ground.done(content=bytes([number])) for number in range(3)]
    await ground.run("delete from search_entries where subject like '%/' || $1", str(ids[0]))
    await ground.run(
        "update search_entries set title = 'old name' where subject like '%/' || $1", str(ids[2])
    )
    for number in range(3):
        await ground.run(
            "insert into search_entries (source, subject, title, search_vector) values ('file', $1, 'x', '')",
            f"1/99{number}",
        )
    assert await fill_findable(ground.database, batch=2) == 2 + 3
    assert await fill_findable(ground.database, batch=2) == 0
    assert await ground.one("select array_agg(distinct title) from search_entries") == ["invoice.txt"]
    assert await entries(ground) == 3 * 3
