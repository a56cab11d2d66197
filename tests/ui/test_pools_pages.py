"""The pages of pools: seen live, made, changed and dropped; a bad definition is refused where it is wrong."""

from __future__ import annotations

import re

import pytest
from playwright.async_api import Browser, expect

from tests.api.serving import Served
from tests.ui.browser import watch_console
from tests.ui.busy import fill

LIMIT = 60_000


@pytest.mark.spec("E16")
@pytest.mark.parametrize("scripts", [True, False], ids=["with scripts", "without scripts"])
async def test_a_pool_is_changed_by_its_form_and_a_bad_definition_is_refused_at_its_field(
    served: Served, browser: Browser, scripts: bool
) -> None:
    await fill(served.database)
    context = await browser.new_context(java_script_enabled=scripts)
    page = await context.new_page()
    await page.goto(f"{served.url}/pools")
    await page.get_by_role("link", name="images", exact=True).click()
    await page.get_by_label("At once").fill("none")
    await page.get_by_label("Attempts").fill("0")
    await page.get_by_label("Takes").fill("image/jpeg\naudio/ogg")
    await page.get_by_label("GPU first").check()
    await page.get_by_role("button", name="Save").click()
    alert = page.get_by_role("alert")
    await expect(alert).to_contain_text("Nothing was changed")
    at_once = page.get_by_label("At once")
    await expect(at_once).to_have_attribute("aria-invalid", "true")
    await expect(at_once).to_have_accessible_description(re.compile("concurrency must be int, not 'none'"))
    await expect(page.locator("#max_attempts-fault")).to_contain_text("must be between 1 and 1000, not 0")
    await expect(at_once).to_have_value("none")  # what was typed is still there
    await expect(page.get_by_label("GPU first")).to_be_checked()
    assert await served.one("select concurrency from pools where name = 'images'") == 4
    await at_once.fill("6")
    await page.get_by_label("Attempts").fill("5")
    await page.get_by_role("button", name="Save").click()
    await expect(page.locator("#matches-fault")).to_contain_text(
        "audio/ogg is matched by audio and by images"
    )
    assert await served.one("select concurrency from pools where name = 'images'") == 4
    await page.get_by_label("Takes").fill("image/jpeg, image/png")
    await page.get_by_label("No-progress limit").fill("900")
    await page.get_by_role("button", name="Save").click()
    await expect(page.get_by_role("status").filter(has_text="Saved: images")).to_be_visible()
    row = await served.one(
        "select (concurrency, max_attempts, matches, gpu, no_progress_seconds)::text from pools where name = 'images'"
    )
    assert row == '(6,5,"{image/jpeg,image/png}",t,900)'


@pytest.mark.spec("E16")
async def test_pools_are_made_and_dropped_and_the_catch_all_stays(served: Served, browser: Browser) -> None:
    await fill(served.database)
    page = await browser.new_page()
    complaints = watch_console(page)
    await page.goto(f"{served.url}/pools")
    await page.get_by_text("A new pool …").click()
    await page.get_by_role("button", name="Make the pool").click()
    await expect(page.locator("#name-fault")).to_contain_text("name is missing")
    await page.get_by_label("Name").fill("audio")
    await page.get_by_label("Takes").fill("x.y")
    await page.get_by_role("button", name="Make the pool").click()
    await expect(page.locator("#name-fault")).to_contain_text("there is a pool named audio already")
    await page.get_by_label("Name").fill("odd / name?")
    await page.get_by_role("button", name="Make the pool").click()
    await expect(page.get_by_role("status").filter(has_text="Made: odd / name?")).to_be_visible()
    await page.get_by_role("link", name="odd / name?").click()
    await page.get_by_text("Drop the pool …").click()
    await page.get_by_role("button", name="Drop odd / name?").click()
    await expect(page.get_by_role("status").filter(has_text="Dropped")).to_be_visible()
    await page.get_by_role("link", name="videos", exact=True).click()
    await page.get_by_text("Drop the pool …").click()
    await page.get_by_role("button", name="Drop videos").click()
    await expect(page.get_by_role("status").filter(has_text="Dropped")).to_be_visible()
    assert (
        await served.one("select count(*) from jobs where pool = 'default' and kind = 'video.transcode'") == 9
    )
    await page.get_by_role("link", name="default", exact=True).click()
    await expect(page.get_by_text("The catch-all cannot be dropped")).to_be_visible()
    answer = await served.client.post("/pools/default/drop")
    assert answer.status_code == 422
    assert "no pool is the catch-all" in answer.text
    assert (await served.client.get("/pools/nonsense", headers={"Accept": "text/html"})).status_code == 404
    assert [each for each in complaints if "422" not in each] == []


@pytest.mark.spec("E31")
async def test_depths_follow_while_the_page_is_open(served: Served, browser: Browser) -> None:
    page = await browser.new_page()
    await page.goto(f"{served.url}/pools")
    row = page.locator("#pools tr", has_text="scripted.run")
    await page.evaluate("window.stayed = true")
    await served.enqueue()
    await expect(row.get_by_role("link", name="1", exact=True)).to_be_visible(timeout=LIMIT)
    assert await page.evaluate("window.stayed") is True
