from __future__ import annotations

import asyncio
import re
from pathlib import Path

import pytest
from playwright.async_api import Browser, Route, expect

from tests.api.serving import Served
from tests.conftest import wait_until
from tests.ui.browser import shoot, watch_console
from tests.ui.picturing import XSS, picture_library
from tests.ui.searching import TITLE, teach, tell


@pytest.mark.spec("L12")
async def test_words_are_found_while_they_are_typed_with_the_moment_to_jump_to(
    served: Served, browser: Browser, tmp_path: Path
) -> None:
    made = await picture_library(served, tmp_path / "photos", pictures=10)
    await tell(served)
    page = await browser.new_page(viewport={"width": 1280, "height": 900})
    complaints = watch_console(page)
    await page.goto(f"{served.url}/search")
    await expect(page.locator(".how")).to_contain_text("The newest")
    await page.get_by_role("searchbox", name="Search").press_sequentially("market wall")
    await expect(page.locator(".hit")).to_have_count(1)
    await expect(page).to_have_url(re.compile(r"/search\?q=market\+wall$"))
    hit = page.locator(".hit")
    await expect(hit.locator("mark")).to_have_text(["market", "wall", "MARKET"])
    await expect(hit.locator(".at")).to_have_text("0:02")
    await expect(hit.locator(".badge")).to_have_text(["words"])
    await expect(page.locator(".how .spinner")).to_have_count(0)  # meaning and look have had their say
    await hit.locator(".thumb").hover()
    await expect(hit.locator("video.clip")).to_be_visible()
    await hit.get_by_role("link", name="the harbour.mp4", exact=True).click()
    await expect(page).to_have_url(re.compile(rf"/assets/{made['film']}\?t=2\.1"))
    await wait_until(
        lambda: page.evaluate("Math.abs(document.getElementById('film')?.currentTime - 2.1) < 0.3")
    )
    assert complaints == []


async def test_a_search_that_is_overtaken_is_no_lost_connection(served: Served, browser: Browser) -> None:
    page, go_on = await browser.new_page(), asyncio.Event()
    complaints = watch_console(page)

    async def later(route: Route) -> None:
        await go_on.wait()
        await route.fallback()

    await page.route("**/search?part=words*", later)
    await page.goto(f"{served.url}/search")
    for words in ("market", "market wall"):
        async with page.expect_request("**/search?part=words*"):
            await page.get_by_role("searchbox", name="Search").fill(words)
    await expect(page.get_by_text("Connection lost")).to_be_hidden()
    await page.unroute("**/search?part=words*")
    go_on.set()
    await expect(page.locator("#found")).to_contain_text("Nothing found for “market wall”")
    assert complaints == []


async def test_what_strangers_wrote_is_shown_and_does_nothing(
    served: Served, browser: Browser, tmp_path: Path
) -> None:
    await picture_library(served, tmp_path / "photos", pictures=10)
    await tell(served)
    page = await browser.new_page()
    complaints = watch_console(page)
    await page.goto(f"{served.url}/search?q=boat")
    await expect(page.locator(".hit")).to_have_count(3)
    await expect(page.locator("#found")).to_contain_text(TITLE)
    assert await page.locator("#found :is(b, i, script, img[onerror])").count() == 0
    assert await page.locator("a[href^='javascript']").count() == 0
    assert await page.evaluate("window.hurt") is None
    await page.goto(f"{served.url}/search?q={XSS.replace('<', '%3C')}%22%27")
    await expect(page.locator("#found")).to_be_visible()
    assert await page.evaluate("window.hurt") is None
    assert complaints == []


@pytest.mark.spec("L12")
async def test_meaning_and_look_come_after_words_and_more_like_this_finds_its_like(
    served: Served, browser: Browser, tmp_path: Path
) -> None:
    made = await picture_library(served, tmp_path / "photos", pictures=12)
    await teach(served, made)
    page = await browser.new_page(viewport={"width": 1280, "height": 900})
    complaints = watch_console(page)
    await page.goto(f"{served.url}/search?q=vegetables+for+sale")
    await expect(page.locator(".how")).to_contain_text("meaning, look")
    await expect(page.locator(".spinner")).to_have_count(0)
    film = page.locator(".hit.video")
    await expect(film.locator(".badge")).to_have_text(["meaning"])
    await expect(film.locator(".at")).to_have_text("0:02")
    await expect(page.locator(".hit.image").first.locator(".badge")).to_have_text(["look"])
    await page.locator(".hit.image").first.get_by_role("link", name=re.compile("Similar to")).click()
    await expect(page.locator(".how")).to_contain_text("More like this one")
    await expect(page.locator(".hit")).to_have_count(5)
    await page.get_by_role("link", name="this one").click()
    await expect(page.locator("#alike .cell")).to_have_count(5)
    assert complaints == []


@pytest.mark.spec("L20")
async def test_without_pgvector_the_page_says_that_only_words_find(
    served: Served, browser: Browser, tmp_path: Path
) -> None:
    made = await picture_library(served, tmp_path / "photos", pictures=3)
    await teach(served, made)
    await served.run("alter table search_vectors alter column v type real[]")
    page = await browser.new_page(viewport={"width": 1280, "height": 900})
    await page.goto(f"{served.url}/search?q=market")
    await expect(page.locator(".hit")).not_to_have_count(0)
    await expect(page.locator(".notice")).to_contain_text("Search is by words only")
    assert "Looking by meaning" not in (await served.client.get("/search", params={"q": "market"})).text
    await shoot(page, "search-words-only")


async def test_filters_narrow_it_and_nothing_found_comes_with_advice(
    served: Served, browser: Browser, tmp_path: Path
) -> None:
    made = await picture_library(served, tmp_path / "photos", pictures=10)
    await tell(served)
    page = await browser.new_page()
    await page.goto(f"{served.url}/search?q=boat")
    await expect(page.locator(".hit")).to_have_count(3)
    await page.get_by_label("Where").select_option("video")
    await expect(page.locator(".hit")).to_have_count(1)
    await page.get_by_label("Where").select_option("")
    await page.get_by_label("Library").select_option(made["slug"])
    await expect(page.locator(".hit")).to_have_count(1)
    await page.get_by_label("From").fill("2024-08-25")
    await expect(page.locator("#found")).to_contain_text("Nothing found for “boat”")
    await page.get_by_role("link", name="Search everywhere").click()
    await expect(page.locator(".hit")).to_have_count(3)
    answer = await served.client.get("/search", params={"q": "x", "library": "nowhere"})
    assert answer.status_code == 404
    assert "There is no library" in answer.text
    for query in ({"q": "x " * 600}, {"like": "asset:x"}):
        answer = await served.client.get("/search", params=query)
        assert answer.status_code == 422
        assert 'role="alert"' in answer.text


async def test_search_works_without_javascript(served: Served, browser: Browser, tmp_path: Path) -> None:
    made = await picture_library(served, tmp_path / "photos", pictures=12)
    await teach(served, made)
    context = await browser.new_context(java_script_enabled=False)
    page = await context.new_page()
    await page.goto(f"{served.url}/search")
    await page.get_by_role("searchbox", name="Search").fill("market")
    await page.get_by_role("button", name="Search").click()
    await expect(page.locator(".hit")).to_have_count(1)
    await page.get_by_role("link", name="Search by meaning and look, too").click()
    await expect(page.locator(".hit")).to_have_count(7)
