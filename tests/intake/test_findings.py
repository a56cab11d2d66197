"""What was found and fits no field: a person makes a field of it, or drops it; nothing of it is lost silently."""

from __future__ import annotations

from typing import Any

import pytest

from mediamill.intake.findings import KnownValueError, drop_finding, make_field
from mediamill.intake.model import Field, UnknownFieldError, UnknownFindingError
from mediamill.intake.projects import show_project
from mediamill.intake.proposals import reject
from mediamill.intake.values import BadValueError
from tests.intake.failing import until
from tests.intake.played import Ground, found, result_of

CUSTOMER = found("Customer no.", "C-88120", type="text")
WEIGHT = found("Weight", "17.5", unit="kg", type="number")


@pytest.fixture
async def ground(ground: Ground) -> Ground:
    await ground.project(fields=(Field("total", "amount"), Field("reference")))
    return ground


async def unmapped(ground: Ground, file_id: int) -> dict[str, dict[str, Any]]:
    return {one["label"]: one for one in (await ground.show(file_id))["unmapped"]}


async def make(ground: Ground, finding_id: int, field: str | None = None) -> dict[str, Any]:
    async with ground.database.transaction() as connection:
        return await make_field(connection, finding_id, field)


async def drop(ground: Ground, finding_id: int) -> str:
    async with ground.database.transaction() as connection:
        return await drop_finding(connection, finding_id)


@pytest.mark.spec("P10")
async def test_a_real_letter_offers_what_fits_no_field(ground: Ground) -> None:
    letter = b"Invoice\nTotal: 12.50 EUR\nCustomer no.: C-88120\nWeight: 17.5 kg\nDelivered on: 2025-02-05\n"
    file = await ground.add(content=letter)
    async with ground.working():
        await until(ground, file["id"], "completed")
    told = {
        label: (one["type"], one["value"], one["unit"])
        for label, one in (await unmapped(ground, file["id"])).items()
    }
    assert told == {
        "Customer no.": ("text", "C-88120", ""),
        "Weight": ("number", "17.5", "kg"),
        "Delivered on": ("date", "2025-02-05", ""),
    }
    assert {one[0] for one in await ground.proposals(file["id"])} == {"total"}


@pytest.mark.spec("P10", "P6")
async def test_a_finding_becomes_a_field_with_its_value_and_what_other_files_have_of_it_waits(
    ground: Ground,
) -> None:
    one = await ground.done(content=b"one", fields=[], unmapped=[CUSTOMER, WEIGHT])
    other = await ground.done(
        content=b"other", fields=[], unmapped=[found("customer NO.", "D-1", type="text")]
    )
    made = await make(ground, (await unmapped(ground, one))["Customer no."]["id"])
    assert (made["field"], made["value"], made["state"], made["page"]) == (
        "customer_no",
        "C-88120",
        "accepted",
        1,
    )
    assert await ground.proposals(other) == [("customer_no", "D-1", "pending")]
    assert (list(await unmapped(ground, one)), await unmapped(ground, other)) == (["Weight"], {})
    async with ground.database.connection() as connection:
        fields = (await show_project(connection, "invoices"))["fields"]
    assert [(field["name"], field["label"], field["type"]) for field in fields][2:] == [
        ("customer_no", "Customer no.", "text")
    ]
    later = await ground.done(content=b"later", fields=[], unmapped=[CUSTOMER, WEIGHT])
    assert list(await unmapped(ground, later)) == ["Weight"]


@pytest.mark.spec("P10")
async def test_a_finding_may_be_the_value_of_a_field_that_is_there(ground: Ground) -> None:
    file_id = await ground.done(fields=[], unmapped=[CUSTOMER, WEIGHT])
    ids = {label: one["id"] for label, one in (await unmapped(ground, file_id)).items()}
    with pytest.raises(BadValueError):
        await make(ground, ids["Customer no."], "total")
    with pytest.raises(UnknownFieldError):
        await make(ground, ids["Customer no."], "nothing")
    made = await make(ground, ids["Customer no."], "reference")
    assert (made["field"], made["state"]) == ("reference", "accepted")
    async with ground.database.transaction() as connection:
        await reject(connection, made["id"])
    await ground.again(file_id, force=True)
    (job,) = await ground.claim()
    await ground.finish(job, result_of([], unmapped=[CUSTOMER]))
    again = (await unmapped(ground, file_id))["Customer no."]["id"]
    with pytest.raises(KnownValueError):
        await make(ground, again, "reference")
    assert "Customer no." in await unmapped(ground, file_id), "nothing is lost"


@pytest.mark.spec("P10")
async def test_a_dropped_label_is_not_offered_again_in_the_project(ground: Ground) -> None:
    one = await ground.done(content=b"one", fields=[], unmapped=[CUSTOMER, WEIGHT])
    other = await ground.done(content=b"other", fields=[], unmapped=[CUSTOMER])
    dropped = (await unmapped(ground, one))["Customer no."]["id"]
    assert await drop(ground, dropped) == "Customer no."
    assert (list(await unmapped(ground, one)), await unmapped(ground, other)) == (["Weight"], {})
    later = await ground.done(content=b"later", fields=[], unmapped=[CUSTOMER])
    assert await unmapped(ground, later) == {}
    for verb in (make, drop):
        with pytest.raises(UnknownFindingError):
            await verb(ground, dropped)


@pytest.mark.spec("P10")
async def test_findings_of_nonsense_are_left_out(ground: Ground) -> None:
    nonsense: list[Any] = [
        7,
        {},
        found("", "x", type="text"),
        found("a", "x", type="sort"),
        found("b", "x", type="date"),
    ]
    file_id = await ground.done(fields=[], unmapped=[*nonsense, WEIGHT, found("weight", "3", type="number")])
    assert {label: one["value"] for label, one in (await unmapped(ground, file_id)).items()} == {
        "Weight": "17.5"
    }
