"""The review of one file: its page with the place marked, proposals decided by mouse, by keys, and without a script."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest
from playwright.async_api import Browser, Route, expect

from mediamill.intake.jobs import intake_kinds
from tests.api.serving import Served, serve
from tests.intake.played import Ground, found, result_of
from tests.ui.browser import follow, shoot, watch_console
from tests.ui.papering import (
    CHOSEN,
    FIELDS,
    add_invoice,
    add_sheet,
    draw_pages,
    invoice,
    invoice_result,
    marked,
    open_file,
)


@pytest.fixture
def ground(served: Served) -> Ground:
    """The worker's side."""
    return Ground.on(served.database, served.app.state.deps.settings.data_folder)


async def states(ground: Ground, file_id: int) -> dict[str, str]:
    """Of the values, as a person decided."""
    shown = await ground.show(file_id)
    return {one["edited_value"] or one["value"]: one["state"] for one in shown["proposals"]}


@pytest.mark.spec("P3", "P6")
async def test_the_place_of_the_chosen_value_is_marked_on_its_page(
    served: Served, ground: Ground, browser: Browser
) -> None:
    await ground.project(fields=FIELDS)
    file_id = await add_invoice(ground)
    places = invoice()[1]
    page = await browser.new_page()
    complaints = watch_console(page)
    await open_file(page, served, file_id)
    await expect(page.locator(CHOSEN)).to_contain_text("2024-0815")
    await page.locator(".picture img").evaluate("image => image.decode()")
    for word, place, number in (
        ("1404.50", "total", 1),
        ("2024-06-02", "due", 2),
        ("HB-77", "order_number", 1),
    ):
        await page.get_by_role("link", name=word).click()
        await expect(page.locator(CHOSEN)).to_contain_text(word)
        await expect(page.locator("#sheet-title")).to_contain_text(f"Page {number}")
        chosen = await page.locator(CHOSEN).get_attribute("data-id")
        await expect(page.locator(f'.places a[data-proposal="{chosen}"] .chosen')).to_have_count(1)
        await page.locator(".picture img").evaluate("image => image.decode()")
        assert await marked(page) == pytest.approx(places[place], abs=0.02), word
    await page.locator(".places a[data-proposal]").first.click(force=True)
    await expect(page.locator(CHOSEN)).to_contain_text("2024-0815")
    assert complaints == []


@pytest.mark.spec("P6")
async def test_values_are_accepted_edited_and_rejected_by_the_mouse(
    served: Served, ground: Ground, browser: Browser
) -> None:
    await ground.project(fields=FIELDS)
    file_id = await add_invoice(ground)
    page = await browser.new_page()
    await open_file(page, served, file_id)
    await page.evaluate("window.stayed = true")
    await page.get_by_role("button", name="Accept 2024-0815 as Invoice number").click()
    await expect(page.locator("#said")).to_have_text(
        "Accepted: Invoice number, 2024-0815. Next: Invoice date, 2024-05-03."
    )
    await expect(page.locator(CHOSEN)).to_contain_text("2024-05-03")
    await expect(page.locator(CHOSEN)).to_be_focused()
    item = page.locator(".proposal", has_text="1404.50")
    await item.locator("summary").click()
    await item.get_by_role("textbox", name="Total due").fill("all of it")
    await item.get_by_role("button", name="Save").click()
    await expect(item.get_by_role("alert")).to_contain_text("'all of it' is no number; write it like 1234.50")
    await item.get_by_role("textbox", name="Total due").fill("1.405,00")
    await item.get_by_role("button", name="Save").click()
    edited = page.locator(".proposal.accepted", has_text="1405.00")
    await expect(edited).to_contain_text("found 1404.50")
    await page.get_by_role("button", name="Reject Harbour Bakery Ltd as Customer").click()
    await expect(page.locator(".proposal.rejected")).to_contain_text("Harbour Bakery Ltd")
    await page.get_by_role("button", name="Undo: Harbour Bakery Ltd as Customer waits again").click()
    await expect(page.locator(".proposal.rejected")).to_have_count(0)
    told = await states(ground, file_id)
    assert (told["2024-0815"], told["1405.00"], told["Harbour Bakery Ltd"]) == (
        "accepted",
        "accepted",
        "pending",
    )
    assert await page.evaluate("window.stayed")


@pytest.mark.spec("P6")
async def test_a_whole_file_is_reviewed_by_keys_alone(
    served: Served, ground: Ground, browser: Browser
) -> None:
    await ground.project(fields=FIELDS)
    file_id = await add_invoice(ground)
    other = await add_invoice(ground, name="another.pdf")
    page = await browser.new_page()
    await open_file(page, served, file_id)
    chosen = page.locator(CHOSEN)
    await page.keyboard.press("j")
    await expect(chosen).to_contain_text("2024-05-03")
    await expect(chosen).to_be_focused()
    await page.keyboard.press("k")
    await expect(chosen).to_contain_text("2024-0815")
    await page.keyboard.press("a")
    await expect(chosen).to_contain_text("2024-05-03")
    await page.keyboard.press("e")
    await expect(chosen.locator("input")).to_be_focused()
    await page.keyboard.press("Escape")
    await expect(chosen.locator("input")).to_be_hidden()
    await page.keyboard.press("e")
    await chosen.locator("input").fill("2024-05-04")
    await page.keyboard.press("Enter")
    await expect(chosen).to_contain_text("1404.50")
    await page.keyboard.press("r")
    await expect(chosen).to_contain_text("1044.00")
    await page.keyboard.press("a")
    await expect(chosen).to_contain_text("2024-06-02")
    await expect(page.locator("#sheet-title")).to_contain_text("Page 2")
    await page.keyboard.press("ArrowLeft")
    await expect(page.locator("#sheet-title")).to_contain_text("Page 1")
    await page.keyboard.press("ArrowRight")
    await expect(page.locator("#sheet-title")).to_contain_text("Page 2")
    for word in ("Harbour Bakery Ltd", "HB-77"):
        await page.keyboard.press("a")
        await expect(chosen).to_contain_text(word)
    await page.keyboard.press("a")
    await expect(page.locator("#said")).to_contain_text("Everything in this file is decided.")
    await expect(page.locator("#file-state .notice.done")).to_be_visible()
    told = await states(ground, file_id)
    assert told == {
        "2024-0815": "accepted",
        "2024-05-04": "accepted",
        "1404.50": "rejected",
        "1044.00": "accepted",
        "2024-06-02": "accepted",
        "Harbour Bakery Ltd": "accepted",
        "HB-77": "accepted",
    }
    await page.keyboard.press("u")
    await expect(page.locator(".proposal.pending")).to_have_count(1)
    await page.keyboard.press("n")
    await page.wait_for_url(f"**/files/{other}")


@pytest.mark.spec("P6")
async def test_the_place_is_in_sight_on_a_phone_whichever_value_is_chosen(
    served: Served, ground: Ground, browser: Browser
) -> None:
    await ground.project(fields=FIELDS)
    file_id = await add_invoice(ground)
    page = await (await browser.new_context(viewport={"width": 390, "height": 844})).new_page()
    await open_file(page, served, file_id)
    for value in ("2024-0815", "1404.50", "2024-06-02", "2024-05-03"):
        await page.get_by_role("link", name=value).click()
        await expect(page.locator(CHOSEN)).to_contain_text(value)
        await expect(page.locator(".place.chosen")).to_be_in_viewport(ratio=0.99)
        await expect(page.locator(CHOSEN).get_by_role("button", name="Accept")).to_be_in_viewport()


async def test_the_keys_can_be_turned_off(served: Served, ground: Ground, browser: Browser) -> None:
    await ground.project(fields=FIELDS)
    file_id = await add_invoice(ground)
    page = await browser.new_page()
    await open_file(page, served, file_id)
    await page.get_by_label("Keys:").uncheck()
    await page.keyboard.press("a")
    await page.reload()
    await expect(page.get_by_label("Keys:")).not_to_be_checked()
    await page.keyboard.press("a")
    await page.get_by_label("Keys:").check()
    await page.keyboard.press("j")
    await expect(page.locator(CHOSEN)).to_contain_text("2024-05-03")
    assert set((await states(ground, file_id)).values()) == {"pending"}


@pytest.mark.spec("P6")
async def test_a_file_is_reviewed_without_javascript(
    served: Served, ground: Ground, browser: Browser
) -> None:
    await ground.project(fields=FIELDS)
    file_id = await add_invoice(ground)
    context = await browser.new_context(java_script_enabled=False)
    page = await context.new_page()
    await open_file(page, served, file_id)
    await expect(page.locator(".place.chosen")).to_have_count(1)
    await page.get_by_role("button", name="Accept 2024-0815 as Invoice number").click()
    await expect(page.locator(CHOSEN)).to_contain_text("2024-05-03")
    await page.get_by_role("button", name="Reject 2024-05-03 as Invoice date").click()
    await expect(page.locator(CHOSEN)).to_contain_text("1404.50")
    item = page.locator(CHOSEN)
    await item.locator("summary").click()
    await item.get_by_role("textbox", name="Total due").fill("nothing")
    await item.get_by_role("button", name="Save").click()
    await expect(page.get_by_role("alert")).to_contain_text("'nothing' is no number; write it like 1234.50")
    await expect(page.get_by_role("textbox", name="Total due")).to_have_value("nothing")
    await page.get_by_role("textbox", name="Total due").fill("1500")
    await page.get_by_role("button", name="Save").click()
    await expect(page.locator(CHOSEN)).to_contain_text("2024-06-02")
    await expect(page.locator("#sheet-title")).to_contain_text("Page 2")
    await page.get_by_role("link", name="Page before").click()
    await expect(page.locator("#sheet-title")).to_contain_text("Page 1")
    await page.get_by_role("button", name="Accept the surest of each").click()
    await expect(page.locator("#proposals-title + .sum")).to_have_text("all decided")
    told = await states(ground, file_id)
    assert (told["2024-0815"], told["2024-05-03"], told["1500"], told["HB-77"]) == (
        "accepted",
        "rejected",
        "accepted",
        "accepted",
    )


@pytest.mark.spec("P3")
async def test_a_page_without_a_picture_is_shown_as_text_with_the_quote_marked(
    served: Served, ground: Ground, browser: Browser
) -> None:
    await ground.project(fields=FIELDS)
    file_id = await add_sheet(ground)
    page = await browser.new_page()
    await open_file(page, served, file_id)
    await expect(page.locator(".letters mark")).to_have_text("Invoice number\t2024-0900")
    await page.get_by_role("link", name="Mill Café").click()
    await expect(page.locator(".letters mark")).to_have_text("Mill Café <b>& Co</b>")
    await expect(page.locator(".letters")).to_contain_text("Delivery note")


@pytest.mark.spec("P6")
async def test_what_was_chosen_stays_when_an_answer_from_before_comes_late(
    served: Served, ground: Ground, browser: Browser
) -> None:
    await ground.project(fields=FIELDS)
    file_id = await add_invoice(ground)
    page = await browser.new_page()
    asked, go_on = asyncio.Event(), asyncio.Event()

    async def late(route: Route) -> None:
        answer = await route.fetch()
        first = not asked.is_set()
        asked.set()
        if first:
            await go_on.wait()
        await route.fulfill(response=answer)

    await page.route("**/files/*?part=live*", late)
    await open_file(page, served, file_id)
    await asked.wait()
    await page.get_by_role("link", name="2024-06-02").click()
    await expect(page.locator("#sheet-title")).to_contain_text("Page 2")
    go_on.set()
    number = await ground.proposal(file_id, "invoice_number")
    assert (await served.client.post(f"/api/proposals/{number}/accept")).status_code == 200
    await expect(page.locator(".proposal.accepted")).to_contain_text("2024-0815")
    await expect(page.locator(CHOSEN)).to_contain_text("2024-06-02")
    await expect(page.locator("#sheet-title")).to_contain_text("Page 2")


@pytest.mark.spec("P6")
async def test_news_of_another_value_does_not_take_away_what_is_wrong_with_this_one(
    served: Served, ground: Ground, browser: Browser
) -> None:
    await ground.project(fields=FIELDS)
    file_id = await add_invoice(ground)
    page = await browser.new_page()
    await open_file(page, served, file_id)
    item = page.locator(".proposal", has_text="1404.50")
    await item.locator("summary").click()
    await item.get_by_role("textbox", name="Total due").fill("all of it")
    await item.get_by_role("button", name="Save").click()
    await expect(item.get_by_role("alert")).to_contain_text("'all of it' is no number")
    number = await ground.proposal(file_id, "invoice_number")
    assert (await served.client.post(f"/api/proposals/{number}/accept")).status_code == 200
    await expect(page.locator(".proposal.accepted")).to_contain_text("2024-0815")
    await expect(item.get_by_role("alert")).to_contain_text("'all of it' is no number")
    await item.get_by_role("textbox", name="Total due").fill("1.405,00")
    await item.get_by_role("button", name="Save").click()
    await expect(page.locator(".proposal.accepted", has_text="1405.00")).to_be_visible()
    await expect(page.locator("#proposals").get_by_role("alert")).to_have_count(0)


@pytest.mark.spec("P4", "P6", "V17")
async def test_the_page_follows_the_analysis_and_what_others_decide(
    served: Served, ground: Ground, browser: Browser
) -> None:
    await ground.project(fields=FIELDS)
    file = await ground.add(content=b"later", name="later.pdf")
    page = await browser.new_page()
    await open_file(page, served, file["id"])
    await follow(page.get_by_role("button", name="High"))
    await expect(page.get_by_role("button", name="High")).to_have_attribute("aria-pressed", "true")
    await page.evaluate("window.stayed = true")
    await expect(page.locator("#file-state")).to_contain_text("Waits to be analysed")
    (job,) = await ground.claim()
    await expect(page.locator("#file-state")).to_contain_text("Being analysed")
    await ground.finish(job, {**invoice_result(), **draw_pages(ground, job)})
    await expect(page.locator(".proposal")).to_have_count(7)
    await expect(page.locator(".picture img")).to_be_visible()
    item = page.locator(".proposal", has_text="1404.50")
    await item.locator("summary").click()
    await item.get_by_role("textbox", name="Total due").fill("1399")
    total = await ground.proposal(file["id"], "invoice_number")
    answer = await served.client.post(f"/api/proposals/{total}/accept")
    assert answer.status_code == 200
    await expect(page.locator(".proposal.accepted")).to_contain_text("2024-0815")
    await expect(item.get_by_role("textbox", name="Total due")).to_have_value("1399")
    assert await page.evaluate("window.stayed")


@pytest.mark.spec("P3")
async def test_of_a_type_that_nobody_analyses_it_is_said_that_nothing_was_looked_for(
    served: Served, ground: Ground, browser: Browser
) -> None:
    await ground.project(fields=FIELDS)
    file_id = await ground.done(fields=[], kind="unsupported", unsupported="videos are only kept")
    page = await browser.new_page()
    await open_file(page, served, file_id)
    await expect(page.locator("#file-state")).to_have_text("Not analysed: videos are only kept")
    await expect(page.locator(".group .none")).to_have_text(["Not looked for"] * len(FIELDS))


async def test_what_failed_is_explained_and_tried_again(
    served: Served, ground: Ground, browser: Browser
) -> None:
    await ground.project(fields=FIELDS)
    file = await ground.add(content=b"broken", name="broken.pdf")
    (job,) = await ground.claim()
    await ground.fail(job, "the <i>document</i> is damaged", permanent=True)
    page = await browser.new_page()
    await open_file(page, served, file["id"])
    await expect(page.locator("#file-state .error")).to_have_text("the <i>document</i> is damaged")
    await page.get_by_role("button", name="Try again").click()
    await expect(page.locator("#file-state")).to_contain_text("Waits to be analysed")
    assert (await ground.state(file["id"]))[0] == "queued"


@pytest.mark.spec("P10")
async def test_what_fits_no_field_is_offered_and_becomes_one_or_goes(
    served: Served, ground: Ground, browser: Browser
) -> None:
    await ground.project(fields=FIELDS)
    file = await ground.add(content=b"%PDF-1.4 more", name="Invoice 2024-0815.pdf")
    (job,) = await ground.claim()
    names = (("IBAN", "DE12 3456 7890 1234 5678 90"), ("Repair <b>of</b>", "the mill wheel"))
    unmapped = [found(name, value, type="text") for name, value in names]
    unmapped += [
        found("Delivered on", "2024-05-02", type="date"),
        found("Weight", "4.5", unit="kg", type="number"),
    ]
    result = {**invoice_result(), **draw_pages(ground, job), "unmapped": unmapped}
    assert (await ground.finish(job, result)).done
    page = await browser.new_page()
    complaints = watch_console(page)
    await open_file(page, served, file["id"])
    offers = page.locator("#unmapped li")
    await expect(offers).to_have_count(4)
    await expect(offers.nth(1)).to_contain_text("Repair <b>of</b>")
    await offers.first.scroll_into_view_if_needed()
    await shoot(page, "file-unmapped", full_page=True)
    await follow(page.get_by_role("button", name="Make IBAN a field"))
    await expect(page.locator("#g-iban .proposal.accepted")).to_contain_text("DE12 3456")
    await follow(page.get_by_role("button", name="Drop Repair"))
    await expect(offers).to_have_count(2)
    await page.get_by_label("Delivered on is the value of a field").click()
    await page.get_by_label("Field of Delivered on").select_option("due")
    await follow(page.locator("#unmapped details[open] button"))
    await expect(page.locator("#g-due .proposal.accepted")).to_contain_text("2024-05-02")
    await expect(offers).to_have_count(1)
    assert complaints == []


@pytest.mark.spec("P9")
async def test_the_category_of_a_file_is_shown_and_set(
    served: Served, ground: Ground, browser: Browser
) -> None:
    await ground.project(fields=FIELDS)
    file_id = await add_invoice(ground)
    guess = """update analyses set result = jsonb_set(result, '{facts,document_kind}', '"Quotation"')"""
    await ground.run(guess)
    page = await browser.new_page()
    await open_file(page, served, file_id)
    await expect(page.locator("#facts")).to_contain_text("Quotation (guessed)")
    await page.locator("#category > summary").click()
    await page.get_by_label("Category").fill("Invoice")
    await shoot(page, "file-category", full_page=True)
    await follow(page.locator("#category button"))
    await expect(page.locator("#facts dd").first).to_have_text("Invoice")
    assert (await ground.show(file_id))["category_by"] == "person"


@pytest.mark.spec("P8")
async def test_pages_that_were_left_out_are_named_and_a_button_reads_on(
    served: Served, ground: Ground, browser: Browser
) -> None:
    await ground.project(fields=FIELDS)
    file_id = await add_invoice(ground)
    await ground.run("update analyses set result = jsonb_set(result, '{facts,unread}', '[[51, 400]]')")
    page = await browser.new_page()
    await page.goto(f"{served.url}/projects/invoices")
    tag = page.locator(f"#file-{file_id} .tag")
    await expect(tag).to_have_attribute("title", "Pages 51 to 400 were not read")
    await shoot(page, "file-left-out-list")
    await open_file(page, served, file_id)
    await expect(page.locator("#unread")).to_contain_text("Pages 51 to 400 were not read.")
    await shoot(page, "file-left-out")
    await page.locator("#read-on").click()
    await expect(page.locator("#file-state")).to_contain_text("Waits to be analysed")
    (job,) = await ground.claim()
    assert json.loads(job.payload_json)["rounds"] == 2


@pytest.mark.spec("P5", "P6")
async def test_analysing_again_keeps_what_was_accepted(
    served: Served, ground: Ground, browser: Browser
) -> None:
    await ground.project(fields=FIELDS)
    file_id = await add_invoice(ground)
    page = await browser.new_page()
    await open_file(page, served, file_id)
    await page.get_by_role("button", name="Accept 2024-0815 as Invoice number").click()
    await expect(page.locator(".proposal.accepted")).to_have_count(1)
    await page.get_by_text("Analyse again …").click()
    await page.get_by_role("button", name="Analyse again").click()
    await expect(page.locator("#file-state")).to_contain_text("Waits to be analysed")
    (job,) = await ground.claim()
    await ground.finish(job, result_of(fields=[found("invoice_number", "0815"), found("paid", "true")]))
    await expect(page.locator(".proposal.accepted")).to_contain_text("2024-0815")
    await expect(page.locator(".proposal.pending")).to_have_count(2)
    assert await states(ground, file_id) == {"2024-0815": "accepted", "0815": "pending", "true": "pending"}


async def test_a_value_from_a_stranger_is_only_ever_text(
    served: Served, ground: Ground, browser: Browser
) -> None:
    await ground.project(fields=FIELDS)
    evil = '"><img src=x onerror=window.hurt=1>'
    file = await ground.add(content=b"evil", name=f"{evil}.pdf")
    (job,) = await ground.claim()
    fields: list[dict[str, Any]] = [found("customer", evil, raw=evil, quote=evil, box=None)]
    await ground.finish(job, result_of(fields=fields, content=evil, summary=evil), pages=(evil,))
    page = await browser.new_page()
    await open_file(page, served, file["id"])
    await expect(page.locator(".value")).to_contain_text(evil)
    await page.goto(f"{served.url}/projects/invoices")
    await expect(page.locator(".paper-row h3")).to_contain_text(evil)
    assert await page.evaluate("window.hurt") is None


async def test_a_file_is_deleted_from_its_page(served: Served, ground: Ground, browser: Browser) -> None:
    await ground.project(fields=FIELDS)
    file_id = await add_invoice(ground)
    page = await browser.new_page()
    await open_file(page, served, file_id)
    await page.get_by_text("Delete the file …").click()
    await page.get_by_role("button", name="Delete Invoice 2024-0815.pdf").click()
    await expect(page.locator("#project-files")).to_contain_text("No files yet")
    assert await ground.one("select count(*) from project_files") == 0


@pytest.mark.spec("P6")
async def test_a_value_is_entered_where_nothing_was_found_without_javascript(
    served: Served, ground: Ground, browser: Browser
) -> None:
    await ground.project(fields=FIELDS)
    file_id = await add_sheet(ground)
    context = await browser.new_context(java_script_enabled=False)
    page = await context.new_page()
    await open_file(page, served, file_id)
    await expect(page.locator(".group")).to_have_count(len(FIELDS))
    await expect(page.locator("details.enter > summary")).to_have_count(len(FIELDS))
    group = page.locator("#g-total")
    await expect(group).to_contain_text("Nothing found")
    await group.locator("summary").click()
    await group.get_by_role("textbox", name="Total due").fill("a lot")
    await group.get_by_role("button", name="Save").click()
    await expect(group.get_by_role("alert")).to_contain_text("'a lot' is no number; write it like 1234.50")
    await expect(group.get_by_role("textbox", name="Total due")).to_have_value("a lot")
    await group.get_by_role("textbox", name="Total due").fill("1.404,50")
    await group.get_by_role("button", name="Save").click()
    await expect(page.locator(CHOSEN)).to_contain_text("1404.50 EUR")
    await expect(page.locator(CHOSEN)).to_contain_text("entered by a person")
    await page.locator("#g-paid summary").click()
    await page.get_by_role("combobox", name="Already paid").select_option("false")
    await page.locator("#g-paid").get_by_role("button", name="Save").click()
    await expect(page.locator("#g-paid .proposal.accepted")).to_contain_text("false")
    told = await states(ground, file_id)
    assert (told["1404.50"], told["false"]) == ("accepted", "accepted")


@pytest.mark.spec("P6")
async def test_news_does_not_take_away_what_is_wrong_with_a_value_that_was_entered(
    served: Served, ground: Ground, browser: Browser
) -> None:
    await ground.project(fields=FIELDS)
    file_id = await add_invoice(ground)
    page = await browser.new_page()
    await open_file(page, served, file_id)
    group = page.locator("#g-total")
    await group.locator("details.enter > summary").click()
    await group.locator("#w-total").fill("a lot")
    await follow(group.locator("details.enter").get_by_role("button", name="Save"))
    number = await ground.proposal(file_id, "invoice_number")
    assert (await served.client.post(f"/api/proposals/{number}/accept")).status_code == 200
    await expect(page.locator(".proposal.accepted")).to_contain_text("2024-0815")
    await expect(group.get_by_role("alert")).to_contain_text("'a lot' is no number")
    await expect(group.locator("#w-total")).to_have_value("a lot")
    await shoot(page, "review-refused")
    await group.locator("#w-total").fill("1.405,00")
    await follow(group.locator("details.enter").get_by_role("button", name="Save"))
    await expect(page.locator(".proposal.accepted", has_text="1405.00")).to_be_visible()
    await expect(page.locator("#proposals").get_by_role("alert")).to_have_count(0)


@pytest.mark.spec("P6")
async def test_a_value_is_entered_by_keys_alone_and_entered_again(
    served: Served, ground: Ground, browser: Browser
) -> None:
    await ground.project(fields=FIELDS)
    file_id = await add_invoice(ground)
    page = await browser.new_page()
    complaints = watch_console(page)
    await open_file(page, served, file_id)
    for value in ("Mill", "Mill & Sons"):
        await page.locator("#g-customer .enter > summary").focus()
        await page.keyboard.press("Enter")
        await expect(page.locator("#w-customer")).to_be_focused()
        await page.keyboard.press("Escape")
        await expect(page.locator("#w-customer")).to_be_hidden()
        await page.keyboard.press("Enter")
        await expect(page.locator("#w-customer")).to_be_focused()
        await page.keyboard.type(value)
        async with page.expect_navigation():  # news of the value may reach the old page first
            await page.keyboard.press("Enter")
        await expect(page.locator("#g-customer .proposal.accepted .value")).to_have_text(value)
    told = await states(ground, file_id)
    assert (told["Mill & Sons"], told["Harbour Bakery Ltd"], "Mill" in told) == ("accepted", "pending", False)
    assert complaints == []


@pytest.mark.spec("P3")
async def test_an_amount_in_another_currency_says_so(
    served: Served, ground: Ground, browser: Browser
) -> None:
    await ground.project(fields=FIELDS)
    fields = [
        found("total", "88.00", raw="USD 88", unit="USD", confidence=0.5),
        found("total", "81.00", unit="EUR", confidence=0.4),
    ]
    file_id = await ground.done(fields=fields)
    page = await browser.new_page()
    await open_file(page, served, file_id)
    other, wanted = (page.locator("#g-total .proposal", has_text=value) for value in ("88.00", "81.00"))
    await expect(other).to_contain_text("in USD, not EUR")
    await expect(other).to_contain_text("50 % unsure")
    await expect(wanted).not_to_contain_text("not EUR")


@pytest.mark.spec("P1")
async def test_a_file_of_another_extractor_is_called_outdated(ground: Ground, browser: Browser) -> None:
    await ground.project(fields=FIELDS)
    file_id = await add_invoice(ground)
    model = {"text": "openai", "openai_url": "http://127.0.0.1:9/v1"}
    async with serve(
        ground.database, ground.data, intake_kinds(ground.settings), pages=True, **model
    ) as served:
        page = await browser.new_page()
        await open_file(page, served, file_id)
        await expect(page.locator("#file-state")).to_contain_text("by another extractor, than are set now")
        await page.goto(f"{served.url}/projects/invoices")
        await expect(page.locator(f"#file-{file_id} .tag.warn")).to_have_text("outdated")
        await page.close()
