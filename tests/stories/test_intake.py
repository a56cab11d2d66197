"""Thirty mixed files come in by every way; a person decides on a page what is right, and exports it."""

from __future__ import annotations

import csv
import io
import json
import re
import shutil
from pathlib import Path
from typing import Any

import httpx
import pytest
from playwright.async_api import Page, expect

from tests.crash.processes import Mill, mill, told
from tests.intake_documents import CATALOG, Document, make_documents
from tests.ui.browser import open_browser, watch_console
from tests.ui.papering import CHOSEN, marked

__all__ = ["mill"]

SHOTS = Path(__file__).parents[1] / "screenshots"
OVERTAKEN = ("htmx:afterRequest", "htmx:sendAbort")  # by a newer look at the same page
LIMIT = 300_000  # milliseconds, on a machine that has other things to do
LETTER = ("contract_number", "subject", "letter_date")
WITH_PLACES = (".pdf", ".jpg", ".png")
ALL_ENDED = """
select count(*) = $1 and bool_and(a.state in ('completed', 'failed'))
from project_files f join analyses a on a.id = f.analysis_id
"""
File = dict[str, Any]


@pytest.mark.timeout(900)
@pytest.mark.spec("P1", "P2", "P3", "P4", "P5", "P6")
async def test_thirty_files_become_fields_that_a_person_accepts_and_exports(
    mill: Mill, capsys: pytest.CaptureFixture[str]
) -> None:
    documents = make_documents(mill.folder / "papers")
    assert len(documents) == 30
    (mill.folder / "catalog.json").write_text(json.dumps(CATALOG))
    watched = mill.folder / "watched"
    watched.mkdir()
    words = ("--fields", mill.folder / "catalog.json", "--watch", watched)
    await told(mill, "intake", "create", "Papers", *words)
    mill.settings["MEDIAMILL_INTAKE_WATCH_SECONDS"] = "0.5"
    server = await mill.started("up", "--workers", "1")
    found = re.search(r"is up: \S+:(\d+)", server.said)
    assert found is not None
    mill.settings["MEDIAMILL_PORT"] = found[1]  # commands find the server there
    async with (
        httpx.AsyncClient(base_url=f"http://127.0.0.1:{found[1]}", auth=mill.owner, timeout=120) as client,
        open_browser() as browser,
    ):
        page = await browser.new_page(viewport={"width": 1280, "height": 860})
        complaints = watch_console(page)
        await page.goto(mill.link(f"http://127.0.0.1:{found[1]}"))
        await page.goto(f"{client.base_url}/projects/papers")
        await _bring_in(mill, client, page, documents, watched)
        files = await _read_all(client)
        share = _assert_as_expected(documents, files)
        with capsys.disabled():
            print(f"\n  {share:.0%} of the expected fields are the likeliest proposal")
        await _assert_worked_once(mill, files)
        decided = await _decide(page, files, str(client.base_url))
        await _analyse_again(mill, client, page, files["invoice.pdf"], decided["invoice.pdf"])
        await _assert_exported(mill, client, decided)
        await _assert_found(mill, files)
        assert [said for said in complaints if not said.startswith(OVERTAKEN)] == []
    mill.assert_no_traceback()


async def _bring_in(
    mill: Mill, client: httpx.AsyncClient, page: Page, documents: list[Document], watched: Path
) -> None:
    """By the watched folder, by command, over HTTP, and on the page; the twin comes by another way than the first."""
    paths = [document.path for document in documents]
    for path in paths[12:18]:
        shutil.copy(path, mill.folder / path.name)
        (mill.folder / path.name).rename(watched / path.name)  # never half there
    added = await told(mill, "intake", "add", "papers", *paths[:12])
    assert [each["error"] for each in added] == [None] * 12
    for path in paths[18:24]:
        answer = await client.post(
            "/api/projects/papers/files", params={"name": path.name}, content=path.read_bytes()
        )
        assert answer.status_code == 201, answer.text
    await page.locator("#files").set_input_files(paths[24:])
    await expect(page.locator("#upload-sum")).to_have_text(re.compile("^6 of 6 added"), timeout=LIMIT)
    await mill.until(ALL_ENDED, len(documents), limit_seconds=300)
    await expect(page.locator(".paper-row")).to_have_count(len(documents), timeout=LIMIT)
    await expect(page.locator(".paper-row.queued, .paper-row.processing")).to_have_count(0, timeout=LIMIT)
    SHOTS.mkdir(exist_ok=True)
    await page.screenshot(path=SHOTS / "story-intake-project.png", full_page=True)


async def _read_all(client: httpx.AsyncClient) -> dict[str, File]:
    """By name, with text and proposals."""
    listed = (await client.get("/api/projects/papers/files")).json()["files"]
    return {file["name"]: (await client.get(f"/api/files/{file['id']}")).json() for file in listed}


def _assert_as_expected(documents: list[Document], files: dict[str, File]) -> float:
    """Each has ended as it should; how many of the values that stand in them are the likeliest proposal."""
    right = expected = 0
    for document in documents:
        name, file = document.path.name, files[document.path.name]
        assert file["state"] == ("failed" if document.ending == "failed" else "completed"), name
        assert bool(file["error"]) == (document.ending == "failed"), name
        assert bool(file["unsupported"]) == (document.ending == "unsupported"), name
        assert bool(file["text"]) == (document.ending == "completed"), name
        best = _best(file)
        for field, value in document.expected.items():
            expected += 1
            right += field in best and best[field]["value"] == value
        for one in file["proposals"]:
            assert one["state"] == "pending"
            assert 0 < one["confidence"] <= 1
            assert one["page"] >= 1
            assert (one["box"] is not None) == name.endswith(WITH_PLACES), (name, one)
    for name in ("invoice.pdf", "SI-5000.pdf", "scan_0032.pdf", "IMG_2041.jpg", "reading.xlsx"):
        assert files[name]["proposals"], name
    assert right >= 0.95 * expected
    assert "empty" in files["empty.pdf"]["error"]
    return right / expected


def _best(file: File) -> dict[str, Any]:
    """The likeliest of each field."""
    best: dict[str, Any] = {}
    for one in file["proposals"]:
        if one["field"] not in best or one["confidence"] > best[one["field"]]["confidence"]:
            best[one["field"]] = one
    return best


async def _assert_worked_once(mill: Mill, files: dict[str, File]) -> None:
    """The twin has all that the first has, though nobody has read it."""
    first, twin = files["invoice.pdf"], files["copy of invoice.pdf"]
    assert twin["twin_of"] == first["id"]
    plain = [{**one, "id": 0, "file_id": 0, "file": ""} for one in twin["proposals"]]
    assert [{**one, "created_at": ""} for one in plain] == [
        {**one, "id": 0, "file_id": 0, "file": "", "created_at": ""} for one in first["proposals"]
    ]
    assert await mill.one("select count(*) from analyses") == 29
    assert await mill.one("select count(*) from finished_jobs where pool = 'intake'") == 27
    assert await mill.one("select count(*) from dead_jobs where reason = 'permanent' and error <> ''") == 2


async def _decide(page: Page, files: dict[str, File], url: str) -> dict[str, dict[str, str]]:
    """A person: one accepted, one edited, one rejected with the mouse; a scanned letter with keys alone."""
    await page.goto(f"{url}/projects/papers/files/{files['invoice.pdf']['id']}")
    invoice = _best(files["invoice.pdf"])
    total = invoice["total"]
    await page.locator(f"#p{total['id']} .value").click()
    await expect(page.locator(CHOSEN)).to_contain_text("1464.13")
    await expect(page.locator(f".places a[data-proposal='{total['id']}'] .chosen")).to_have_count(1)
    await page.locator(".picture img").evaluate("image => image.decode()")
    assert await marked(page) == pytest.approx(total["box"], abs=0.02)
    await page.screenshot(path=SHOTS / "story-intake-review.png")
    await page.get_by_role("button", name="Accept INV-2025-0417 as Invoice number").click()
    await expect(page.locator(".proposal.accepted", has_text="INV-2025-0417")).to_be_visible()
    item = page.locator(f"#p{invoice['due_date']['id']}")
    await item.locator("summary").click()
    await item.get_by_label("Due date", exact=True).fill("2025-04-14")
    await item.get_by_role("button", name="Save").click()
    await expect(page.locator(".proposal.accepted", has_text="2025-04-14")).to_contain_text(
        "found 2025-04-13"
    )
    await page.get_by_role("button", name="Reject 86.13 as VAT").click()
    await expect(page.locator(".proposal.rejected", has_text="86.13")).to_be_visible()
    await page.goto(f"{url}/projects/papers/files/{files['scan_0032.pdf']['id']}")
    letter = _best(files["scan_0032.pdf"])
    for field in LETTER:
        await page.locator(f"#p{letter[field]['id']} .value").click()
        await expect(page.locator(CHOSEN)).to_contain_text(letter[field]["value"])
        await page.keyboard.press("a")
        await expect(page.locator(f"#p{letter[field]['id']}.accepted")).to_be_visible()
    await page.screenshot(path=SHOTS / "story-intake-letter.png")
    return {
        "invoice.pdf": {"invoice_number": "INV-2025-0417", "due_date": "2025-04-14"},
        "scan_0032.pdf": {field: letter[field]["value"] for field in LETTER},
    }


async def _analyse_again(
    mill: Mill, client: httpx.AsyncClient, page: Page, before: File, decided: dict[str, str]
) -> None:
    """What was decided stays, what waited is made anew, and nothing that was rejected is proposed again."""
    await page.goto(f"{client.base_url}/projects/papers/files/{before['id']}")
    await page.get_by_text("Analyse again …").click()
    await page.get_by_role("button", name="Analyse again").click()
    await mill.until(
        "select state = 'completed' and generation = 2 from analyses a join project_files f on f.analysis_id = a.id "
        "where f.id = $1",
        before["id"],
    )
    await expect(page.locator("#file-state")).to_have_attribute("data-state", "completed", timeout=LIMIT)
    after = (await client.get(f"/api/files/{before['id']}")).json()
    accepted = [one for one in after["proposals"] if one["state"] == "accepted"]
    assert {one["field"]: one["edited_value"] or one["value"] for one in accepted} == decided
    assert [one["value"] for one in after["proposals"] if one["state"] == "rejected"] == ["86.13"]
    pending = [one for one in after["proposals"] if one["state"] == "pending"]
    assert {one["id"] for one in pending}.isdisjoint(one["id"] for one in before["proposals"])
    assert ("vat", "86.13") not in {(one["field"], one["value"]) for one in pending}
    settled = {("invoice_number", "INV-2025-0417"), ("due_date", "2025-04-13"), ("vat", "86.13")}
    was = {(one["field"], one["value"]) for one in before["proposals"]}
    assert {(one["field"], one["value"]) for one in pending} == was - settled


async def _assert_exported(mill: Mill, client: httpx.AsyncClient, decided: dict[str, dict[str, str]]) -> None:
    """Exactly what was accepted, by command and over HTTP, as CSV and as JSON."""
    code, table = await mill.say("intake", "export", "papers")
    assert code == 0, table
    assert (await client.get("/api/projects/papers/export.csv")).text.splitlines() == table.splitlines()
    rows = {row["file"]: row for row in csv.DictReader(io.StringIO(table))}
    listed = {row["file"]: row for row in (await client.get("/api/projects/papers/export.json")).json()}
    assert len(rows) == len(listed) == 30
    assert json.loads((await mill.say("intake", "export", "papers", "--json"))[1]) == list(listed.values())
    for name, row in rows.items():
        shown = [field for field in row if field not in ("file", "state") and not field.endswith("_unit")]
        values = {field: row[field] for field in shown if row[field]}
        assert values == decided.get(name, {}), name
        assert {field: one["value"] for field, one in listed[name]["fields"].items()} == values
        assert listed[name]["state"] == row["state"]
    due = listed["invoice.pdf"]["fields"]["due_date"]
    assert (due["edited"], due["page"], due["state"]) == (True, 1, "accepted")


async def _assert_found(mill: Mill, files: dict[str, File]) -> None:
    """By words that were only ever pixels, and by words in a spreadsheet."""
    for words, name in (("boiler valve", "scan_0031.pdf"), ("Voltaris", "charger.xlsx")):
        hits = (await told(mill, "search", words, "--mode", "words"))["hits"]
        assert [hit["title"] for hit in hits] == [name]
        assert hits[0]["url"].startswith(f"/projects/papers/files/{files[name]['id']}")
