"""What was found out, as a table for people and as JSON for programs."""

from __future__ import annotations

import csv
import io
import json
from typing import Any

import pytest

from mediamill.intake.export import BadExportError, export_rows, write_csv, write_json
from mediamill.intake.fields import set_fields
from mediamill.intake.model import Field, UnknownProjectError
from mediamill.intake.proposals import accept, accept_all, reject
from tests.intake.played import FIELDS, Ground, found, result_of

pytestmark = pytest.mark.spec("P6")


async def as_csv(ground: Ground, **given: Any) -> list[list[str]]:
    async with ground.database.connection() as connection:
        text = "".join([line async for line in write_csv(connection, "invoices", **given)])
    return list(csv.reader(io.StringIO(text)))


async def as_json(ground: Ground, **given: Any) -> list[dict[str, Any]]:
    async with ground.database.connection() as connection:
        text = "".join([line async for line in write_json(connection, "invoices", **given)])
    read: list[dict[str, Any]] = json.loads(text)
    return read


async def test_a_row_for_each_file_and_a_column_for_each_field(ground: Ground) -> None:
    await ground.project()
    first = await ground.done()
    await ground.add(content=b"waits")
    async with ground.database.transaction() as connection:
        await accept(connection, await ground.proposal(first, "total"), "13.00")
    head, *rows = await as_csv(ground)
    units = {"total": ["total", "total_unit"], "weight": ["weight", "weight_unit"]}
    assert head == [
        "file",
        "state",
        *(name for field in FIELDS for name in units.get(field.name, [field.name])),
    ]
    assert rows == [
        ["invoice.txt", "completed", "", "13.00", "EUR", "", "", "", ""],
        ["invoice.txt", "queued", "", "", "", "", "", "", ""],
    ]
    told = await as_json(ground)
    assert told[0] == {
        "id": first,
        "file": "invoice.txt",
        "state": "completed",
        "fields": {
            "total": {
                "value": "13.00",
                "unit": "EUR",
                "confidence": 0.9,
                "page": 1,
                "state": "accepted",
                "edited": True,
            }
        },
    }
    assert told[1]["fields"] == {}


async def test_with_all_what_waits_is_there_where_nothing_is_accepted_and_never_what_was_rejected(
    ground: Ground,
) -> None:
    await ground.project()
    fields = [
        found("invoice_number", "1", confidence=0.2),
        found("invoice_number", "2", confidence=0.8),
        found("total", "5", confidence=0.1),
        found("total", "6", confidence=0.9),
        found("weight", "7"),
    ]
    file_id = await ground.done(fields=fields)
    shown = {(one["field"], one["value"]): one["id"] for one in (await ground.show(file_id))["proposals"]}
    async with ground.database.transaction() as connection:
        await accept(connection, shown["total", "5"])
        await reject(connection, shown["weight", "7"])
    (row,) = await as_json(ground, which="all")
    assert {name: one["value"] for name, one in row["fields"].items()} == {
        "invoice_number": "2",
        "total": "5",
    }
    assert row["fields"]["invoice_number"]["state"] == "pending"


async def test_the_last_word_counts_and_an_edited_one_before_all(ground: Ground) -> None:
    await ground.project()
    file_id = await ground.done(fields=[found("total", str(number)) for number in (1, 2, 3)])
    shown = {one["value"]: one["id"] for one in (await ground.show(file_id))["proposals"]}
    for value, edited in (("3", None), ("1", None)):
        async with ground.database.transaction() as connection:
            await accept(connection, shown[value], edited)
    assert (await as_csv(ground))[1][3] == "1"
    async with ground.database.transaction() as connection:
        await accept(connection, shown["2"], "20")
    async with ground.database.transaction() as connection:
        await accept(connection, shown["3"])
    assert (await as_csv(ground))[1][3] == "20"


@pytest.mark.parametrize("evil", ["=1+1", "+1", "-1", "@SUM(A1)"])
async def test_no_text_is_a_formula_for_whoever_opens_the_table(ground: Ground, evil: str) -> None:
    await ground.project()
    content = evil.encode()
    file = await ground.add(content=content, name=f"{evil}.txt")
    (job,) = await ground.claim()
    await ground.finish(job, result_of([found("invoice_number", evil), found("weight", "-3.5")]))
    async with ground.database.transaction() as connection:
        await accept_all(connection, "invoices", file_id=file["id"])
    (row,) = (await as_csv(ground))[1:]
    assert (row[0], row[2], row[6]) == (f"'{evil}.txt", f"'{evil}", "-3.5")
    async with ground.database.transaction() as connection:
        await set_fields(connection, "invoices", [Field("invoice_number", "number")])
    (row,) = (await as_csv(ground))[1:]
    assert row[2] == (evil if evil == "-1" else f"'{evil}"), "what is no number is guarded in its column, too"
    assert (await as_json(ground))[0]["fields"]["invoice_number"]["value"] == evil


async def test_many_files_are_exported_batch_by_batch_and_none_is_a_table_too(ground: Ground) -> None:
    await ground.project()
    assert await as_json(ground) == []
    assert len(await as_csv(ground)) == 1
    file_id = await ground.done()
    await ground.run(
        "insert into project_files (project_id, analysis_id, name) "
        "select project_id, analysis_id, 'file ' || n from project_files, generate_series(1, 1200) n where id = $1",
        file_id,
    )
    rows = await as_json(ground)
    assert len(rows) == 1201
    assert len({row["id"] for row in rows}) == 1201


async def test_no_file_is_lost_between_two_batches(ground: Ground, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("mediamill.intake.export.BATCH", 2)
    await ground.project()
    ids = [(await ground.add(content=bytes([number])))["id"] for number in range(5)]
    rows = await as_json(ground)
    assert [row["id"] for row in rows] == ids


async def test_what_cannot_be_exported_is_refused(ground: Ground) -> None:
    await ground.project()
    with pytest.raises(BadExportError) as refused:
        await as_csv(ground, which="some")
    assert (refused.value.code, refused.value.fix) == ("bad_export", "there are accepted, all")
    async with ground.database.connection() as connection:
        with pytest.raises(UnknownProjectError):
            async for _ in export_rows(connection, "nothing"):
                pass
