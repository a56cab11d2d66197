"""Projects over HTTP: make, list, show, edit, delete; the field catalog, proposals, and the export."""

from __future__ import annotations

import csv
import io
import json
from pathlib import Path
from typing import Any

import pytest

from mediamill.intake.jobs import intake_kinds
from tests.api.projects_served import ask, served
from tests.api.serving import SECRET, Served, serve
from tests.intake.conftest import ground
from tests.intake.played import Ground, found

__all__ = ["ground", "served"]

CATALOG = [
    {"name": "number", "label": "Invoice number"},
    {"name": "total", "type": "amount", "unit": "EUR", "description": "With taxes"},
]


@pytest.mark.spec("P1")
async def test_a_project_is_made_shown_listed_and_edited(served: Served, tmp_path: Path) -> None:
    folder = tmp_path / "scans"
    folder.mkdir()
    wish = {
        "name": "Our invoices",
        "description": "All of them",
        "fields": CATALOG,
        "watch_path": str(folder),
    }
    made = await ask(served, "POST", "/api/projects", 201, json=wish)
    assert (made["slug"], made["watch_path"]) == ("our-invoices", str(folder))
    assert made["counts"] == {"queued": 0, "processing": 0, "completed": 0, "failed": 0}
    assert [(one["name"], one["type"], one["label"], one["unit"]) for one in made["fields"]] == [
        ("number", "text", "Invoice number", ""),
        ("total", "amount", "Total", "EUR"),
    ]
    assert await ask(served, "GET", "/api/projects/our-invoices") == made
    (listed,) = (await ask(served, "GET", "/api/projects"))["projects"]
    assert listed == {name: value for name, value in made.items() if name != "fields"}
    change = {"name": "Invoices", "watch_path": ""}
    edited = await ask(served, "PATCH", "/api/projects/our-invoices", json=change)
    assert (edited["name"], edited["watch_path"], edited["description"]) == ("Invoices", None, "All of them")
    assert await ask(served, "DELETE", "/api/projects/our-invoices") == {"deleted": "our-invoices"}
    await ask(served, "GET", "/api/projects/our-invoices", 404)


async def test_what_cannot_be_a_project_is_refused_with_what_to_do(served: Served, ground: Ground) -> None:
    await ground.project()
    for wish, status, code in (
        ({"name": "Invoices"}, 409, "project_exists"),
        ({"name": ""}, 422, "invalid"),
        ({"name": "照片"}, 422, "bad_project"),
        ({"name": "Others", "slug": "No slug"}, 422, "bad_project"),
        ({"name": "Others", "watch_path": "/nowhere/at/all"}, 422, "bad_project"),
        ({"name": "Others", "watch_path": "scans"}, 422, "bad_project"),
        ({"name": "Others", "colour": 1}, 422, "invalid"),
        ({"name": "Others", "fields": [{"name": "Total"}]}, 422, "bad_field"),
        ({"name": "Others", "fields": [{"name": "total", "type": "colour"}]}, 422, "invalid"),
        ({"name": "Others", "fields": [{"name": "a"}, {"name": "a"}]}, 422, "bad_field"),
        ({"name": "Others", "fields": [{"name": f"f{n}"} for n in range(201)]}, 422, "invalid"),
    ):
        told = await ask(served, "POST", "/api/projects", status, json=wish)
        assert told["code"] == code, wish


@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("GET", ""),
        ("PATCH", ""),
        ("DELETE", ""),
        ("PUT", "/fields"),
        ("GET", "/files"),
        ("POST", "/files?name=a"),
        ("GET", "/proposals"),
        ("POST", "/accept"),
        ("POST", "/reprocess"),
        ("GET", "/export.csv"),
        ("GET", "/export.json"),
    ],
)
async def test_a_project_that_is_not_there_is_not_found(served: Served, method: str, path: str) -> None:
    bodies: dict[str, Any] = {"PATCH": {}, "PUT": {"fields": []}, "POST": {"minimum_confidence": 0.5}}
    body = (
        {"json": bodies[method]} if method in bodies and path not in ("/files?name=a", "/reprocess") else {}
    )
    told = await ask(served, method, f"/api/projects/nothing{path}", 404, **body)
    assert told["code"] == "unknown_project"


async def test_another_catalog_makes_files_outdated_until_they_are_reprocessed(
    served: Served, ground: Ground
) -> None:
    await ground.project()
    file_id = await ground.done()
    assert (await ask(served, "GET", f"/api/files/{file_id}"))["outdated"] is False
    changed = await ask(served, "PUT", "/api/projects/invoices/fields", json={"fields": CATALOG})
    assert [one["name"] for one in changed["fields"]] == ["number", "total"]
    assert (await ask(served, "GET", f"/api/files/{file_id}"))["outdated"] is True
    told = await ask(served, "POST", "/api/projects/invoices/reprocess", 202)
    assert told == {"files": 1, "started": 1}
    shown = await ask(served, "GET", f"/api/files/{file_id}")
    assert (shown["outdated"], shown["state"]) == (False, "queued")


async def test_another_extractor_makes_files_outdated(ground: Ground) -> None:
    await ground.project()
    file_id = await ground.done()
    kinds = intake_kinds(ground.settings)
    model = {"text": "openai", "openai_url": "http://127.0.0.1:9/v1"}
    async with serve(ground.database, ground.data, kinds, **model) as served:
        assert (await ask(served, "GET", f"/api/files/{file_id}"))["outdated"] is True
        (listed,) = (await ask(served, "GET", "/api/projects/invoices/files"))["files"]
        assert listed["outdated"] is True


@pytest.mark.spec("P6")
async def test_a_person_enters_what_was_not_found(served: Served, ground: Ground) -> None:
    await ground.project()
    file_id = await ground.done()
    address = f"/api/files/{file_id}/values"
    entered = await ask(served, "POST", address, 201, json={"field": "weight", "value": "1.234,5"})
    assert (entered["value"], entered["unit"], entered["state"]) == ("1234.5", "kg", "accepted")
    assert (entered["origin"], entered["confidence"], entered["page"]) == ("person", 1, None)
    again = await ask(served, "POST", address, 201, json={"field": "weight", "value": "7"})
    assert (again["id"], again["value"]) == (entered["id"], "7")
    for wish, code in (
        ({"field": "weight", "value": "a lot"}, "bad_value"),
        ({"field": "colour", "value": "red"}, "unknown_field"),
        ({"field": "weight"}, "invalid"),
        ({"field": "weight", "value": "7", "unit": "t"}, "invalid"),
    ):
        assert (await ask(served, "POST", address, 422, json=wish))["code"] == code, wish
    gone = await ask(served, "POST", "/api/files/999/values", 404, json={"field": "weight", "value": "7"})
    assert gone["code"] == "unknown_file"
    (row,) = await ask(served, "GET", "/api/projects/invoices/export.json")
    assert row["fields"]["weight"]["value"] == "7"


@pytest.mark.spec("P6")
async def test_a_person_accepts_edits_rejects_and_takes_it_back(served: Served, ground: Ground) -> None:
    await ground.project()
    file_id = await ground.done()
    waiting = (await ask(served, "GET", "/api/projects/invoices/proposals"))["proposals"]
    assert [(one["field"], one["value"], one["file"]) for one in waiting] == [
        ("invoice_number", "4711", "invoice.txt"),
        ("total", "12.50", "invoice.txt"),
    ]
    number, total = (one["id"] for one in waiting)
    accepted = await ask(served, "POST", f"/api/proposals/{number}/accept")
    assert (accepted["state"], accepted["edited_value"], accepted["decided_at"] is None) == (
        "accepted",
        None,
        False,
    )
    edited = await ask(served, "POST", f"/api/proposals/{total}/accept", json={"value": "1.234,50"})
    assert (edited["state"], edited["edited_value"], edited["value"]) == ("accepted", "1234.50", "12.50")
    refused = await ask(served, "POST", f"/api/proposals/{total}/accept", 422, json={"value": "a lot"})
    assert (refused["code"], "1234.50" in refused["fix"]) == ("bad_value", True)
    assert (await ask(served, "POST", f"/api/proposals/{number}/reject"))["state"] == "rejected"
    reopened = await ask(served, "POST", f"/api/proposals/{number}/reopen")
    assert (reopened["state"], reopened["decided_at"]) == ("pending", None)
    shown = await ask(served, "GET", f"/api/files/{file_id}")
    assert shown["counts"] == {"pending": 1, "accepted": 1, "rejected": 0}
    assert (await ask(served, "POST", "/api/proposals/999/accept", 404))["code"] == "unknown_proposal"


@pytest.mark.spec("P6")
async def test_what_is_sure_is_accepted_at_once_and_the_rest_waits(served: Served, ground: Ground) -> None:
    await ground.project()
    fields = [
        found("total", "12.50", confidence=0.95),
        found("total", "9", confidence=0.92),
        found("due", "2024-05-01", confidence=0.4),
    ]
    await ground.done(fields=fields)
    wish = {"minimum_confidence": 0.9}
    assert await ask(served, "POST", "/api/projects/invoices/accept", json=wish) == {"accepted": 1}
    states = {
        one["value"]: one["state"]
        for state in ("pending", "accepted")
        for one in (await ask(served, "GET", f"/api/projects/invoices/proposals?state={state}"))["proposals"]
    }
    assert states == {"12.50": "accepted", "9": "pending", "2024-05-01": "pending"}
    await ask(served, "POST", "/api/projects/invoices/accept", 422, json={"minimum_confidence": 2})


async def test_proposals_come_page_by_page_and_by_field(served: Served, ground: Ground) -> None:
    await ground.project()
    for number in range(3):
        await ground.done(content=f"invoice {number}".encode())
    first = await ask(served, "GET", "/api/projects/invoices/proposals?amount=4")
    second = await ask(served, "GET", f"/api/projects/invoices/proposals?amount=4&after={first['next']}")
    assert (len(first["proposals"]), len(second["proposals"]), second["next"]) == (4, 2, None)
    totals = await ask(served, "GET", "/api/projects/invoices/proposals?field=total")
    assert {one["field"] for one in totals["proposals"]} == {"total"}
    for query in ("state=none", "after=x", "amount=0", "file_id=0"):
        await ask(served, "GET", f"/api/projects/invoices/proposals?{query}", 422)


@pytest.mark.spec("P6")
async def test_what_was_accepted_is_exported_as_a_table_and_as_json(served: Served, ground: Ground) -> None:
    await ground.project()
    file_id = await ground.done(
        fields=[found("invoice_number", "=1+1"), found("total", "-12.50", unit="EUR")]
    )
    for number in [one["id"] for one in (await ground.show(file_id))["proposals"]]:
        await ask(served, "POST", f"/api/proposals/{number}/accept")
    answer = await served.client.get("/api/projects/invoices/export.csv")
    assert answer.headers["content-type"] == "text/csv; charset=utf-8"
    assert 'filename="invoices.csv"' in answer.headers["content-disposition"]
    (row,) = csv.DictReader(io.StringIO(answer.text))
    assert (row["invoice_number"], row["total"], row["due"]) == ("'=1+1", "-12.50", "")
    told = await served.client.get("/api/projects/invoices/export.json")
    assert told.headers["content-type"] == "application/json"
    (file,) = json.loads(told.text)
    assert (file["fields"]["total"]["value"], file["fields"]["total"]["unit"]) == ("-12.50", "EUR")
    await ask(served, "GET", "/api/projects/invoices/export.csv?which=some", 422)


async def test_all_of_it_is_exported_with_what_still_waits(served: Served, ground: Ground) -> None:
    await ground.project()
    await ground.done()
    bare = (await served.client.get("/api/projects/invoices/export.csv")).text
    everything = (await served.client.get("/api/projects/invoices/export.csv?which=all")).text
    assert ("4711" in bare, "4711" in everything) == (False, True)


async def test_projects_are_behind_the_login_too(ground: Ground) -> None:
    async with serve(ground.database, ground.data, host="0.0.0.0") as served:
        for path in ("/api/projects", "/api/files/1", "/api/files/1/source", "/projects"):
            assert (await served.client.get(path)).status_code == 401, path
        answer = await served.client.get("/api/projects", headers={"Authorization": f"Bearer {SECRET}"})
        assert answer.status_code == 200
