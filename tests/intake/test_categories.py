"""What a file is, by a person, a rule or a guess, and that it decides which fields are looked for."""

from __future__ import annotations

import json
from typing import Any

import pytest

from mediamill.intake.categories import set_category, set_rules
from mediamill.intake.model import BadCategoryError, Field
from tests.intake.failing import until
from tests.intake.played import Ground, found, result_of

FIELDS = (
    Field("name"),
    Field("total", "amount", categories=("Invoice", "Receipt")),
    Field("miles", "number", categories=("Log book",)),
)


@pytest.fixture
async def ground(ground: Ground) -> Ground:
    await ground.project(fields=FIELDS)
    return ground


async def say(ground: Ground, file_id: int, category: str | None) -> dict[str, Any]:
    async with ground.database.transaction() as connection:
        return await set_category(connection, ground.enqueuer, ground.settings, file_id, category)


async def rule(ground: Ground, *rules: tuple[str, str]) -> None:
    async with ground.database.transaction() as connection:
        told = [{"pattern": pattern, "category": category} for pattern, category in rules]
        await set_rules(connection, "invoices", told)


async def looked_for(ground: Ground, file_id: int) -> list[str]:
    """The fields that the job of a file looks for, in any case."""
    job = (await ground.show(file_id))["job_id"]
    payload = json.loads(await ground.one("select payload from jobs where id = $1", job))
    return [field["name"] for field in payload["fields"] if not field["categories"]]


def kind(shown: dict[str, Any]) -> tuple[str | None, str | None]:
    return shown["category"], shown["category_by"]


@pytest.mark.spec("P9")
async def test_what_a_person_says_decides_which_fields_are_looked_for(ground: Ground) -> None:
    file_id = await ground.done()
    shown = await say(ground, file_id, "  log BOOK ")
    assert (kind(shown), shown["state"]) == (("log BOOK", "person"), "queued")
    assert await looked_for(ground, file_id) == ["name", "miles"]
    shown = await say(ground, file_id, "receipt")
    assert await looked_for(ground, file_id) == ["name", "total"]
    (job, *_) = await ground.claim(amount=2)
    await ground.finish(job, result_of([found("total", "12.50"), found("miles", "7")]))
    assert [value for value in await ground.proposals(file_id) if value[0] == "miles"] == []
    shown = await say(ground, file_id, None)
    assert (kind(shown), shown["state"]) == ((None, None), "queued")
    assert await looked_for(ground, file_id) == ["name"], "of the others its words decide"
    with pytest.raises(BadCategoryError):
        await say(ground, file_id, "a, b")


@pytest.mark.spec("P9")
async def test_a_category_that_changes_no_field_starts_nothing(ground: Ground) -> None:
    await ground.run("update project_fields set categories = '{}'")
    file_id = await ground.done()
    shown = await say(ground, file_id, "Invoice")
    assert (kind(shown), shown["state"], shown["outdated"]) == (("Invoice", "person"), "completed", False)


@pytest.mark.spec("P9", "P5")
async def test_rules_go_by_the_name_and_a_person_is_right_in_any_case(ground: Ground) -> None:
    await rule(ground, ("*RECEIPT*", "Receipt"), ("scans/*", "Invoice"))
    added = {
        name: await ground.add(name=name)
        for name in ("scans/receipt-1.pdf", "scans/a.pdf", "b.pdf", "My Receipt.pdf")
    }
    kinds = [kind(file) for file in added.values()]
    assert kinds == [("Receipt", "rule"), ("Invoice", "rule"), (None, None), ("Receipt", "rule")]
    assert await ground.one("select count(*) from analyses") == 2, "for the same fields one is enough"
    given = await ground.add(name="scans/c.pdf", category="Letter")
    assert kind(given) == ("Letter", "person")
    await rule(ground, ("b.*", "Invoice"))
    shown = [await ground.show(file["id"]) for file in (*added.values(), given)]
    assert [file["category"] for file in shown] == [None, None, "Invoice", None, "Letter"]
    for wrong in (("", "x"), ("*", ""), ("*", "a,b"), ("*" * 201, "x")):
        with pytest.raises(BadCategoryError):
            await rule(ground, wrong)


@pytest.mark.spec("P9")
async def test_what_nobody_said_is_guessed_from_what_the_document_calls_itself(ground: Ground) -> None:
    letter = b"Invoice\n\nTotal: 12.50 EUR\nMiles: 30\nName: Ada\n"
    file = await ground.add(content=letter)
    assert await looked_for(ground, file["id"]) == ["name"]
    async with ground.working():
        shown = await until(ground, file["id"], "completed")
        assert kind(shown) == ("Invoice", "guess")
        assert {one["field"] for one in shown["proposals"]} == {"name", "total"}
        await say(ground, file["id"], "Log book")
        shown = await until(ground, file["id"], "completed")
    assert {one["field"] for one in shown["proposals"]} == {"name", "miles"}
