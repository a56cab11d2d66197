from __future__ import annotations

import re
from pathlib import Path

import pytest
from playwright.async_api import Browser, expect

from tests.api.serving import Served
from tests.ui.browser import follow, watch_console
from tests.ui.picturing import many_rows


@pytest.mark.spec("L1")
async def test_a_library_is_added_paused_removed_and_brought_back_by_the_page(
    served: Served, browser: Browser, tmp_path: Path
) -> None:
    photos = tmp_path / "photos"
    photos.mkdir()
    page = await browser.new_page()
    complaints = watch_console(page)
    await page.goto(f"{served.url}/libraries")
    await expect(page.get_by_role("heading", name="No libraries yet")).to_be_visible()
    await page.get_by_label("Name").fill("Our holidays")
    await page.get_by_label("Folder").fill(f"{tmp_path}/<b>nowhere</b>")
    await page.get_by_label("Scan it now").uncheck()
    await page.get_by_role("button", name="Add").click()
    await expect(page.get_by_role("alert")).to_contain_text(
        "<b>nowhere</b> is no folder that can be seen from here"
    )
    await expect(page.get_by_label("Name")).to_have_value("Our holidays")
    await expect(page.get_by_label("Scan it now")).not_to_be_checked()
    await page.get_by_label("Folder").fill(str(photos))
    await follow(page.get_by_role("button", name="Add"))
    card = page.locator("#library-our-holidays")
    await expect(card).to_contain_text("Not scanned yet")
    await follow(page.get_by_role("button", name="Pause Our holidays"))
    await expect(card.locator(".state.warn")).to_have_text("paused")
    assert await served.one("select is_active from libraries") is False
    await follow(page.get_by_role("button", name="Resume Our holidays"))
    await expect(card.locator(".state.warn")).to_have_count(0)
    await page.get_by_role("button", name="Remove Our holidays").click()
    await expect(page.locator(".library")).to_have_count(0)
    await expect(page.get_by_role("status").filter(has_text="Our holidays is in the trash")).to_be_visible()
    await page.get_by_role("button", name="Undo").click()
    await expect(card).to_be_visible()
    assert await served.one("select deleted_at from libraries") is None
    assert [text for text in complaints if "422" not in text] == []  # the browser's word on the refused form


async def test_the_progress_of_a_scan_is_shown_as_it_goes(
    served: Served, browser: Browser, tmp_path: Path
) -> None:
    slug = await many_rows(served, tmp_path / "many", 20)
    page = await browser.new_page()
    await page.goto(f"{served.url}/libraries")
    await page.evaluate("window.stayed = true")
    tell = "insert into events (topic, subject, data) values ('library.changed', $1, '{}')"
    await served.run(
        "update libraries set scan_status = 'scanning', scan_counts = '{\"folders\": 1234, \"new\": 5678}'"
    )
    await served.run(tell, slug)
    card = page.locator(f"#library-{slug}")
    await expect(card).to_contain_text("Scanning")
    await expect(card).to_contain_text("1,234 folders · 5,678 new")
    await expect(card.get_by_role("progressbar")).to_be_visible()
    await expect(page.get_by_role("button", name="Scan Everything")).to_be_disabled()
    await served.run(
        "update libraries set scan_status = 'idle', scanned_at = now(), scan_error = 'the folder <is> not mounted'"
    )
    await served.run(tell, slug)
    await expect(card).to_contain_text(re.compile(r"Scanned \d+ s ago"))
    await expect(card.locator(".error")).to_have_text("the folder <is> not mounted")
    assert await page.evaluate("window.stayed")


async def test_what_cannot_be_done_to_a_library_is_said(served: Served) -> None:
    for path in ("pause", "resume", "remove", "restore"):
        answer = await served.client.post(f"/libraries/nothing/{path}", headers={"accept": "text/html"})
        assert answer.status_code == 404, path
        assert "There is no library" in answer.text
    for path in ("/libraries/nothing", "/libraries/nothing/cells?month=2024-05"):
        assert (await served.client.get(path)).status_code == 404


NEWS = """() => {
    const part = document.querySelector('[hx-trigger*="sse:"]');
    htmx.trigger(part, "sse:library.changed");
    htmx.trigger(part, "htmx:sseMessage");
}"""
COUNT = "window.looks = 0; document.body.addEventListener('htmx:trigger', () => looks++)"


async def test_the_last_of_much_news_is_looked_at_whenever_it_comes(served: Served, browser: Browser) -> None:
    page = await browser.new_page()
    await page.route("**/api/events?*", lambda route: route.abort())  # there is no other news
    await page.clock.install(time=0)
    await page.clock.pause_at(1000)
    await page.goto(f"{served.url}/libraries")
    await page.evaluate(COUNT)
    await page.evaluate(NEWS)
    await page.clock.run_for(1020)  # one may look again, and what came meanwhile is told in a moment
    await page.evaluate(NEWS)
    assert await page.evaluate("looks") == 2
    await page.clock.run_for(10)
    await page.evaluate(NEWS)
    assert await page.evaluate("looks") == 2
    await page.clock.run_for(3000)
    assert await page.evaluate("looks") == 3
