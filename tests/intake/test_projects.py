"""Projects: added, edited, listed, deleted; their fields; what cannot be one."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from mediamill.errors import MediamillError
from mediamill.intake.fields import set_fields
from mediamill.intake.model import (
    BadFieldError,
    BadProjectError,
    Field,
    ProjectExistsError,
    UnknownFileError,
    UnknownProjectError,
    catalog_of,
    check_fields,
    clean_file_name,
)
from mediamill.intake.projects import add_project, delete_project, edit_project, list_projects, show_project
from tests.intake.played import FIELDS, Ground

pytestmark = pytest.mark.spec("P1")


async def show(ground: Ground, slug: str = "invoices") -> dict[str, Any]:
    async with ground.database.connection() as connection:
        return await show_project(connection, slug)


async def edit(ground: Ground, slug: str = "invoices", **changes: Any) -> None:
    async with ground.database.transaction() as connection:
        await edit_project(connection, slug, **changes)


async def delete(ground: Ground, slug: str = "invoices") -> None:
    async with ground.database.transaction() as connection:
        await delete_project(connection, slug)


async def test_a_project_has_a_name_a_slug_and_fields_in_their_order(ground: Ground) -> None:
    assert await ground.project("Rechnungen für März", description="All of them") == "rechnungen-fur-marz"
    shown = await show(ground, "rechnungen-fur-marz")
    assert (shown["name"], shown["description"]) == ("Rechnungen für März", "All of them")
    assert [field["name"] for field in shown["fields"]] == [field.name for field in FIELDS]
    assert shown["fields"][1] == {
        "name": "total",
        "type": "amount",
        "label": "Total",
        "description": "",
        "unit": "EUR",
        "categories": [],
    }
    assert shown["counts"] == {"queued": 0, "processing": 0, "completed": 0, "failed": 0}


async def test_a_name_is_taken_once_and_a_slug_can_be_chosen(ground: Ground) -> None:
    await ground.project("Invoices")
    with pytest.raises(ProjectExistsError):
        await ground.project("invoices!")
    assert await ground.project("請求書", slug="seikyu") == "seikyu"
    with pytest.raises(BadProjectError):
        await ground.project("請求書")
    with pytest.raises(BadProjectError):
        await ground.project("x", slug="../x")
    async with ground.database.connection() as connection:
        assert [one["slug"] for one in await list_projects(connection)] == ["invoices", "seikyu"]


@pytest.mark.parametrize("name", ["", " ", "x" * 201, "a\0b", "a\x1bb"])
async def test_a_name_that_nobody_could_read_is_refused(ground: Ground, name: str) -> None:
    with pytest.raises(BadProjectError):
        await ground.project(name, slug="a")


@pytest.mark.parametrize(
    "bad", [{"name": "Total"}, {"name": "1a"}, {"name": "a" * 61}, {"type": "money"}, {"label": "x" * 201}]
)
def test_a_field_that_cannot_be_one_is_refused_with_what_to_do(bad: dict[str, Any]) -> None:
    with pytest.raises(BadFieldError):
        Field(**{"name": "total", **bad})


def test_a_field_is_labelled_by_its_name_and_a_catalog_has_each_once() -> None:
    assert Field("invoice_number").label == "Invoice number"
    with pytest.raises(BadFieldError):
        check_fields([Field("a"), Field("a", "date")])
    with pytest.raises(BadFieldError):
        check_fields([Field(f"f{number}") for number in range(201)])


def test_the_order_of_fields_makes_no_other_catalog_but_their_words_do() -> None:
    one, other = Field("a"), Field("b", "date")
    assert catalog_of([one, other]) == catalog_of([other, one])
    assert catalog_of([one]) != catalog_of([Field("a", description="the first")])


async def test_fields_are_replaced_as_a_whole(ground: Ground) -> None:
    await ground.project()
    async with ground.database.transaction() as connection:
        await set_fields(connection, "invoices", [Field("due", "date"), Field("total", "number")])
    assert [(one["name"], one["type"]) for one in (await show(ground))["fields"]] == [
        ("due", "date"),
        ("total", "number"),
    ]
    async with ground.database.transaction() as connection:
        with pytest.raises(UnknownProjectError):
            await set_fields(connection, "nothing", [])


async def test_what_is_given_is_edited_and_the_rest_stays(ground: Ground, tmp_path: Path) -> None:
    await ground.project(description="old")
    await edit(ground, name="Bills", watch_path=str(tmp_path))
    shown = await show(ground)
    assert (shown["name"], shown["description"], shown["watch_path"]) == ("Bills", "old", str(tmp_path))
    await edit(ground, description="new")
    assert (await show(ground))["watch_path"] == str(tmp_path)
    await edit(ground, watch_path="")
    assert (await show(ground))["watch_path"] is None
    with pytest.raises(UnknownProjectError):
        await edit(ground, "nothing", name="x")


@pytest.mark.parametrize("path", ["relative", "/not/there", "/etc/passwd", "/a\0b", "/\udcff"])
async def test_a_watched_folder_is_a_folder_that_can_be_seen(ground: Ground, path: str) -> None:
    with pytest.raises(BadProjectError):
        await ground.project(watch_path=path)


async def test_a_deleted_project_is_gone_with_its_files_and_its_jobs(ground: Ground) -> None:
    await ground.project()
    file = await ground.add()
    done = await ground.done(content=b"another")
    await ground.add(content=b"waits")
    await delete(ground)
    with pytest.raises(UnknownProjectError):
        await show(ground)
    for file_id in (file["id"], done):
        with pytest.raises(UnknownFileError):
            await ground.show(file_id)
    for table in ("jobs", "analyses", "proposals", "project_fields", "project_files", "search_entries"):
        assert await ground.one(f"select count(*) from {table}") == 0, table


@pytest.mark.spec("P5")
async def test_what_another_project_shares_with_a_deleted_one_stays(ground: Ground) -> None:
    await ground.project()
    await ground.project("Others")
    await ground.done()
    waits = await ground.add(content=b"waits in both")
    twin, other = await ground.add("others"), await ground.add("others", b"waits in both")
    assert other["twin_of"] == waits["id"]
    await delete(ground)
    shown = await ground.show(twin["id"])
    assert (shown["state"], shown["twin_of"]) == ("completed", None)
    assert len(shown["proposals"]) == 2
    (job,) = await ground.claim()
    assert (await ground.finish(job)).done == {job.id}
    assert (await ground.show(other["id"]))["state"] == "completed"


async def test_a_job_that_runs_while_its_project_is_deleted_completes_nothing(ground: Ground) -> None:
    await ground.project()
    await ground.add()
    (job,) = await ground.claim()
    await delete(ground)
    assert (await ground.finish(job)).done == {job.id}
    assert await ground.one("select count(*) from analyses") == 0


async def test_a_file_for_a_project_that_is_not_there_is_refused_before_it_is_read(ground: Ground) -> None:
    with pytest.raises(MediamillError) as refused:
        await ground.add("nothing")
    assert refused.value.code == "unknown_project"
    assert not (ground.data / "intake").exists()


def test_names_of_files_become_one_line_whatever_they_hold() -> None:
    assert clean_file_name("a\nb\x1b[31m.pdf") == "a\\nb\\x1b[31m.pdf"
    assert clean_file_name(b"caf\xe9.pdf") == "caf\N{REPLACEMENT CHARACTER}.pdf"
    assert clean_file_name("\u202egpj.exe") == "\\u202egpj.exe"
    assert clean_file_name("  ") == "file"
    assert len(clean_file_name("x" * 1000 + ".pdf")) == 255
    assert clean_file_name("x" * 1000 + ".pdf").endswith(".pdf")


async def test_a_project_can_be_added_with_all_it_has(ground: Ground, tmp_path: Path) -> None:
    async with ground.database.transaction() as connection:
        slug = await add_project(connection, "A", fields=FIELDS, watch_path=f"{tmp_path}/", description=" x ")
    shown = await show(ground, slug)
    assert (shown["watch_path"], shown["description"]) == (str(tmp_path), "x")


@pytest.mark.spec("P11")
async def test_a_watched_folder_may_be_below_the_home_folder(
    ground: Ground, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "scans").mkdir()
    monkeypatch.setenv("HOME", str(tmp_path))
    await ground.project(watch_path="~/scans")
    assert (await show(ground))["watch_path"] == str(tmp_path / "scans")
    await edit(ground, watch_path="~")
    assert (await show(ground))["watch_path"] == str(tmp_path)
    with pytest.raises(BadProjectError):
        await edit(ground, watch_path="~nobody-of-that-name/scans")
