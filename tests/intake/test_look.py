"""What is shown of files: all of it in the list and beside the file, and a page at a time."""

from __future__ import annotations

from typing import Any

import pytest

from mediamill.intake.look import (
    file_states,
    list_files,
    page_image,
    page_texts,
    thumbnail,
    with_thumbnail,
)
from mediamill.intake.model import NoSuchPageError, UnknownFileError
from mediamill.intake.projects import list_projects
from mediamill.intake.proposals import list_proposals
from tests.intake.played import INVOICE, Ground, found

pytestmark = pytest.mark.spec("P1")


async def listed(ground: Ground, **given: Any) -> dict[str, Any]:
    async with ground.database.connection() as connection:
        return await list_files(connection, ground.settings, "invoices", **given)


async def test_the_list_shows_of_a_file_all_but_its_long_texts(ground: Ground) -> None:
    await ground.project()
    file_id = await ground.done(unsupported="a picture in it", tags=[{"tag": "bill"}])
    shown = await ground.show(file_id)
    (one,) = (await listed(ground))["files"]
    assert one == {name: shown[name] for name in one}
    assert shown.keys() - one.keys() == {
        *("text", "pages", "models", "tags", "facts", "proposals", "priority", "unmapped")
    }
    assert (one["id"], one["name"], one["project"], one["source"]) == (
        file_id,
        "invoice.txt",
        "invoices",
        "upload",
    )
    assert (one["state"], one["attempts"], one["bytes"]) == ("completed", 1, len(INVOICE))
    assert (one["kind"], one["unsupported"], one["thumbnail"]) == ("document", "a picture in it", True)
    assert (one["outdated"], one["counts"]) == (False, {"pending": 2, "accepted": 0, "rejected": 0})
    assert not {"project_id", "analysis_id", "catalog", "result", "output"} & shown.keys()
    assert (shown["tags"], shown["facts"], shown["models"]) == ([{"tag": "bill"}], {"pages": 1}, ["rules@1"])


async def test_a_file_that_waits_shows_that_nothing_is_known_yet(ground: Ground) -> None:
    await ground.project()
    shown = await ground.show((await ground.add())["id"])
    assert (shown["kind"], shown["thumbnail"], shown["outdated"], shown["text"]) == (None, False, False, None)
    nothing = (shown["pages"], shown["models"], shown["tags"], shown["facts"], shown["proposals"])
    assert nothing == ([], [], [], {}, [])


async def test_without_a_wish_a_page_has_a_hundred(ground: Ground) -> None:
    await ground.project()
    file_id = await ground.done(fields=[found("total", "1")])
    await ground.run(
        "insert into project_files (project_id, analysis_id, name)"
        " select project_id, analysis_id, 'file ' || n from project_files, generate_series(1, 100) n"
    )
    await ground.run(
        "insert into proposals (file_id, field, confidence, value, origin)"
        " select file_id, field, 0.5, n::text, 'x' from proposals, generate_series(2, 101) n"
    )
    first = await listed(ground)
    assert (len(first["files"]), first["next"]) == (100, str(first["files"][-1]["id"]))
    rest = await listed(ground, after=first["next"])
    assert ([file["id"] for file in rest["files"]], rest["next"]) == ([file_id], None)
    async with ground.database.connection() as connection:
        page = await list_proposals(connection, "invoices")
        assert len(page["proposals"]) == 100
        left = await list_proposals(connection, "invoices", after=page["next"])
        assert (len(left["proposals"]), left["next"]) == (1, None)
        full = await list_proposals(connection, "invoices", amount=101)
        assert (len(full["proposals"]), full["next"]) == (101, None)


async def test_pictures_and_texts_of_pages_are_there_for_what_was_drawn(ground: Ground) -> None:
    await ground.project()
    drawn = await ground.done()
    plain = await ground.add(content=b"plain")
    (job,) = await ground.claim()
    await ground.finish(job)
    waits = await ground.add(content=b"waits")
    async with ground.database.connection() as connection:
        assert (await page_image(connection, drawn, 1)).endswith("/page-00001.webp")
        assert (await thumbnail(connection, drawn)).endswith("/thumbnail.jpg")
        assert await page_texts(connection, drawn) == [
            {"number": 1, "label": "Page 1", "text": "Invoice 4711"},
            {"number": 2, "label": "Page 2", "text": "Thank you"},
        ]
        for file in (plain, waits):
            assert await page_texts(connection, file["id"]) == []
            with pytest.raises(NoSuchPageError, match="page 1") as none:
                await page_image(connection, file["id"], 1)
            assert none.value.code == "no_such_page"
            with pytest.raises(NoSuchPageError, match="no small picture"):
                await thumbnail(connection, file["id"])
        ids = [drawn, plain["id"], waits["id"], 10**9]
        assert await with_thumbnail(connection, ids) == [drawn]
        assert await file_states(connection, ids) == {
            drawn: {"state": "completed", "error": None},
            plain["id"]: {"state": "completed", "error": None},
            waits["id"]: {"state": "queued", "error": None},
        }
        assert await page_texts(connection, 10**9) == []
        with pytest.raises(UnknownFileError) as unknown:
            await page_image(connection, 10**9, 1)
        assert unknown.value.code == "unknown_file"


async def test_projects_are_listed_with_what_is_in_each(ground: Ground) -> None:
    await ground.project()
    await ground.project("Bills", description="paid ones")
    await ground.done()
    await ground.add(content=b"waits")
    async with ground.database.connection() as connection:
        bills, invoices = await list_projects(connection)
    assert (bills["name"], bills["description"], bills["pending_proposals"]) == ("Bills", "paid ones", 0)
    assert bills["counts"] == {"queued": 0, "processing": 0, "completed": 0, "failed": 0}
    assert (invoices["slug"], invoices["description"], invoices["pending_proposals"]) == ("invoices", "", 2)
    assert invoices["counts"] == {"queued": 1, "processing": 0, "completed": 1, "failed": 0}
