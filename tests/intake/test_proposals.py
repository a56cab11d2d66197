"""What was extracted waits for a person: accepted, edited, rejected, and changed one's mind."""

from __future__ import annotations

from typing import Any

import pytest

from mediamill.intake.fields import set_fields
from mediamill.intake.model import BadListError, UnknownFileError, UnknownProposalError
from mediamill.intake.proposals import accept, accept_all, list_proposals, reject, reopen
from mediamill.intake.values import BadValueError
from tests.intake.played import Ground, found

pytestmark = pytest.mark.spec("P6")


async def listed(ground: Ground, **given: Any) -> dict[str, Any]:
    async with ground.database.connection() as connection:
        return await list_proposals(connection, "invoices", **given)


async def test_a_proposal_is_accepted_edited_rejected_and_reopened(ground: Ground) -> None:
    await ground.project()
    file_id = await ground.done()
    number, total = [await ground.proposal(file_id, name) for name in ("invoice_number", "total")]
    async with ground.database.transaction() as connection:
        accepted = await accept(connection, number)
        edited = await accept(connection, total, "1.013,50")
    assert (accepted["state"], accepted["edited_value"]) == ("accepted", None)
    assert (edited["state"], edited["value"], edited["edited_value"]) == ("accepted", "12.50", "1013.50")
    assert edited["decided_at"] is not None
    assert edited["file"] == "invoice.txt"
    async with ground.database.transaction() as connection:
        rejected = await reject(connection, total)
        opened = await reopen(connection, number)
        same = await accept(connection, number, " 4711 ")
    assert (rejected["state"], rejected["edited_value"]) == ("rejected", None)
    assert (opened["state"], opened["decided_at"]) == ("pending", None)
    assert same["edited_value"] is None, "it is what was proposed"
    assert (await ground.show(file_id))["counts"] == {"pending": 0, "accepted": 1, "rejected": 1}
    told = "select count(*) from events where topic = 'file.changed' and subject = $1"
    assert await ground.one(told, str(file_id)) == 3 + 5


async def test_a_value_that_is_none_of_its_type_is_refused_and_changes_nothing(ground: Ground) -> None:
    await ground.project()
    file_id = await ground.done()
    total = await ground.proposal(file_id, "total")
    with pytest.raises(BadValueError):
        async with ground.database.transaction() as connection:
            await accept(connection, total, "much")
    assert (await ground.show(file_id))["counts"]["pending"] == 2
    for verb in (accept, reject, reopen):
        async with ground.database.transaction() as connection:
            with pytest.raises(UnknownProposalError):
                await verb(connection, 10**9)


async def test_a_field_that_is_not_in_the_catalog_any_more_can_still_be_decided(ground: Ground) -> None:
    await ground.project()
    file_id = await ground.done()
    async with ground.database.transaction() as connection:
        await set_fields(connection, "invoices", [])
        edited = await accept(connection, await ground.proposal(file_id, "total"), "much")
    assert edited["edited_value"] == "much"


async def test_proposals_are_listed_page_by_page_by_state_file_and_field(ground: Ground) -> None:
    await ground.project()
    first, second = await ground.done(), await ground.done(content=b"second")
    async with ground.database.transaction() as connection:
        await accept(connection, await ground.proposal(first, "total"))
    page = await listed(ground, amount=2)
    rest = await listed(ground, amount=2, after=page["next"])
    assert [(one["file_id"], one["field"]) for one in page["proposals"] + rest["proposals"]] == [
        (first, "invoice_number"),
        (second, "invoice_number"),
        (second, "total"),
    ]
    assert rest["next"] is None
    assert len((await listed(ground, state=None))["proposals"]) == 4
    assert len((await listed(ground, state=None, field="total"))["proposals"]) == 2
    assert len((await listed(ground, file_id=first))["proposals"]) == 1
    for bad in ({"state": "asleep"}, {"amount": 501}, {"after": "-1"}):
        with pytest.raises(BadListError):
            await listed(ground, **bad)


async def test_all_that_is_likely_enough_is_accepted_the_best_of_each_field(ground: Ground) -> None:
    await ground.project()
    fields = [
        found("invoice_number", "4711", confidence=0.6),
        found("invoice_number", "4712", confidence=0.9),
        found("total", "1", confidence=0.5),
        found("due", "2024-12-31", confidence=0.8),
    ]
    file_id = await ground.done(fields=fields)
    other = await ground.done(content=b"other", fields=fields)
    async with ground.database.transaction() as connection:
        await accept(connection, await ground.proposal(file_id, "due"), "2025-01-01")
        assert await accept_all(connection, "invoices", file_id=file_id, minimum_confidence=0.7) == 1
    assert await ground.proposals(file_id, "accepted") == [
        ("invoice_number", "4712", "accepted"),
        ("due", "2025-01-01", "accepted"),
    ]
    async with ground.database.transaction() as connection:
        assert await accept_all(connection, "invoices") == 1 + 3
        assert await accept_all(connection, "invoices") == 0
        with pytest.raises(UnknownFileError):
            await accept_all(connection, "invoices", file_id=10**9)
    assert len(await ground.proposals(other, "pending")) == 1
