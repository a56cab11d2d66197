"""The pages of projects: made and edited, files dropped into them, the list that follows, what was found."""

from __future__ import annotations

from pathlib import Path

import pytest
from playwright.async_api import Browser, FilePayload, Page, Route, expect

from tests.api.serving import Served
from tests.intake.played import Ground
from tests.ui.browser import follow, shoot, watch_console
from tests.ui.dropping import drop_a_folder_with_faults, drop_paths
from tests.ui.papering import FIELDS, add_invoice, fill_project


@pytest.fixture
def ground(served: Served) -> Ground:
    """The worker's side."""
    return Ground.on(served.database, served.app.state.deps.settings.data_folder)


def some_files(*names: str) -> list[FilePayload]:
    """As a person chooses them; each has its own content."""
    return [{"name": name, "mimeType": "text/plain", "buffer": f"Invoice {name}".encode()} for name in names]


async def drop_files(page: Page, names: list[str]) -> None:
    carried = await page.evaluate_handle(
        """names => { const carried = new DataTransfer();
        for (const name of names) carried.items.add(new File(['content of ' + name], name)); return carried; }""",
        names,
    )
    await page.dispatch_event("main", "dragenter", {"dataTransfer": carried})
    await expect(page.locator(".dropzone")).to_be_visible()
    await page.dispatch_event("main", "drop", {"dataTransfer": carried})
    await expect(page.locator(".dropzone")).to_be_hidden()


@pytest.mark.spec("P1")
async def test_a_project_is_made_edited_and_deleted_by_the_page(
    served: Served, ground: Ground, browser: Browser, tmp_path: Path
) -> None:
    page = await browser.new_page()
    complaints = watch_console(page)
    await page.goto(f"{served.url}/projects")
    await expect(page.get_by_role("heading", name="No projects yet")).to_be_visible()
    await page.get_by_label("Name").fill("Our invoices")
    await page.get_by_label("Watched folder").fill(f"{tmp_path}/<b>nowhere</b>")
    await page.get_by_role("button", name="Create").click()
    await expect(page.get_by_role("alert")).to_contain_text(
        "<b>nowhere</b> is no folder that can be seen from here"
    )
    await expect(page.get_by_label("Name")).to_have_value("Our invoices")
    await page.get_by_label("Watched folder").fill("")
    await page.get_by_role("button", name="Create").click()
    await expect(page.get_by_role("heading", level=1)).to_contain_text("Our invoices")
    await page.get_by_text("Name, watched folder").click()
    await page.get_by_label("Categories by name").fill("*receipt* = Receipt\nin/* = Invoice\n")
    await page.get_by_label("Description", exact=True).fill("Everything <i>paid</i>")
    await page.get_by_label("Watched folder").fill(str(tmp_path))
    await page.get_by_role("button", name="Save", exact=True).click()
    await expect(page.get_by_role("status").filter(has_text="Saved.")).to_be_visible()
    await expect(page.locator("#overview")).to_contain_text(f"Watches {tmp_path}")
    await expect(page.locator("main")).to_contain_text("Everything <i>paid</i>")
    await page.get_by_text("Name, watched folder").click()
    await expect(page.get_by_label("Categories by name")).to_have_value("*receipt* = Receipt\nin/* = Invoice")
    await shoot(page, "project-edit", full_page=True)
    await page.get_by_text("Delete the project").click()
    await page.get_by_role("button", name="Delete Our invoices").click()
    await expect(page.get_by_role("heading", name="No projects yet")).to_be_visible()
    assert await ground.one("select count(*) from projects") == 0
    assert [text for text in complaints if "422" not in text] == []  # the browser's word on the refused form


@pytest.mark.spec("P1")
async def test_fields_are_added_changed_and_taken_out(
    served: Served, ground: Ground, browser: Browser
) -> None:
    await ground.project(fields=())
    page = await browser.new_page()
    await page.goto(f"{served.url}/projects/invoices")
    await expect(page.locator(".notice.warn")).to_contain_text("No fields yet")
    await page.get_by_label("Label of field 1", exact=True).fill("Invoice number")
    await page.get_by_label("Label of field 2", exact=True).fill("Total due")
    await page.get_by_label("Type of field 2", exact=True).select_option("amount")
    await page.get_by_label("Unit of field 2", exact=True).fill("EUR")
    await page.get_by_label("Categories of field 2", exact=True).fill("Invoice, Receipt")
    await shoot(page, "project-fields", full_page=True)
    await page.get_by_role("button", name="Another field").click()
    await expect(page.get_by_label("Label of field 4", exact=True)).to_be_focused()
    await page.keyboard.type("Fax")
    await follow(page.get_by_role("button", name="Save the fields"))
    await expect(page.get_by_role("status").filter(has_text="The fields are saved.")).to_be_visible()
    assert await ground.one("select categories from project_fields where name = 'total_due'") == [
        "Invoice",
        "Receipt",
    ]
    catalog = "select string_agg(concat_ws('/', name, type, label, unit), ' ' order by position) from project_fields"
    assert (
        await ground.one(catalog)
        == "invoice_number/text/Invoice number/ total_due/amount/Total due/EUR fax/text/Fax/"
    )
    await page.locator("#fields > summary").click()
    await page.get_by_role("button", name="Remove field 3", exact=True).click()
    await page.get_by_label("Key of field 1", exact=True).fill("number")
    await follow(page.get_by_role("button", name="Save the fields"))
    await expect(page.get_by_role("status").filter(has_text="The fields are saved.")).to_be_visible()
    assert await ground.one(catalog) == "number/text/Invoice number/ total_due/amount/Total due/EUR"
    await page.locator("#fields > summary").click()
    await page.get_by_label("Label of field 3", exact=True).fill("Total due")
    await page.get_by_role("button", name="Save the fields").click()
    await expect(page.locator("#fields").get_by_role("alert")).to_contain_text(
        "The field total_due is there twice"
    )
    await expect(page.get_by_label("Label of field 3", exact=True)).to_have_value("Total due")


@pytest.mark.spec("P1")
async def test_files_are_dropped_or_chosen_and_appear_in_the_list(
    served: Served, ground: Ground, browser: Browser
) -> None:
    await ground.project(fields=FIELDS)
    page = await browser.new_page()
    complaints = watch_console(page)
    await page.goto(f"{served.url}/projects/invoices")
    await page.evaluate("window.stayed = true")
    await drop_files(page, ["a.txt", "b.txt"])
    await expect(page.locator("#upload-sum")).to_have_text("2 of 2 added.")
    await expect(page.locator(".paper-row")).to_have_count(2)
    await page.locator("#files").set_input_files(some_files(*(f"{number}.txt" for number in range(7))))
    await expect(page.locator("#upload-sum")).to_have_text("9 of 9 added.")
    await expect(page.locator(".paper-row")).to_have_count(9)
    await page.locator("#files").set_input_files(some_files("3.txt"))
    await expect(page.locator("#upload-sum")).to_have_text("10 of 10 added · 1 known already.")
    await expect(page.locator(".paper-row .tag", has_text="twin")).to_have_count(1)
    await expect(page.locator(".parcel")).to_have_count(0)
    assert await page.evaluate("window.stayed")
    assert complaints == []


@pytest.mark.spec("P1")
async def test_a_folder_is_taken_with_all_that_is_in_it_but_hidden_files(
    served: Served, ground: Ground, browser: Browser, tmp_path: Path
) -> None:
    await ground.project()
    (tmp_path / "papers" / "2024" / ".git").mkdir(parents=True)
    for name in ("a.txt", ".DS_Store", "2024/b.txt", "2024/.git/config"):
        (tmp_path / "papers" / name).write_text(name)
    page = await browser.new_page()
    await page.goto(f"{served.url}/projects/invoices")
    await page.locator("#folder").set_input_files(tmp_path / "papers")
    await expect(page.locator("#upload-sum")).to_have_text("2 of 2 added.")
    names = "select string_agg(name, ' ' order by name) from project_files"
    assert await ground.one(names) == "papers/2024/b.txt papers/a.txt"


@pytest.mark.spec("P1")
async def test_a_folder_that_is_dropped_is_taken_with_all_that_is_in_it_but_hidden_files(
    served: Served, ground: Ground, browser: Browser, tmp_path: Path
) -> None:
    await ground.project()
    many = 130  # a browser lists a hundred at a time
    papers = tmp_path / "papers"
    for folder in ("2024/may", "2024/.git", "scans", "nothing in it"):
        (papers / folder).mkdir(parents=True)
    for name in ("a.txt", ".DS_Store", "2024/may/b.txt", "2024/.git/config"):
        (papers / name).write_text(name)
    for number in range(many):
        (papers / "scans" / f"{number}.txt").write_text(f"scan {number}")
    (tmp_path / "beside.txt").write_text("beside")
    page = await browser.new_page()
    complaints = watch_console(page)
    await page.goto(f"{served.url}/projects/invoices")
    await drop_paths(page, papers, tmp_path / "beside.txt")
    await expect(page.locator("#upload-sum")).to_have_text(f"{many + 3} of {many + 3} added.", timeout=60_000)
    await expect(page.locator("#upload-fault")).to_be_empty()
    names = "select array_agg(name order by name) from project_files where name not like 'papers/scans/%'"
    assert await ground.one(names) == ["beside.txt", "papers/2024/may/b.txt", "papers/a.txt"]
    scans = "select count(distinct name) from project_files where name ~ '^papers/scans/[0-9]+.txt$'"
    assert await ground.one(scans) == many
    written = "select bytes from analyses a join project_files f on f.analysis_id = a.id where name = $1"
    assert await ground.one(written, "papers/2024/may/b.txt") == len("2024/may/b.txt")
    assert complaints == []


async def test_a_folder_with_no_file_in_it_says_so(
    served: Served, ground: Ground, browser: Browser, tmp_path: Path
) -> None:
    await ground.project()
    (tmp_path / "papers" / "2024").mkdir(parents=True)
    page = await browser.new_page()
    await page.goto(f"{served.url}/projects/invoices")
    await drop_paths(page, tmp_path / "papers")
    await expect(page.locator("#upload-fault")).to_have_text("There is no file in it.")


async def test_what_cannot_be_read_of_a_folder_is_said_and_the_rest_is_taken(
    served: Served, ground: Ground, browser: Browser
) -> None:
    await ground.project()
    page = await browser.new_page()
    await page.goto(f"{served.url}/projects/invoices")
    await drop_a_folder_with_faults(page)
    await expect(page.locator("#upload-fault")).to_have_text(
        "papers/locked.txt, papers/closed could not be read."
    )
    await expect(page.locator("#upload-sum")).to_have_text("2 of 2 added.")
    names = "select string_agg(name, ' ' order by name) from project_files"
    assert await ground.one(names) == "papers/a.txt papers/z.txt"


async def test_what_goes_wrong_with_a_file_is_said_and_it_can_be_tried_again(
    served: Served, ground: Ground, browser: Browser
) -> None:
    await ground.project()
    page = await browser.new_page()
    await page.goto(f"{served.url}/projects/invoices")
    await page.evaluate("document.getElementById('upload').dataset.limit = 30")
    large: FilePayload = {"name": "large.txt", "mimeType": "text/plain", "buffer": bytes(31)}
    await page.locator("#files").set_input_files([large, *some_files("small.txt")])
    await expect(page.locator("#upload-fault")).to_have_text(
        "large.txt is too large: 31 B; the limit is 30 B."
    )
    await expect(page.locator("#upload-sum")).to_have_text("1 of 1 added.")

    async def refuse(route: Route) -> None:
        problem = '{"detail": "there is no room", "fix": "free some space"}'
        await route.fulfill(status=507, content_type="application/problem+json", body=problem)

    await page.route("**/api/projects/*/files?*", refuse)
    await page.locator("#files").set_input_files(some_files("later.txt"))
    parcel = page.locator(".parcel[data-state=failed]")
    await expect(parcel).to_contain_text("there is no room (free some space)")
    await expect(page.locator("#upload-sum")).to_have_text("1 of 2 added · 1 failed.")
    await page.unroute("**/api/projects/*/files?*")
    await page.get_by_role("button", name="Try again: later.txt").click()
    await expect(page.locator("#upload-sum")).to_have_text("2 of 2 added.")
    await expect(page.locator(".parcel")).to_have_count(0)


@pytest.mark.spec("P1")
async def test_the_list_follows_what_happens_to_files(
    served: Served, ground: Ground, browser: Browser
) -> None:
    await ground.project(fields=FIELDS)
    page = await browser.new_page()
    await page.goto(f"{served.url}/projects/invoices")
    await page.evaluate("window.stayed = true")
    file = await ground.add(content=b"x", name="letter.pdf")
    row = page.locator(f"#file-{file['id']}")
    await expect(row).to_contain_text("queued")
    (job,) = await ground.claim()
    await expect(row).to_contain_text("processing")
    await ground.fail(job, "the <b>file</b> is damaged", permanent=True)
    await expect(row.locator(".error")).to_have_text("the <b>file</b> is damaged")
    await add_invoice(ground)
    await expect(page.get_by_role("link", name="Review 7 values")).to_be_visible()
    await page.get_by_role("link", name="Failed 1").click()
    await expect(page.locator(".paper-row")).to_have_count(1)


@pytest.mark.spec("P6")
async def test_what_is_sure_is_accepted_in_one_go_and_exported(
    served: Served, ground: Ground, browser: Browser, tmp_path: Path
) -> None:
    await ground.project(fields=FIELDS)
    await add_invoice(ground)
    page = await browser.new_page()
    await page.goto(f"{served.url}/projects/invoices")
    await page.get_by_text("Accept what is sure").click()
    await page.get_by_role("button", name="Accept them").click()
    await expect(page.get_by_role("status").filter(has_text="3 values accepted.")).to_be_visible()
    async with page.expect_download() as downloading:
        await page.get_by_role("link", name="CSV").click()
    download = await downloading.value
    assert download.suggested_filename == "invoices.csv"
    await download.save_as(tmp_path / "table.csv")
    assert "2024-0815,2024-05-03,1404.50,EUR,,," in (tmp_path / "table.csv").read_text()


@pytest.mark.spec("P5")
async def test_files_are_analysed_again_from_the_page(
    served: Served, ground: Ground, browser: Browser
) -> None:
    await ground.project(fields=FIELDS)
    file_id = await add_invoice(ground)
    page = await browser.new_page()
    await page.goto(f"{served.url}/projects/invoices")
    await page.get_by_text("Analyse again …").click()
    await page.get_by_role("button", name="Analyse again").click()
    await expect(page.get_by_role("status").filter(has_text="Everything is up to date.")).to_be_visible()
    await page.get_by_text("Analyse again …").click()
    await page.get_by_label("All others, too").check()
    await page.get_by_role("button", name="Analyse again").click()
    await expect(page.get_by_role("status").filter(has_text="1 file analysed again.")).to_be_visible()
    assert (await ground.state(file_id))[0] == "queued"


async def test_the_pages_are_complete_without_javascript(
    served: Served, ground: Ground, browser: Browser
) -> None:
    await ground.project(fields=FIELDS)
    await fill_project(ground)
    context = await browser.new_context(java_script_enabled=False)
    page = await context.new_page()
    await page.goto(f"{served.url}/projects")
    await expect(page.locator("#project-invoices")).to_contain_text("16 to review")
    await page.goto(f"{served.url}/projects/invoices")
    await expect(page.locator(".paper-row")).to_have_count(7)
    for text in (
        "it ends within its first page",
        "Not analysed: videos",
        "7 to review",
        "processing",
        "queued",
    ):
        await expect(page.locator("#project-files")).to_contain_text(text)
    await expect(page.locator("#upload noscript p")).to_be_visible()
    await expect(page.get_by_role("button", name="Choose files")).to_be_hidden()
    await page.locator("#fields > summary").click()
    await page.get_by_label("Label of field 8", exact=True).fill("Fax")
    await follow(page.get_by_role("button", name="Save the fields"))
    assert await ground.one("select count(*) from project_fields") == 8


async def test_what_is_not_there_is_said(served: Served, ground: Ground) -> None:
    await ground.project()
    await ground.project("Others")
    file_id = await ground.done()
    html = {"accept": "text/html"}
    for path in ("/projects/nothing", "/projects/invoices/files/999", f"/projects/others/files/{file_id}"):
        answer = await served.client.get(path, headers=html)
        assert (answer.status_code, "Not found" in answer.text) == (404, True), path
    for path in ("edit", "fields", "reprocess", "accept", "delete"):
        answer = await served.client.post(f"/projects/nothing/{path}", headers=html, data={"name": "x"})
        assert answer.status_code == 404, path
    answer = await served.client.get("/projects/invoices?done=99999999999+again&state=odd", headers=html)
    assert answer.status_code == 200
