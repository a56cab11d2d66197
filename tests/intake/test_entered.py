"""A person enters what was not found, or not rightly: accepted at once, and never touched by an analysis."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from mediamill.intake.export import export_rows
from mediamill.intake.fields import set_fields
from mediamill.intake.model import UnknownFieldError, UnknownFileError
from mediamill.intake.proposals import accept, accept_all, enter_value, reopen
from mediamill.intake.values import BadValueError
from tests.intake.played import Ground, found, result_of

pytestmark = pytest.mark.spec("P6")


async def enter(ground: Ground, file_id: int, field: str, value: str) -> dict[str, Any]:
    async with ground.database.transaction() as connection:
        return await enter_value(connection, file_id, field, value)


async def exported(ground: Ground) -> dict[str, Any]:
    """The fields of the first file, as they are exported."""
    async with ground.database.connection() as connection:
        rows = [row async for row in export_rows(connection, "invoices")]
    fields: dict[str, Any] = rows[0]["fields"]
    return fields


async def test_what_was_not_found_is_entered_in_the_form_of_its_type(ground: Ground) -> None:
    await ground.project()
    file_id = await ground.done()
    weight = await enter(ground, file_id, "weight", " 1.234,5 ")
    assert {
        name: weight[name] for name in ("field", "value", "unit", "confidence", "page", "box", "origin")
    } == {
        "field": "weight",
        "value": "1234.5",
        "unit": "kg",
        "confidence": 1.0,
        "page": None,
        "box": None,
        "origin": "person",
    }
    assert (weight["state"], weight["file"], weight["decided_at"] is None) == (
        "accepted",
        "invoice.txt",
        False,
    )
    assert (await enter(ground, file_id, "due", "31.12.2024"))["value"] == "2024-12-31"
    assert (await enter(ground, file_id, "paid", "Yes"))["value"] == "true"
    assert (await ground.show(file_id))["counts"] == {"pending": 2, "accepted": 3, "rejected": 0}
    told = await exported(ground)
    assert (told["weight"]["value"], told["weight"]["unit"], told["weight"]["edited"]) == (
        "1234.5",
        "kg",
        True,
    )


async def test_entering_again_replaces_only_what_the_person_entered(ground: Ground) -> None:
    await ground.project()
    file_id = await ground.done()
    first = await enter(ground, file_id, "total", "13")
    again = await enter(ground, file_id, "total", "14")
    assert again["id"] == first["id"]
    assert sorted(await ground.proposals(file_id)) == [
        ("invoice_number", "4711", "pending"),
        ("total", "12.50", "pending"),
        ("total", "14", "accepted"),
    ]


async def test_what_two_enter_at_once_is_one_value(ground: Ground) -> None:
    await ground.project()
    file_id = await ground.done()
    await asyncio.gather(*(enter(ground, file_id, "weight", str(number)) for number in range(8)))
    assert len([one for one in await ground.proposals(file_id) if one[0] == "weight"]) == 1


async def test_the_last_that_a_person_wrote_is_exported(ground: Ground) -> None:
    await ground.project()
    file_id = await ground.done()
    total = await ground.proposal(file_id, "total")
    async with ground.database.transaction() as connection:
        await accept(connection, total, "12.75")
    await enter(ground, file_id, "total", "13")
    assert (await exported(ground))["total"]["value"] == "13"
    async with ground.database.transaction() as connection:
        await accept(connection, total, "12.80")
    assert (await exported(ground))["total"]["value"] == "12.80"


@pytest.mark.spec("P5")
async def test_an_analysis_leaves_alone_what_was_entered_even_if_it_was_taken_back(ground: Ground) -> None:
    await ground.project()
    file_id = await ground.done()
    await enter(ground, file_id, "total", "13")
    weight = await enter(ground, file_id, "weight", "7")
    async with ground.database.transaction() as connection:
        assert (await reopen(connection, weight["id"]))["state"] == "pending"
    await ground.again(file_id, force=True)
    (job,) = await ground.claim()
    await ground.finish(job, result_of([found("total", "13"), found("total", "12.50"), found("weight", "7")]))
    assert sorted(await ground.proposals(file_id)) == [
        ("total", "12.50", "pending"),
        ("total", "13", "accepted"),
        ("weight", "7", "pending"),
    ], "what was entered is not proposed once more"
    async with ground.database.transaction() as connection:
        assert await accept_all(connection, "invoices") == 1, "the total has a value already"


async def test_a_file_that_failed_or_waits_takes_values_and_its_twin_has_none_of_them(ground: Ground) -> None:
    await ground.project()
    file_id = (await ground.add())["id"]
    await enter(ground, file_id, "total", "13")
    (job,) = await ground.claim()
    await ground.fail(job, "no", permanent=True)
    await enter(ground, file_id, "weight", "7")
    twin = (await ground.add())["id"]
    assert await ground.proposals(file_id) == [("total", "13", "accepted"), ("weight", "7", "accepted")]
    assert await ground.proposals(twin) == []


async def test_what_cannot_be_entered_is_refused_and_changes_nothing(ground: Ground) -> None:
    await ground.project()
    file_id = await ground.done()
    for field, value, error in (
        ("total", "a lot", BadValueError),
        ("total", " ", BadValueError),
        ("colour", "red", UnknownFieldError),
    ):
        with pytest.raises(error):
            await enter(ground, file_id, field, value)
    with pytest.raises(UnknownFileError):
        await enter(ground, 10**9, "total", "13")
    async with ground.database.transaction() as connection:
        await set_fields(connection, "invoices", [])
    with pytest.raises(UnknownFieldError):
        await enter(ground, file_id, "total", "13")
    assert (await ground.show(file_id))["counts"]["accepted"] == 0
